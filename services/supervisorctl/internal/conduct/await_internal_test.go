package conduct

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// resumed calls do once the Sandbox was made to run; the controller makes no Pod.
func resumed(w *world, do func(w *world)) {
	w.idle = true
	w.after = func(write string) error {
		if write == "change sandbox to preparing, Running" {
			w.change(do)
		}
		return nil
	}
}

func says(message string) func(w *world) {
	return func(w *world) { w.say(sandboxapi.ConditionReady, false, message) }
}

// TestReplayL12ARefusedPodIsToldAtOnce: what keeps the controller from making a Pod is the reason, long before the time is up.
func TestReplayL12ARefusedPodIsToldAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		message string
		reason  string
	}{
		"quota":            {`failed to create pod: pods "demo" is forbidden: exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3`, "workload_refused"},
		"pod security":     {`pods "demo" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`, "workload_refused"},
		"SCC":              {`pods "demo" is forbidden: unable to validate against any security context constraint: [provider "anyuid"]`, "workload_refused"},
		"webhook":          {`admission webhook "policy.example" denied the request: no`, "workload_refused"},
		"validation":       {`Pod "demo" is invalid: spec.containers[0].image: Required value`, "workload_refused"},
		"terminating":      {`pods "demo" is forbidden: unable to create new content in namespace x because it is being terminated`, "workload_refused"},
		"new quota":        {`pods "demo" is forbidden: status unknown for quota: q, resources: pods`, "workload_missing"},
		"webhook is down":  {`Internal error occurred: failed calling webhook "policy.example": connection refused`, "workload_missing"},
		"still coming":     {"Pod does not exist", "workload_missing"},
		"nothing":          {"", "workload_missing"},
		"long and foreign": {strings.Repeat("é", 600) + " exceeded quota", "workload_refused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(fresh())
				resumed(w, says(tc.message))
				s := newSite(t, w)
				// The controller suspends all the same when the run is undone.
				w.before = func(write string) error {
					if strings.HasPrefix(write, "change sandbox to releasing") {
						w.change(func(w *world) { w.idle = false })
					}
					return nil
				}
				began := time.Now()
				out := s.refused(t.Context(), s.goal(plan.Provision), tc.reason)
				took := time.Since(began)
				if prompt := took < 5*time.Second; prompt != (tc.reason == "workload_refused") {
					t.Errorf("after %s of the world's time", took)
				}
				if tc.reason == "workload_refused" && !strings.Contains(out.Step.Explanation, tc.message[:20]) {
					t.Errorf("%s", out.Step.Explanation)
				}
				s.bare()
			})
		})
	}
}

// TestRefusalsOfFormerRunsDoNotCount: neither those of another generation of the object nor those from before the start.
func TestRefusalsOfFormerRunsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := fresh()
		box.Conditions = []sandboxapi.Condition{{Type: sandboxapi.ConditionReady, Status: "False", Message: "exceeded quota", ObservedGeneration: 1}}
		w := newWorld(box)
		w.idle = true
		s := newSite(t, w)
		go func() {
			time.Sleep(10 * time.Second)
			w.change(func(w *world) { w.idle = false; w.reconcile() })
		}()
		s.do(s.goal(plan.Provision))
		s.whole()
	})
}

// TestWhoStopsIsHeard: a start that waits notices that somebody else has stopped the run or is deleting the Sandbox.
func TestWhoStopsIsHeard(t *testing.T) {
	record := func(w *world, edit func(*runstate.Record)) {
		r, err := runstate.Of(w.box.Annotations)
		if err != nil {
			panic(err)
		}
		edit(&r)
		w.box.Annotations, w.box.ResourceVersion = r.Annotations(), w.next()
	}
	for name, tc := range map[string]struct {
		do     func(w *world)
		reason string
	}{
		"deleted": {func(w *world) { w.box.Deleting = true; w.box.ResourceVersion = w.next() }, "run_sandbox_deleting"},
		"gone":    {func(w *world) { w.box = nil }, "run_sandbox_absent"},
		"stopped": {func(w *world) {
			record(w, func(r *runstate.Record) {
				r.Bootstrapping, r.StartedAt, r.Attempt, r.Operation, r.Phase = false, 0, "", runstate.Stop, runstate.Releasing
			})
		}, "run_is_another"},
		"taken": {func(w *world) { record(w, func(r *runstate.Record) { r.Attempt = "other-1" }) }, "run_is_taken"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(fresh())
				resumed(w, tc.do)
				s := newSite(t, w)
				began := time.Now()
				s.refused(t.Context(), s.goal(plan.Provision), tc.reason)
				if took := time.Since(began); took >= workloadLimit {
					t.Errorf("after %s of the world's time", took)
				}
			})
		})
	}
}

// TestAnAlteredWorkloadHasNoSecrets: what admission changed is found before any Secret exists.
func TestAnAlteredWorkloadHasNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		w.admit = func(pod *corev1.Pod) { pod.Spec.HostNetwork = true }
		s := newSite(t, w)
		s.refused(t.Context(), s.goal(plan.Provision), string(plan.WorkloadAltered))
		if len(w.handed) != 0 {
			t.Errorf("%d Secrets were made", len(w.handed))
		}
		s.bare()
	})
}

// TestReplayL17AStopWaitsForThePods: it is not complete before both are gone, and does not wait for ever.
func TestReplayL17AStopWaitsForThePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		s := newSite(t, w)
		s.do(s.goal(plan.Provision))
		w.change(func(w *world) { w.lingers = true })
		began := time.Now()
		s.refused(t.Context(), s.goal(plan.Release), string(StopOverdue))
		if took := time.Since(began); took < grace+headroom {
			t.Errorf("given up after %s of the world's time", took)
		}
		go func() {
			time.Sleep(10 * time.Second)
			w.change(func(w *world) { w.lingers = false; w.end(supervisorPod) })
		}()
		s.do(s.goal(plan.Release))
		s.bare()
	})
}

// TestKeepNeverWaits: the loop has other sandboxes to look at.
func TestKeepNeverWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world)
		reason string
		writes int
	}{
		"a supervisor that is going": {func(w *world) { w.lingers = true; w.end(supervisorPod) }, "run_broke", 1},
		"nothing can be read": {func(w *world) {
			w.read = func(what string) error { return fmt.Errorf("%s: no answer", what) }
		}, "run_object_unreadable", 0},
		"a write that fails": {func(w *world) {
			w.end(supervisorPod)
			w.before = always("change sandbox", cluster.ErrUnsettled)
		}, "run_object_unreadable", 0},
		"nothing is to be done": {func(*world) {}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(fresh())
				s := newSite(t, w)
				s.do(s.goal(plan.Provision))
				writes := len(w.done())
				w.change(tc.change)
				began := time.Now()
				out, err := s.Do(t.Context(), Goal{Want: plan.Want{Goal: plan.Keep, Ref: theRef()}})
				if err != nil || string(out.Step.Reason) != tc.reason || (out.Step.Explanation == "") != (tc.reason == "") {
					t.Errorf("%v, %+v", err, out.Step)
				}
				if took := time.Since(began); took > longest {
					t.Errorf("it waited for %s of the world's time", took)
				}
				if got := len(w.done()) - writes; got != tc.writes {
					t.Errorf("%v", w.done()[writes:])
				}
			})
		})
	}
}

// TestKeepSaysWhyItStops: the reason of a stop that is complete in one look is not lost.
func TestKeepSaysWhyItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		s := newSite(t, w)
		s.do(s.goal(plan.Provision))
		w.change(func(w *world) {
			w.policies["openshell-sandbox-workloads"].Spec.Egress = append(w.policies["openshell-sandbox-workloads"].Spec.Egress, open)
		})
		out := s.do(Goal{Want: plan.Want{Goal: plan.Keep, Ref: theRef()}})
		if out.Step.Reason != plan.FenceAltered || out.Step.Explanation == "" {
			t.Errorf("%+v", out.Step)
		}
		s.keep()
		s.bare()
	})
}

// TestTheEndOfACall is told as such, and not as what the cluster did not answer.
func TestTheEndOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		w.idle = true
		s := newSite(t, w)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s.refused(ctx, s.goal(plan.Provision), string(verdict.CallEnded))
		ended, end := context.WithCancel(t.Context())
		end()
		s.refused(ended, s.goal(plan.Release), string(verdict.CallEnded))
	})
}

// TestNobodyAnswers: a call gives up after a few looks, and so does one whose writes never come through.
func TestNobodyAnswers(t *testing.T) {
	for name, hinder := range map[string]func(w *world){
		"reads":  func(w *world) { w.read = func(what string) error { return errors.New("no answer") } },
		"writes": func(w *world) { w.before = always("", errors.New("no answer")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(fresh())
				hinder(w)
				s := newSite(t, w)
				out := s.refused(t.Context(), s.goal(plan.Provision), string(plan.ObjectUnreadable))
				if !strings.Contains(out.Step.Explanation, "no answer") {
					t.Errorf("%s", out.Step.Explanation)
				}
			})
		})
	}
}

// TestAnAttemptEndsInTime: no write comes later than another attempt may begin, however long the call may last.
func TestAnAttemptEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		w.before = func(write string) error {
			if strings.HasPrefix(write, "create secret "+supervisorFile) {
				time.Sleep(attemptLimit - time.Second)
			}
			if strings.HasPrefix(write, "ungate") {
				time.Sleep(2 * time.Second)
				return fmt.Errorf("%s: %w", write, cluster.ErrUnsettled)
			}
			return nil
		}
		s := newSite(t, w)
		out := s.refused(t.Context(), s.goal(plan.Provision), string(verdict.CallEnded))
		if !strings.Contains(out.Step.Explanation, "try again") {
			t.Errorf("%s", out.Step.Explanation)
		}
		for _, write := range w.done() {
			if strings.HasPrefix(write, "ungate") {
				t.Errorf("%s", write)
			}
		}
	})
}

// TestNothingIsSentTooLate: a write that took very long is followed by none of the same attempt.
func TestNothingIsSentTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		w.before = func(write string) error {
			if strings.HasPrefix(write, "create secret "+supervisorFile) {
				time.Sleep(attemptLimit)
			}
			return nil
		}
		s := newSite(t, w)
		s.refused(t.Context(), s.goal(plan.Provision), string(verdict.CallEnded))
		if done := w.done(); done[len(done)-1] != "create secret "+supervisorFile {
			t.Errorf("%v", done)
		}
	})
}

// TestAnAttemptEndsAlsoWhenItsNameWasWrittenUnheard: the answer to the write that put its name into the record is lost, and late.
func TestAnAttemptEndsAlsoWhenItsNameWasWrittenUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const named = "change sandbox to preparing, Running"
		w := newWorld(fresh())
		w.after = func(write string) error {
			if write != named {
				return nil
			}
			time.Sleep(nameLimit)
			return cluster.ErrUnsettled
		}
		s := newSite(t, w)
		s.refused(t.Context(), s.goal(plan.Provision), string(verdict.CallEnded))
		if done := w.done(); done[len(done)-1] != named {
			t.Errorf("%v", done)
		}
	})
}

// TestOneAtATime: a call waits for another one of the same Sandbox, and the loop does not.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		w.idle = true
		s := newSite(t, w)
		done := make(chan Outcome, 2)
		goal := s.goal(plan.Provision)
		for range 2 {
			go func() {
				out, err := s.Do(t.Context(), goal)
				if err != nil {
					t.Error(err)
				}
				done <- out
			}()
		}
		time.Sleep(time.Second)
		if _, err := s.Do(t.Context(), Goal{Want: plan.Want{Goal: plan.Keep, Ref: theRef()}}); !errors.Is(err, ErrBusy) {
			t.Errorf("%v", err)
		}
		if look := s.Look(t.Context(), theRef()); look.Facts.Supervisor.Absent() {
			t.Error("a look waits for a call")
		}
		w.change(func(w *world) { w.idle = false; w.reconcile() })
		for range 2 {
			if out := <-done; out.Step.Action != plan.Done {
				t.Errorf("%+v", out.Step)
			}
		}
		if secrets := len(w.handed); secrets != 2 {
			t.Errorf("%d Secrets were made for one run", secrets)
		}
		s.whole()
	})
}

// TestLookChangesNothing, whatever it finds.
func TestLookChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		w.before = func(write string) error { t.Errorf("%s", write); return nil }
		s := newSite(t, w)
		out := s.Look(t.Context(), theRef())
		if box, ok := out.Facts.Sandbox.Value(); !ok || box.UID != boxUID || !out.Facts.Supervisor.Absent() || !out.Facts.WorkloadFence.Absent() {
			t.Errorf("%+v", out.Facts)
		}
	})
}

// TestForeignObjectsAreLeftAlone: their names are ours, and they are not.
func TestForeignObjectsAreLeftAlone(t *testing.T) {
	for name, put := range map[string]func(w *world){
		"policy":     func(w *world) { w.policies["openshell-sandbox-workloads"] = foreignPolicy() },
		"service":    func(w *world) { w.services[boundary] = &corev1.Service{ObjectMeta: foreign(boundary)} },
		"supervisor": func(w *world) { w.pods[supervisorPod] = &corev1.Pod{ObjectMeta: foreign(supervisorPod)} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(fresh())
				put(w)
				s := newSite(t, w)
				s.refused(t.Context(), s.goal(plan.Provision), string(plan.Collision))
				if len(w.policies)+len(w.services)+len(w.pods) == 0 {
					t.Error("it is gone")
				}
				for _, write := range w.done() {
					if strings.HasPrefix(write, "delete pod") || strings.HasPrefix(write, "delete service") {
						if name != "supervisor" || !strings.Contains(write, boundary) {
							t.Errorf("%s", write)
						}
					}
				}
			})
		})
	}
}

func foreign(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid-foreign", ResourceVersion: "1", Generation: 1}
}

func foreignPolicy() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: foreign("openshell-sandbox-workloads")}
}

// open is a rule that lets everything out.
var open networkingv1.NetworkPolicyEgressRule
