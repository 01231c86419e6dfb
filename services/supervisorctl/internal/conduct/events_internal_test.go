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
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// looks has the loop look once.
func (s *site) looks() Outcome {
	s.t.Helper()
	out, err := s.Do(s.t.Context(), Goal{Want: plan.Want{Goal: plan.Keep, Ref: theRef()}})
	if err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	return out
}

// reasons are those of the Events that were written, in their order.
func (w *world) reasons() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, e := range w.events {
		all = append(all, e.Reason)
	}
	return strings.Join(all, " ")
}

// told are the Events that were written.
func (w *world) told() []*corev1.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// opening is a policy of somebody else that lets every Pod out.
func opening(name string, selects map[string]string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid-open"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: selects}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress: []networkingv1.NetworkPolicyEgressRule{open},
		},
	}
}

// TestEvents: what somebody who looks at the Sandbox should know is there, under the stable code.
func TestEvents(t *testing.T) {
	const fence = "openshell-sandbox-workloads"
	for name, tc := range map[string]struct {
		// before a Provision, and after it was done; nil for no look afterwards.
		before, after func(w *world)
		want          string
		says          string
	}{
		"nothing":          {func(*world) {}, func(*world) {}, "", ""},
		"collision":        {func(w *world) { w.services[boundary] = &corev1.Service{ObjectMeta: foreign(boundary)} }, nil, "CompanionCollision", "was not started (provision)"},
		"refused":          {func(w *world) { w.before = always("create pod", cluster.ErrRefused) }, nil, "CompanionRefused", "the cluster refuses it"},
		"fence in the way": {func(w *world) { w.policies[fence] = foreignPolicy() }, nil, "CompanionCollision", "policy"},
		"fence altered": {func(*world) {}, func(w *world) {
			w.policies[fence].Spec.Egress = append(w.policies[fence].Spec.Egress, open)
		}, "FenceAltered", "the run is being stopped"},
		"fence gone":      {func(*world) {}, func(w *world) { delete(w.policies, fence) }, "RunBroke", "is gone"},
		"workload gone":   {func(*world) {}, func(w *world) { w.idle = true; w.end(boxName) }, "RunBroke", "the workload Pod is gone"},
		"image for good":  {func(*world) {}, func(w *world) { w.pods[boxName].Status.ContainerStatuses = waiting("InvalidImageName") }, "PodImageUnusable", "can never be ready"},
		"reopened before": {func(w *world) { w.policies["web"] = opening("web", nil) }, func(*world) {}, "FenceReopened", "NetworkPolicy web opens egress to anywhere"},
		"no look yet":     {func(w *world) { w.policies["web"] = opening("web", nil) }, nil, "", ""}, // the loop has one, of whichever process
		"reopened later":  {func(*world) {}, func(w *world) { w.policies["web"] = opening("web", nil) }, "FenceReopened", "NetworkPolicy web"},
		"supervisor again": {func(*world) {}, func(w *world) {
			w.pods[supervisorPod].Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "supervisor", RestartCount: 1, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 7}},
			}}
		}, "SupervisorReplaced", "code 7"},
		"cannot be read": {func(*world) {}, func(w *world) { w.read = always("", errNo) }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(fresh())
				tc.before(w)
				s := newSite(t, w)
				if _, err := s.Do(t.Context(), s.goal(plan.Provision)); err != nil {
					t.Fatal(err)
				}
				if tc.after != nil {
					w.change(tc.after)
					s.looks()
				}
				synctest.Wait()
				if got := w.reasons(); got != tc.want {
					t.Fatalf("%q, want %q", got, tc.want)
				}
				if tc.want == "" {
					return
				}
				e := w.events[0]
				if !strings.Contains(e.Message, tc.says) || e.Namespace != namespace || e.InvolvedObject.UID != boxUID || e.InvolvedObject.Kind != "Sandbox" ||
					e.InvolvedObject.Name != boxName || e.InvolvedObject.APIVersion != sandboxapi.V1beta1.APIVersion() || e.Count != 1 || e.Type != corev1.EventTypeWarning ||
					e.Source.Component != "supervisorctl" || e.FirstTimestamp.IsZero() || !strings.HasPrefix(e.Name, boxName+".") {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

func waiting(reason string) []corev1.ContainerStatus {
	return []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
}

// TestEventOfAnOrphan: what a Sandbox that is gone has left, and the loop removes.
func TestEventOfAnOrphan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		s := newSite(t, w)
		s.do(s.goal(plan.Provision))
		w.change(func(w *world) { w.box = nil; w.end(boxName) })
		s.looks()
		if got := w.reasons(); got != "OrphanRemoved OrphanRemoved" || len(w.pods)+len(w.services) != 0 {
			t.Errorf("%q, %d Pods", got, len(w.pods))
		}
	})
}

// TestEventOfANewSupervisor: one that is not what a run needs is made anew.
func TestEventOfANewSupervisor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		ctx, end := context.WithCancel(t.Context())
		w.after = at("create pod "+supervisorPod, func(string) error { end(); return context.Canceled })
		s := newSite(t, w)
		s.refused(ctx, s.goal(plan.Provision), string(verdict.CallEnded))
		w.change(func(w *world) { w.pods[supervisorPod].Spec.Containers[0].Image = "old" })
		s.do(s.goal(plan.Provision))
		synctest.Wait()
		if got := w.reasons(); got != "SupervisorReplaced" || w.events[0].Type != corev1.EventTypeNormal {
			t.Errorf("%q", got)
		}
	})
}

// TestTheSameIsToldOnce in a while, and counted afterwards; one that the API server has forgotten is made again.
func TestTheSameIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		s := newSite(t, w)
		s.do(s.goal(plan.Provision))
		w.change(func(w *world) {
			w.pods[supervisorPod].Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "supervisor", RestartCount: 1, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 7}},
			}}
		})
		for range 20 {
			s.looks()
			time.Sleep(time.Minute)
		}
		if got := w.reasons(); got != "SupervisorReplaced" || w.events[0].Count != 1 {
			t.Errorf("%q", got)
		}
		time.Sleep(toldFor)
		s.looks()
		if got := w.reasons(); got != "SupervisorReplaced" || w.events[0].Count != 2 {
			t.Errorf("%q", got)
		}
		w.change(func(w *world) { w.events = nil })
		time.Sleep(toldFor)
		s.looks()
		if got := w.reasons(); got != "SupervisorReplaced" {
			t.Errorf("forgotten: %q", got)
		}
	})
}

// TestReopenedIsToldOncePerChange: of the policies that open the fence, at rest never again, after another process has come to lead once
// more; and when none does any more, where it was told of.
func TestReopenedIsToldOncePerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		s := newSite(t, w)
		s.do(s.goal(plan.Provision))
		expect := func(s *site, what, want string) {
			t.Helper()
			w.change(func(w *world) { w.events = nil })
			for range 8 { // in which everything else would be told again
				s.looks()
				time.Sleep(10 * time.Minute)
			}
			if got := w.reasons(); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		put := func(p *networkingv1.NetworkPolicy) { w.change(func(w *world) { w.policies[p.Name] = p }) }
		expect(s, "nothing", "")
		put(opening("web", nil))
		expect(s, "one", "FenceReopened")
		expect(s, "still", "")
		put(opening("web-2", nil))
		expect(s, "another", "FenceReopened")
		edited := opening("web", nil)
		edited.Spec.Egress[0].To = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.0/24"}}}
		put(edited)
		expect(s, "it opens something else", "FenceReopened")
		expect(newSite(t, w), "another process leads", "FenceReopened")
		w.change(func(w *world) { w.read = always("policies", errNo) })
		expect(s, "not known", "")
		w.change(func(w *world) { w.read = nil; delete(w.policies, "web"); delete(w.policies, "web-2") })
		expect(s, "none any more", "FenceClosed")
		expect(s, "still none", "")
		expect(newSite(t, w), "another process leads, which knows of none", "")
	})
}

// TestOnlyWhatWasTakenIsTold: an Event that the API server did not take is tried again, at the next look.
func TestOnlyWhatWasTakenIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		w.policies["web"] = opening("web", nil)
		w.deny = errNo
		s := newSite(t, w)
		s.looks()
		s.looks()
		w.change(func(w *world) { w.deny = nil })
		s.looks()
		s.looks()
		if got := w.reasons(); got != "FenceReopened" || w.denied != 2 {
			t.Errorf("%q, %d tries before", got, w.denied)
		}
		if n := testutil.ToFloat64(s.metrics.events.WithLabelValues(eventFailed)); n != 2 {
			t.Errorf("%v failed", n)
		}
	})
}

// TestEventsHoldNobodyUp: what cannot be written is lost, and a missing right is asked for rarely.
func TestEventsHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		w.deny = fmt.Errorf(`create events: %w: events is forbidden: User "x" cannot create resource "events" in API group ""`, cluster.ErrRefused)
		s := newSite(t, w)
		for n := range 10 {
			w.change(func(w *world) { w.policies["web"] = opening(fmt.Sprint("web-", n), nil) })
			s.looks()
		}
		if w.denied != 1 || strings.Count(s.log.String(), "grant create and patch on events") != 1 {
			t.Errorf("%d tries\n%s", w.denied, s.log)
		}
		time.Sleep(deniedFor)
		w.change(func(w *world) { w.deny = errors.New("no answer"); w.policies["web"] = opening("web", nil) })
		s.looks()
		if w.denied != 2 {
			t.Errorf("%d tries", w.denied)
		}
	})
}

// about is a Sandbox of many.
func about(n int) plan.Ref {
	ref := theRef()
	ref.UID = fmt.Sprint("uid-", n)
	return ref
}

// TestManyEvents: a namespace full of sandboxes whose fence is altered is told of at a bounded rate, and with a bounded memory.
func TestManyEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		s := newSite(t, w)
		altered := warning("FenceAltered", "%s", strings.Repeat("é", 2000))
		began := time.Now()
		for n := range 10000 {
			s.events.announce(about(n), "", &altered)
		}
		if n := testutil.ToFloat64(s.metrics.events.WithLabelValues(eventDropped)); n < 10000-2*mostWaiting {
			t.Errorf("%v were dropped", n)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		events := w.told()
		if n, most := len(events), eventBurst+1+eventRate*int(time.Since(began)/time.Second); n < eventBurst || n > most {
			t.Errorf("%d Events, at most %d", n, most)
		}
		for _, e := range events {
			if len(e.Message) > longestEvent || !utf8.ValidString(e.Message) {
				t.Errorf("%d bytes", len(e.Message))
			}
		}
		nobody := theRef()
		nobody.UID = ""
		time.Sleep(time.Hour)
		synctest.Wait()
		before := len(w.told())
		s.events.announce(nobody, "", &altered)
		synctest.Wait()
		if len(w.told()) != before {
			t.Error("an Event on a Sandbox without a uid")
		}
	})
}

// TestNobodySends: before the daemon's parts run nothing is sent, and what waits is bounded; what waits at their end is dropped, and is no
// longer on its way.
func TestNobodySends(t *testing.T) {
	w, m := newWorld(fresh()), newSite(t, newWorld(fresh())).metrics
	a := newAnnouncer(w, zerolog.Nop(), m, "me")
	altered := warning("FenceAltered", "no")
	for n := range 2 * mostWaiting {
		a.announce(about(n), "", &altered)
	}
	if n := testutil.ToFloat64(m.events.WithLabelValues(eventDropped)); n != mostWaiting || len(a.queue) != mostWaiting || len(a.told.all) != mostWaiting || len(w.events) != 0 {
		t.Errorf("%v were dropped, %d wait, %d are remembered, %d were sent", n, len(a.queue), len(a.told.all), len(w.events))
	}
	ended, end := context.WithCancel(t.Context())
	end()
	a.run(ended)
	if n := testutil.ToFloat64(m.events.WithLabelValues(eventDropped)) + float64(len(w.events)); n != 2*mostWaiting || len(a.queue) != 0 {
		t.Errorf("%v, %d wait", n, len(a.queue))
	}
	if len(a.told.all) != len(w.events) {
		t.Errorf("%d were sent, and %d are taken for told", len(w.events), len(a.told.all))
	}
}

// TestReopened: whoever looks knows it of the Pods that there are, or will be, and it changes nothing.
func TestReopened(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world)
		want   string
	}{
		"nothing":  {func(*world) {}, "[]"},
		"all Pods": {func(w *world) { w.policies["web"] = opening("web", nil) }, "[web]"},
		"by a label of ours": {func(w *world) {
			w.policies["web"] = opening("web", map[string]string{"openshell.ai/boundary-role": "workload"})
		}, "[web]"},
		"supervisors alone": {func(w *world) {
			w.policies["web"] = opening("web", map[string]string{"openshell.ai/boundary-role": "supervisor"})
		}, "[]"},
		"by the caller's label": {func(w *world) {
			w.pods[boxName].Labels["app"] = "web"
			w.policies["web"] = opening("web", map[string]string{"app": "web"})
		}, "[web]"},
		"by a label that it has not": {func(w *world) { w.policies["web"] = opening("web", map[string]string{"app": "web"}) }, "[]"},
		"by a label of the template": {func(w *world) {
			w.idle = true
			w.end(boxName)
			w.box.Template.Labels["app"] = "web"
			w.policies["web"] = opening("web", map[string]string{"app": "web"})
		}, "[web]"},
		"they cannot be listed": {func(w *world) { w.read = always("policies", errNo) }, "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(fresh())
				s := newSite(t, w)
				s.do(s.goal(plan.Provision))
				w.change(tc.change)
				writes := len(w.done())
				out := s.Look(t.Context(), theRef())
				got := "not known"
				if openings, ok := out.Facts.Openings.Value(); ok {
					names := []string{}
					for _, o := range openings {
						names = append(names, o.Policy)
						if o.UID != "uid-open" || !strings.Contains(o.Opens, "egress") {
							t.Errorf("%+v", o)
						}
					}
					got = fmt.Sprint(names)
				}
				if got != tc.want || len(w.done()) != writes {
					t.Errorf("%s, want %s, %d writes", got, tc.want, len(w.done())-writes)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		w.policies["web"] = opening("web", nil)
		s := newSite(t, w)
		s.do(s.goal(plan.Provision)) // not refused, and reported by the loop
		out := s.do(Goal{Want: plan.Want{Goal: plan.Keep, Ref: theRef()}})
		if openings, ok := out.Facts.Openings.Value(); !ok || len(openings) != 1 {
			t.Errorf("%v", openings)
		}
	})
}
