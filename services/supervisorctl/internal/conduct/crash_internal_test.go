package conduct

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// nth calls do at the nth write.
func nth(n int, do func(write string) error) func(string) error {
	return func(write string) error {
		if n--; n != 0 {
			return nil
		}
		return do(write)
	}
}

// at calls do at the first write of that name.
func at(name string, do func(write string) error) func(string) error {
	done := false
	return func(write string) error {
		if done || write != name {
			return nil
		}
		done = true
		return do(write)
	}
}

// whole demands the set of a run that was released, with Secrets of one make.
func (s *site) whole() {
	s.t.Helper()
	s.world.fenced(s.t)
	r := s.record()
	w := s.world
	if r.Phase != runstate.Released || len(w.pods) != 2 || len(w.secrets) != 2 || len(w.services) != 1 || len(w.policies) != 2 {
		s.t.Errorf("phase %q, %d Pods, %d Secrets, %d Services, %d policies", r.Phase, len(w.pods), len(w.secrets), len(w.services), len(w.policies))
		return
	}
	if string(w.pods[supervisorPod].UID) != r.SupervisorUID || string(w.pods[boxName].UID) != r.WorkloadUID {
		s.t.Errorf("the Pods are not those of the record: %+v", r)
	}
	for name, owner := range map[string]string{sandboxSecret: r.WorkloadUID, supervisorFile: r.SupervisorUID} {
		if secret := w.secrets[name]; secret == nil || string(secret.OwnerReferences[0].UID) != owner {
			s.t.Errorf("Secret %s is not its Pod's", name)
		}
	}
	oneMake(s.t, w)
}

// bare demands that nothing of a run is left, and that the Sandbox is at rest.
func (s *site) bare() {
	s.t.Helper()
	r := s.record()
	w := s.world
	if r.Phase != "" || r.Generation != "" || len(w.pods) != 0 || len(w.secrets) != 0 {
		s.t.Errorf("%+v, %d Pods, %d Secrets\n%v", r, len(w.pods), len(w.secrets), w.writes)
	}
}

// TestEveryWriteMayFail: whichever write of a Provision is lost, delayed or in conflict, the call comes to its end, without Secrets of
// two makes and without a Pod that runs too early.
func TestEveryWriteMayFail(t *testing.T) {
	for name, fail := range map[string]struct {
		before bool
		err    error
	}{
		"unsettled, not done": {true, cluster.ErrUnsettled},
		"unsettled, done":     {false, cluster.ErrUnsettled},
		"held back":           {true, errors.New("held back")},
		"conflict":            {true, cluster.ErrConflict},
	} {
		for n := range provisioned {
			if name == "conflict" && slices.Contains([]int{0, 1, 2, 3, 6, 7}, n) {
				continue // a create is in no conflict
			}
			t.Run(fmt.Sprintf("%s at %s", name, provisioned[n]), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(fresh())
					hook := at(provisioned[n], func(write string) error { return fmt.Errorf("%s: %w", write, fail.err) })
					if fail.before {
						w.before = hook
					} else {
						w.after = hook
					}
					s := newSite(t, w)
					if !fail.before && strings.HasPrefix(provisioned[n], "create secret") { // nobody can tell whose it is
						s.refused(t.Context(), s.goal(plan.Provision), string(plan.Broke))
						s.bare()
						return
					}
					s.do(s.goal(plan.Provision))
					s.whole()
				})
			})
		}
	}
}

// TestEveryWriteMayBeTheLast: a call that ends between two writes, as with its process, is finished by another replica, or undone by
// its reconcile loop.
func TestEveryWriteMayBeTheLast(t *testing.T) {
	for n := range provisioned {
		for _, done := range []bool{false, true} {
			for _, finish := range []string{"another replica", "the reconcile loop"} {
				t.Run(fmt.Sprintf("%s, done %t, %s", provisioned[n], done, finish), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(fresh())
						ctx, end := context.WithCancel(t.Context())
						ends := at(provisioned[n], func(string) error { end(); return context.Canceled })
						if done {
							w.after = ends
						} else {
							w.before = ends
						}
						s := newSite(t, w)
						s.refused(ctx, s.goal(plan.Provision), string(verdict.CallEnded))
						w.fenced(t)
						w.before, w.after = nil, nil
						other := newSite(t, w)
						if finish == "another replica" {
							if half := w.half(); other.finish(plan.Provision) == half {
								t.Errorf("half-made: %t\n%v", half, w.done())
							} else if half {
								other.bare()
							} else {
								other.whole()
							}
							return
						}
						other.keep()
						if phase := other.record().Phase; phase == "" {
							other.bare()
						} else {
							other.whole()
						}
					})
				})
			}
		}
	}
}

// half reports whether a start has made a Secret of which nobody knows the uid any more, and whose Pod stays.
func (w *world) half() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod := w.pods[supervisorPod]
	return w.secrets[sandboxSecret] != nil && pod != nil && len(pod.Spec.SchedulingGates) > 0
}

// finish calls until the former attempt may be taken over. It reports whether the run stands; a half-made one is refused and undone.
func (s *site) finish(goal plan.Goal) bool {
	s.t.Helper()
	for range 3 {
		out, err := s.Do(s.t.Context(), s.goal(goal))
		if err != nil {
			s.t.Fatal(err)
		}
		if out.Step.Action == plan.Done {
			return true
		}
		if out.Step.Reason == plan.Collision {
			return false
		}
		if out.Step.Reason != plan.IsTaken {
			s.t.Fatalf("%s: %s", out.Step.Reason, out.Step.Explanation)
		}
		time.Sleep(takeOver)
	}
	s.t.Fatal("it is never taken over")
	return false
}

// keep has the reconcile loop look until nothing is to be done.
func (s *site) keep() {
	s.t.Helper()
	for range 20 {
		before := len(s.world.done())
		goal := Goal{Want: plan.Want{Goal: plan.Keep, Ref: theRef()}, Idle: plan.IdleLimit, Still: s.still()}
		out, err := s.Do(s.t.Context(), goal)
		if err != nil || out.Step.Action != plan.Done {
			s.t.Fatalf("%v, %s: %s", err, out.Step.Reason, out.Step.Explanation)
		}
		if len(s.world.done()) == before {
			return
		}
	}
	s.t.Fatal("the loop never comes to rest")
}

// TestEveryWriteOfAStopMayBeTheLast: a stop that ends is finished by the next one, or by the loop.
func TestEveryWriteOfAStopMayBeTheLast(t *testing.T) {
	type end struct {
		n           int
		done, again bool
	}
	var ends []end
	for n := range stopWrites(t) {
		for _, done := range []bool{false, true} {
			ends = append(ends, end{n, done, false}, end{n, done, true})
		}
	}
	for _, e := range ends {
		n, done := e.n, e.done
		t.Run(fmt.Sprintf("write %d, done %t, called again %t", n, done, e.again), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(fresh())
				s := newSite(t, w)
				s.do(s.goal(plan.Provision))
				ctx, end := context.WithCancel(t.Context())
				ends := nth(n+1, func(string) error { end(); return context.Canceled })
				if done {
					w.after = ends
				} else {
					w.before = ends
				}
				if out, err := s.Do(ctx, s.goal(plan.Release)); err != nil || out.Step.Reason != verdict.CallEnded {
					t.Fatalf("%v, %+v", err, out.Step)
				}
				w.before, w.after = nil, nil
				other := newSite(t, w)
				if e.again {
					other.do(other.goal(plan.Release))
				} else {
					other.keep()
				}
				if n > 0 || done || e.again {
					other.bare()
				} else {
					other.whole() // nothing says that it was to end
				}
			})
		})
	}
}

// stopWrites is how many writes a stop takes that nothing interrupts.
func stopWrites(t *testing.T) (writes int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, newWorld(fresh()))
		s.do(s.goal(plan.Provision))
		before := len(s.world.done())
		s.do(s.goal(plan.Release))
		writes = len(s.world.done()) - before
	})
	return writes
}

// TestEveryRefusalIsUndone: whatever the cluster refuses, nothing of the run is left, also when the caller has gone by then.
func TestEveryRefusalIsUndone(t *testing.T) {
	for n := range provisioned {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, caller gone %t", provisioned[n], gone), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(fresh())
					ctx, end := context.WithCancel(t.Context())
					defer end()
					w.before = at(provisioned[n], func(write string) error {
						if gone {
							end()
						}
						return fmt.Errorf("%s: %w: exceeded quota", write, cluster.ErrRefused)
					})
					s := newSite(t, w)
					out := s.refused(ctx, s.goal(plan.Provision), string(CompanionRefused))
					if got := out.Step.Explanation; got != provisioned[n]+": the cluster refuses it: exceeded quota" {
						t.Errorf("%s", got)
					}
					s.bare()
				})
			})
		}
	}
}

// fenced reports whether no Pod of the set may run without the fence.
func (w *world) fenced(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, pod := range w.pods {
		if len(pod.Spec.SchedulingGates) == 0 && len(w.policies) != 2 {
			t.Errorf("Pod %s may run, and there are %d policies", name, len(w.policies))
		}
	}
}
