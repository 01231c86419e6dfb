package conduct

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
)

// TestReplayL01APodDeletedOutside is reported at the next look, with its reason, and a start makes a new one.
func TestReplayL01APodDeletedOutside(t *testing.T) {
	for _, name := range []string{boxName, supervisorPod} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(fresh())
			s := newSite(t, w)
			s.do(s.goal(plan.Provision))
			w.change(func(w *world) { w.end(name) })
			if out := s.looks(); out.Step.Reason != plan.Broke || !strings.Contains(out.Step.Explanation, "is gone") {
				t.Errorf("%+v", out.Step)
			}
			s.keep()
			s.bare()
			if r := s.record(); r.StopReason != string(plan.Broke) {
				t.Errorf("%+v", r)
			}
			s.do(s.goal(plan.Restart))
			s.whole()
		})
	}
}

// TestReplayL03ALookThatIsOutOfDate decides nothing: whoever else has written to the Sandbox makes the write fail, and a new look follows.
func TestReplayL03ALookThatIsOutOfDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		other := newSite(t, w)
		w.before = at("change sandbox to preparing, Running", func(string) error {
			other.do(other.goal(plan.Provision)) // another replica does the whole of it meanwhile
			return nil
		})
		s := newSite(t, w)
		s.do(s.goal(plan.Provision))
		s.whole()
		if pods, secrets := strings.Count(strings.Join(w.done(), " "), "create pod"), len(w.handed); pods != 1 || secrets != 2 {
			t.Errorf("%d supervisor Pods, %d Secrets were made for one run", pods, secrets)
		}
	})
}

// TestReplayL04WhatExists: ours is used, somebody else's is an error of its own, and nothing is tried for ever.
func TestReplayL04WhatExists(t *testing.T) {
	for n, write := range provisioned[:4] {
		for name, ours := range map[string]bool{"ours": true, "theirs": false} {
			t.Run(write+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(fresh())
					w.before = at(write, func(write string) error {
						if ours {
							former := newSite(t, w) // the write of another attempt, whose answer was lost
							w.change(func(w *world) { w.after = at(write, func(string) error { return errNo }) })
							return former.only(n)
						}
						w.change(func(w *world) {
							switch n {
							case 0:
								w.policies["openshell-sandbox-workloads"] = foreignPolicy()
							case 1:
								w.policies["openshell-sandbox-supervisors"] = &networkingv1.NetworkPolicy{ObjectMeta: foreign("openshell-sandbox-supervisors")}
							case 2:
								w.services[boundary] = &corev1.Service{ObjectMeta: foreign(boundary)}
							case 3:
								w.pods[supervisorPod] = &corev1.Pod{ObjectMeta: foreign(supervisorPod)}
							}
						})
						return nil
					})
					s := newSite(t, w)
					if ours {
						s.do(s.goal(plan.Provision))
						s.whole()
						return
					}
					s.refused(t.Context(), s.goal(plan.Provision), string(plan.Collision))
				})
			})
		}
	}
}

// only makes the n-th companion of a Provision, as another process does.
func (s *site) only(n int) error {
	r := &round{Conductor: s.Conductor, goal: s.goal(plan.Provision), wanted: plan.Provision, log: s.Conductor.log}
	r.look(s.t.Context())
	action := [...]plan.Action{plan.CreateWorkloadFence, plan.CreateSupervisorFence, plan.CreateService, plan.CreateSupervisor}[n]
	if _, err := r.carryOut(s.t.Context(), plan.Step{Action: action}); err != nil && !errors.Is(err, errNo) {
		return err
	}
	return nil
}

// TestReplayL07OurOwnWritesAreSeen: what a write answered replaces what was seen, so that no look that is behind makes a second object.
func TestReplayL07OurOwnWritesAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		s := newSite(t, w)
		s.do(s.goal(plan.Provision))
		done := w.done()
		slices.Sort(done)
		for i, write := range done[1:] {
			if write == done[i] && strings.HasPrefix(write, "create") {
				t.Errorf("%s, twice", write)
			}
		}
	})
}

// TestReplayL14APodOfTheFormerSandbox of the same name is not adopted: it is another owner's by its uid.
func TestReplayL14APodOfTheFormerSandbox(t *testing.T) {
	for _, name := range []string{supervisorPod, boxName} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(fresh())
			s := newSite(t, w)
			s.do(s.goal(plan.Provision))
			// The Sandbox was deleted and made anew; its former Pod is still there.
			var former *corev1.Pod
			w.change(func(w *world) {
				former = w.pods[name]
				w.pods, w.services, w.secrets = map[string]*corev1.Pod{name: former}, map[string]*corev1.Service{}, map[string]*corev1.Secret{}
				w.box = fresh()
				w.box.UID = "uid-new"
				w.idle = true // a controller leaves what is not its own
			})
			goal := s.goal(plan.Provision)
			goal.Ref.UID = "uid-new"
			out := s.refused(t.Context(), goal, string(plan.Collision))
			if found := w.pods[name]; found == nil || found.UID != former.UID || found.DeletionTimestamp != nil || !strings.Contains(out.Step.Explanation, name) {
				t.Errorf("%s: %v", out.Step.Explanation, found)
			}
		})
	}
}

// TestReplayP02TwoManagersOfOnePolicy agree on what it says, or one is refused. Nobody deletes or writes to what the other made.
func TestReplayP02TwoManagersOfOnePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		first := newSite(t, w)
		first.do(first.goal(plan.Provision))
		fence := w.policies["openshell-sandbox-workloads"].DeepCopy()
		second := newSite(t, w)
		second.do(second.goal(plan.Restart))
		second.do(second.goal(plan.Remove))
		w.change(func(w *world) {
			w.box = fresh()
			w.policies["openshell-sandbox-workloads"].Spec.Egress = []networkingv1.NetworkPolicyEgressRule{open}
			w.policies["openshell-sandbox-workloads"].Generation++
		})
		altered := w.policies["openshell-sandbox-workloads"].DeepCopy()
		second.refused(t.Context(), second.goal(plan.Provision), string(plan.FenceAltered))
		if got := w.policies["openshell-sandbox-workloads"]; got.UID != fence.UID || got.Generation != altered.Generation || len(got.Spec.Egress) != 1 {
			t.Errorf("%+v", got)
		}
		for _, write := range w.done() {
			if strings.Contains(write, "policy") && !strings.HasPrefix(write, "create") {
				t.Errorf("%s", write)
			}
		}
		if n := strings.Count(strings.Join(w.done(), " "), "create policy"); n != 2 {
			t.Errorf("%d policies were made", n)
		}
	})
}

// TestReplayP03APolicyOfSomebodyElse under our name is neither overwritten nor deleted, and an Event says so; one that opens the fence is
// reported and left alone.
func TestReplayP03APolicyOfSomebodyElse(t *testing.T) {
	for name, event := range map[string]string{"openshell-sandbox-workloads": "CompanionCollision", "openshell-sandbox-supervisors": "CompanionCollision", "web": "FenceReopened"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(fresh())
			w.policies[name] = opening(name, nil)
			before := fmt.Sprint(w.policies[name])
			s := newSite(t, w)
			out, err := s.Do(t.Context(), s.goal(plan.Provision))
			if err != nil || (out.Step.Reason == plan.Collision) != (name != "web") {
				t.Errorf("%s: %v, %+v", name, err, out.Step)
			}
			s.looks()
			s.do(s.goal(plan.Remove))
			synctest.Wait()
			if got := fmt.Sprint(w.policies[name]); got != before {
				t.Errorf("%s: %s", name, got)
			}
			if !strings.Contains(w.reasons(), event) {
				t.Errorf("%s: Events %q", name, w.reasons())
			}
		})
	}
}

// TestReplayP07NoEmptyLists: what is sent says nothing where it means nothing. An empty list of ports or peers would mean all of them.
func TestReplayP07NoEmptyLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		s := newSite(t, w)
		s.do(s.goal(plan.Provision))
		for name, policy := range w.policies {
			raw, err := json.Marshal(policy.Spec)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), "[]") {
				t.Errorf("%s: %s", name, raw)
			}
			for _, rule := range policy.Spec.Ingress {
				if len(rule.Ports) != 1 || rule.Ports[0].Port == nil || len(rule.From) != 1 || rule.From[0].PodSelector == nil || len(rule.From[0].PodSelector.MatchLabels) == 0 {
					t.Errorf("%s: %+v", name, rule)
				}
			}
		}
		fence := w.policies["openshell-sandbox-workloads"]
		if !slices.Equal(fence.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}) || len(fence.Spec.Egress) != 0 || len(fence.Spec.PodSelector.MatchLabels) == 0 {
			t.Errorf("%+v", fence.Spec)
		}
	})
}
