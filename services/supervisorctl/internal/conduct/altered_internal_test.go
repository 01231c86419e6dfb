package conduct

import (
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// edits are what somebody may do to a Pod that runs: all that the API server lets be edited of its containers, and what of its labels and
// annotations matters.
var edits = map[string]struct {
	edit func(*corev1.Pod)
	said string
}{
	"an ephemeral container": {func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "look"}}}
	}, `ephemeral container "look"`},
	"another image":            {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "registry.example/other" }, `"registry.example/other"`},
	"a note that says nothing": {func(p *corev1.Pod) { p.Annotations[annotationImages] = "[]" }, "cannot be read"},
	"another note":             {func(p *corev1.Pod) { p.Annotations[annotationImages] = "{}" }, "was released with"},
	"another role":             {func(p *corev1.Pod) { p.Labels[workspace.LabelBoundaryRole] = "other" }, workspace.LabelBoundaryRole},
}

// TestReleasedPodIsEdited: the run is ended, with what was edited, also when it was complete.
func TestReleasedPodIsEdited(t *testing.T) {
	for which, of := range map[string]struct {
		pod    string
		reason verdict.Reason
	}{
		"supervisor": {supervisorPod, plan.Broke},
		"workload":   {boxName, plan.WorkloadAltered},
	} {
		for name, tc := range edits {
			for _, complete := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					s := newSite(t, newWorld(fresh()))
					s.do(s.goal(plan.Provision))
					if complete {
						s.world.change(func(w *world) { w.ready() })
						s.keep()
						if phase := s.record().Phase; phase != "" {
							t.Fatalf("it is %s", phase)
						}
					}
					s.world.change(func(w *world) { tc.edit(w.pods[of.pod]); w.pods[of.pod].ResourceVersion = w.next() })
					out := s.do(Goal{Want: plan.Want{Goal: plan.Keep, Ref: theRef()}})
					if out.Step.Reason != of.reason || !strings.Contains(out.Step.Explanation, "the "+which+" Pod was altered") || !strings.Contains(out.Step.Explanation, tc.said) {
						t.Errorf("%s of the %s, complete %t: %s: %s", name, which, complete, out.Step.Reason, out.Step.Explanation)
					}
					s.keep()
					s.bare()
				})
			}
		}
	}
}

// ready makes both Pods run, and the controller say so.
func (w *world) ready() {
	for _, pod := range w.pods {
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		pod.ResourceVersion = w.next()
	}
	w.say("Ready", true, "")
}

// TestImagesThatAdmissionWrote are those of a mirror, and no harm to a run: neither is a Pod of which no images are noted.
func TestImagesThatAdmissionWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		w.admit = func(p *corev1.Pod) { p.Spec.Containers[0].Image = "mirror.example/agent" }
		s := newSite(t, w)
		s.do(s.goal(plan.Provision))
		if out := s.do(Goal{Want: plan.Want{Goal: plan.Keep, Ref: theRef()}}); out.Step.Reason != "" {
			t.Errorf("%+v", out.Step)
		}
		w.change(func(w *world) {
			for _, pod := range w.pods {
				if pod.Annotations[annotationImages] == "" {
					t.Errorf("of Pod %s no images are noted", pod.Name)
				}
				delete(pod.Annotations, annotationImages)
			}
		})
		if out := s.do(Goal{Want: plan.Want{Goal: plan.Keep, Ref: theRef()}}); out.Step.Reason != "" {
			t.Errorf("without a note: %+v", out.Step)
		}
		s.whole()
	})
}

// TestSupervisorWithAnEphemeralContainer, which it may get while its gate is on it, is made anew before it gets a Secret.
func TestSupervisorWithAnEphemeralContainer(t *testing.T) {
	r := seeing(t)
	r.seen.supervisor.value.Spec.EphemeralContainers = []corev1.EphemeralContainer{{}}
	f := r.facts()
	if found, _ := f.Supervisor.Value(); found.Ownership != plan.OfAnotherRun || !companion.Gated(r.seen.supervisor.value) {
		t.Errorf("%+v", found)
	}
}
