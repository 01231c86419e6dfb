package conduct

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// theirSecret is somebody else's under the name of one of ours.
func theirSecret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-foreign"}}
}

// TestAForeignSecretOutlivesEverything: a start that finds one in its way is refused, and neither its undo, nor the reconcile loop that
// goes on with an undo that died, nor a stop or a removal deletes it.
func TestAForeignSecretOutlivesEverything(t *testing.T) {
	for _, name := range []string{sandboxSecret, supervisorFile} {
		for n := range 6 {
			t.Run(fmt.Sprintf("%s, the undo dies at write %d", name, n), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(fresh())
					w.secrets[name] = theirSecret(name)
					ctx, end := context.WithCancel(t.Context())
					defer end()
					undo := 0
					w.before = func(write string) error {
						if strings.HasPrefix(write, "change sandbox to releasing") || undo > 0 {
							if undo++; undo > n {
								return context.Canceled // as with its process
							}
						}
						return nil
					}
					s := newSite(t, w)
					s.refused(ctx, s.goal(plan.Provision), string(plan.Collision))
					w.before = nil
					other := newSite(t, w)
					if n > 0 {
						other.keep()
						other.do(other.goal(plan.Release))
					}
					other.do(other.goal(plan.Remove))
					if found := w.secrets[name]; found == nil || found.UID != "uid-foreign" || len(w.secrets) != 1 || len(w.pods) != 0 {
						t.Errorf("%d Secrets, %d Pods\n%v", len(w.secrets), len(w.pods), w.done())
					}
				})
			})
		}
	}
}

// TestASecretMadeAfterARunIsLeftAlone: the names are those of the next run, and of whoever takes them; the uids are not.
func TestASecretMadeAfterARunIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		s := newSite(t, w)
		s.do(s.goal(plan.Provision))
		w.change(func(w *world) { w.secrets[sandboxSecret] = theirSecret(sandboxSecret) })
		other := newSite(t, w)
		other.do(other.goal(plan.Release))
		if found := w.secrets[sandboxSecret]; found == nil || len(w.secrets) != 1 {
			t.Errorf("%v\n%v", w.secrets, w.done())
		}
		out := other.refused(t.Context(), other.goal(plan.Restart), string(plan.Collision))
		if !strings.Contains(out.Step.Explanation, sandboxSecret) || w.secrets[sandboxSecret] == nil {
			t.Errorf("%s\n%v", out.Step.Explanation, w.done())
		}
	})
}

// TestARestartWaitsForTheGarbageCollector: a Secret of the former run that is about to go is no collision.
func TestARestartWaitsForTheGarbageCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stopped(t)
		s.world.change(func(w *world) { w.secrets[supervisorFile] = theirSecret(supervisorFile) })
		go func() {
			time.Sleep(3 * time.Second)
			s.world.change(func(w *world) { delete(w.secrets, supervisorFile) })
		}()
		s.do(s.goal(plan.Restart))
		s.whole()
		for _, write := range s.world.done() {
			if strings.HasPrefix(write, "delete secret") {
				t.Errorf("%s", write)
			}
		}
	})
}

// TestAnAnswerThatIsLost: a create that was carried out, or was not, and whose answer nobody heard is in its own way, or somebody else's
// Secret is in its way. Nothing tells the two apart, so the run is undone, ours goes with its Pod, and the other one stays.
func TestAnAnswerThatIsLost(t *testing.T) {
	for _, goal := range []plan.Goal{plan.Provision, plan.Restart} {
		for _, name := range []string{sandboxSecret, supervisorFile} {
			for _, theirs := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, somebody else's %t", goal, name, theirs), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := newSite(t, newWorld(fresh()))
						if goal == plan.Restart {
							s = stopped(t)
						}
						w := s.world
						lost := at("create secret "+name, func(write string) error {
							w.change(func(w *world) {
								if theirs {
									w.secrets[name] = theirSecret(name)
								}
							})
							return fmt.Errorf("%s: %w", write, cluster.ErrUnsettled)
						})
						if theirs {
							w.before = lost
						} else {
							w.after = lost
						}
						began := time.Now()
						out := s.refused(t.Context(), s.goal(goal), string(plan.Broke))
						if took := time.Since(began); took > time.Second || !strings.Contains(out.Step.Explanation, name) {
							t.Errorf("after %s: %s", took, out.Step.Explanation)
						}
						if _, stays := w.secrets[name]; stays != theirs || len(w.pods) != 0 || len(w.secrets) > 1 {
							t.Errorf("%d Secrets, %d Pods\n%v", len(w.secrets), len(w.pods), w.done())
						}
						w.change(func(w *world) { delete(w.secrets, name) })
						s.do(s.goal(plan.Restart))
						s.whole()
					})
				})
			}
		}
	}
}

// TestATakeOverDeletesNothing that stands in its way: the former call of the same process, which may be taken over at once, wrote both Pods
// into the record and found somebody else's Secret.
func TestATakeOverDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		ctx, end := context.WithCancel(t.Context())
		w.before = at("create secret "+sandboxSecret, func(string) error { end(); return context.Canceled })
		s := newSite(t, w)
		s.refused(ctx, s.goal(plan.Provision), string(verdict.CallEnded))
		w.secrets[sandboxSecret] = theirSecret(sandboxSecret)
		began := time.Now()
		s.refused(t.Context(), s.goal(plan.Provision), string(plan.Collision))
		if took := time.Since(began); took > time.Second { // its owner may be the workload Pod, with which the take-over goes on
			t.Errorf("it waits %s for what does not go", took)
		}
		if found := w.secrets[sandboxSecret]; found == nil || found.UID != "uid-foreign" || len(w.secrets) != 1 || len(w.pods) != 0 {
			t.Errorf("%d Secrets, %d Pods\n%v", len(w.secrets), len(w.pods), w.done())
		}
	})
}

// TestSecretsInTheWayHaveOneLimit, however many they are, so that the attempt has time for what comes after them; and they are not asked
// for all the time.
func TestSecretsInTheWayHaveOneLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stopped(t)
		w := s.world
		w.change(func(w *world) {
			for _, name := range []string{sandboxSecret, supervisorFile} {
				w.secrets[name] = theirSecret(name)
			}
		})
		tries, began := 0, time.Time{}
		w.before = func(write string) error {
			if strings.HasPrefix(write, "create secret ") {
				if tries++; began.IsZero() {
					began = time.Now()
				}
				if write == "create secret "+sandboxSecret && time.Since(began) > goingLimit-2*seldom {
					w.change(func(w *world) { delete(w.secrets, sandboxSecret) })
				}
			}
			return nil
		}
		s.refused(t.Context(), s.goal(plan.Restart), string(plan.Collision))
		if took := time.Since(began); took > goingLimit+2*seldom || tries > 40 {
			t.Errorf("%d tries in %s", tries, took)
		}
	})
}

// TestSecretsThatNobodyKnows: a run that the loop finished, since its call died, is stopped without a delete by name; its Secrets go with
// their Pods.
func TestSecretsThatNobodyKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		ctx, end := context.WithCancel(t.Context())
		w.after = at("ungate "+supervisorPod, func(string) error { end(); return context.Canceled })
		s := newSite(t, w)
		s.refused(ctx, s.goal(plan.Provision), string(verdict.CallEnded))
		other := newSite(t, w)
		other.keep()
		other.whole()
		if r := other.record(); r.Secrets != "" {
			t.Errorf("the record says %q", r.Secrets)
		}
		before := len(w.done())
		other.do(other.goal(plan.Release))
		other.bare()
		for _, write := range w.done()[before:] {
			if strings.HasPrefix(write, "delete secret") {
				t.Errorf("%s", write)
			}
		}
	})
}

// TestWhatARecordMayName: only the Secrets of the run, whoever wrote to it.
func TestWhatARecordMayName(t *testing.T) {
	pull := "os-pull-" + sandboxID + "-g00000000000-1"
	for name, tc := range map[string]struct {
		record string
		want   map[string]string
	}{
		"nothing":           {"", map[string]string{}},
		"both and a copy":   {pull + "=u3," + sandboxSecret + "=u1," + supervisorFile + "=u2", map[string]string{sandboxSecret: "u1", supervisorFile: "u2", pull: "u3"}},
		"somebody else's":   {"database=u1," + sandboxSecret + "=u2", map[string]string{sandboxSecret: "u2"}},
		"another sandbox's": {"os-sandbox-x-g00000000000=u1", map[string]string{}},
		"nonsense":          {",,=,a=b=c," + sandboxSecret, map[string]string{}},
	} {
		if diff := cmp.Diff(tc.want, secretsOf(tc.record, sandboxID, generation)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := secretsOf(sandboxSecret+"=u", sandboxID, ""); len(got) != 0 {
		t.Errorf("of no run: %v", got)
	}
	known := map[string]string{sandboxSecret: "u1", supervisorFile: "u2", pull: "u3"}
	if got := secretsOf(secretsRecord(known), sandboxID, generation); !maps.Equal(got, known) {
		t.Errorf("%v", got)
	}
}

// TestAStopNamesUids: of every Secret that it deletes.
func TestAStopNamesUids(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		s := newSite(t, w)
		s.do(s.goal(plan.Provision))
		other := newSite(t, w)
		before := len(w.done())
		other.do(other.goal(plan.Release))
		if got := strings.Join(w.done()[before:], "; "); strings.Count(got, "delete secret") != 2 || strings.Contains(got, "name alone") {
			t.Errorf("%s", got)
		}
	})
}

// TestAnUndoEndsInTime: a controller or a Pod that does not come to its end keeps the caller from nothing. What is left is the loop's,
// by the record.
func TestAnUndoEndsInTime(t *testing.T) {
	for name, hang := range map[string]func(w *world){
		"the controller hangs":    func(w *world) { w.idle = true },
		"a Pod does not go":       func(w *world) { w.lingers = true },
		"the API server is slow":  func(w *world) { w.before = func(string) error { time.Sleep(4 * time.Second); return nil } },
		"the API server is away":  func(w *world) { w.before = always("", cluster.ErrUnsettled) },
		"nothing can be read now": func(w *world) { w.read = always("", errNo) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(fresh())
				began := time.Time{}
				w.before = at("create secret "+supervisorFile, func(write string) error {
					began = time.Now()
					w.change(func(w *world) { w.before = nil; hang(w) })
					return fmt.Errorf("%s: %w: exceeded quota", write, cluster.ErrRefused)
				})
				s := newSite(t, w)
				out := s.refused(t.Context(), s.goal(plan.Provision), string(CompanionRefused))
				if took := time.Since(began); took > undoLimit+4*time.Second {
					t.Errorf("it took %s", took)
				}
				if !strings.Contains(out.Step.Explanation, "still being taken away") {
					t.Errorf("%s", out.Step.Explanation)
				}
				w.change(func(w *world) {
					w.before, w.read, w.idle, w.lingers = nil, nil, false, false
					w.reconcile()
					for name, pod := range w.pods {
						if pod.DeletionTimestamp != nil {
							w.end(name)
						}
					}
				})
				other := newSite(t, w)
				other.keep()
				other.bare()
				if r := other.record(); r.StopReason == "" || r.StopExplanation == "" {
					t.Errorf("the record does not say why: %+v", r)
				}
			})
		})
	}
}

// TestAnUndoLeavesTheRunOfAnother alone: an attempt may be refused so late that another replica has taken over by the time it is undone.
func TestAnUndoLeavesTheRunOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		other := newSite(t, w)
		w.before = at("create secret "+sandboxSecret, func(write string) error {
			w.change(func(w *world) { w.before = nil })
			other.finish(plan.Provision)
			other.whole()
			return fmt.Errorf("%s: %w: exceeded quota", write, cluster.ErrRefused)
		})
		out := newSite(t, w).refused(t.Context(), other.goal(plan.Provision), string(CompanionRefused))
		if !strings.Contains(out.Step.Explanation, "left alone: the run is attempt") || strings.Contains(out.Step.Explanation, "taken away") {
			t.Errorf("%s", out.Step.Explanation)
		}
		other.whole()
	})
}

// TestAStopThatIsRefusedUndoesNothing of the run that a Restart was to begin after it.
func TestAStopThatIsRefusedUndoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stopped(t)
		w := s.world
		s.do(s.goal(plan.Restart))
		w.change(func(w *world) { w.end(boxName) })
		w.before = at("delete pod "+supervisorPod, func(write string) error { return fmt.Errorf("%s: %w", write, cluster.ErrRefused) })
		before := len(w.done())
		out := s.refused(t.Context(), s.goal(plan.Restart), string(CompanionRefused))
		if done := w.done()[before:]; len(done) != 1 || strings.Contains(out.Step.Explanation, "taken away") {
			t.Errorf("%s\n%v", out.Step.Explanation, done)
		}
		s.keep()
		s.bare()
	})
}
