package reconcile

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
)

// summary is a decision in a form that reads well in a table: the steps, and each condition as status/reason.
type summary struct {
	Steps                                    []string
	Ready, Suspended, PodScheduled, Finished string
}

func summarise(d Decision) summary {
	var s summary
	for _, a := range d.Actions {
		s.Steps = append(s.Steps, string(a.Step)+" "+a.Name)
	}
	if d.Status == nil {
		return s
	}
	of := func(kind string) string {
		c := meta.FindStatusCondition(d.Status.Conditions, kind)
		if c == nil {
			return ""
		}
		return string(c.Status) + "/" + c.Reason
	}
	s.Ready, s.Suspended = of(api.ConditionReady), of(api.ConditionSuspended)
	s.PodScheduled, s.Finished = of(api.ConditionPodScheduled), of(api.ConditionFinished)
	return s
}

// TestConditions has one case for each row of contract 8.3, and the rows that combine.
func TestConditions(t *testing.T) {
	const (
		scheduled = "True/PodScheduled"
		running   = "False/NotSuspended"
	)
	tests := map[string]struct {
		change func(*Observed)
		want   summary
	}{
		"ready": {
			func(*Observed) {},
			summary{Ready: "True/DependenciesReady", Suspended: running, PodScheduled: scheduled},
		},
		"no pod yet": {
			func(o *Observed) { o.Pods = nil },
			summary{
				Steps: []string{"CreatePod box"}, Ready: "False/DependenciesNotReady", Suspended: running,
				PodScheduled: "Unknown/PodSchedulingUnknown",
			},
		},
		"gated pod": {
			func(o *Observed) {
				o.Pods[0].Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
					{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated},
				}}
			},
			summary{Ready: "False/DependenciesNotReady", Suspended: running, PodScheduled: "False/SchedulingGated"},
		},
		"unschedulable pod": {
			func(o *Observed) {
				o.Pods[0].Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
					{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
				}}
			},
			summary{Ready: "False/DependenciesNotReady", Suspended: running, PodScheduled: "False/Unschedulable"},
		},
		"running pod that is not ready": {
			func(o *Observed) { o.Pods[0].Status.Conditions[1].Status = corev1.ConditionFalse },
			summary{Ready: "False/DependenciesNotReady", Suspended: running, PodScheduled: scheduled},
		},
		"ready pod without an address": {
			func(o *Observed) { o.Pods[0].Status.PodIPs = nil },
			summary{Ready: "False/DependenciesNotReady", Suspended: running, PodScheduled: scheduled},
		},
		"pod terminating while running": {
			func(o *Observed) { terminating(&o.Pods[0].ObjectMeta) },
			summary{Ready: "True/DependenciesReady", Suspended: running, PodScheduled: scheduled},
		},
		"pod succeeded": {
			func(o *Observed) { o.Pods[0].Status.Phase = corev1.PodSucceeded },
			summary{Ready: "False/PodSucceeded", Suspended: running, PodScheduled: scheduled, Finished: "True/PodSucceeded"},
		},
		"pod failed": {
			func(o *Observed) { o.Pods[0].Status.Phase = corev1.PodFailed },
			summary{Ready: "False/PodFailed", Suspended: running, PodScheduled: scheduled, Finished: "True/PodFailed"},
		},
		"service required and missing": {
			func(o *Observed) { o.Sandbox.Spec.Service = new(true) },
			summary{
				Steps: []string{"CreateService box"}, Ready: "True/DependenciesReady", Suspended: running, PodScheduled: scheduled,
			},
		},
		"suspending": {
			suspend,
			summary{
				Steps: []string{"DeletePod box"}, Ready: "False/SandboxSuspended", Suspended: "False/PodTerminating",
				PodScheduled: scheduled,
			},
		},
		"pod still terminating": {
			func(o *Observed) { suspend(o); terminating(&o.Pods[0].ObjectMeta) },
			summary{Ready: "False/SandboxSuspended", Suspended: "False/PodTerminating", PodScheduled: scheduled},
		},
		"suspending after the pod failed": {
			func(o *Observed) { suspend(o); o.Pods[0].Status.Phase = corev1.PodFailed },
			summary{
				Steps: []string{"DeletePod box"}, Ready: "False/SandboxSuspended", Suspended: "False/PodTerminating",
				PodScheduled: scheduled, Finished: "True/PodFailed",
			},
		},
		"suspended": {
			func(o *Observed) { suspend(o); o.Pods = nil },
			summary{Ready: "False/SandboxSuspended", Suspended: "True/PodTerminated"},
		},
		"created suspended, nothing exists": {
			func(o *Observed) { suspend(o); o.Pods, o.Claims = nil, nil },
			summary{
				Steps: []string{"CreateClaim workspace-box"}, Ready: "False/SandboxSuspended", Suspended: "True/PodTerminated",
			},
		},
		"foreign pod while suspended": {
			func(o *Observed) { suspend(o); stranger(&o.Pods[0].ObjectMeta) },
			summary{Ready: "False/SandboxSuspended", Suspended: "False/PodNotOwned"},
		},
		"unowned pod while suspended": {
			func(o *Observed) { suspend(o); o.Pods[0].OwnerReferences = nil },
			summary{Ready: "False/SandboxSuspended", Suspended: "False/PodNotOwned"},
		},
		"foreign pod while running": {
			func(o *Observed) { stranger(&o.Pods[0].ObjectMeta) },
			summary{Ready: "False/ReconcilerError", Suspended: running, PodScheduled: "Unknown/PodSchedulingUnknown"},
		},
		"pod state unknown while suspended": {
			func(o *Observed) { suspend(o); o.Pods, o.PodError = nil, errors.New("boom") },
			summary{
				Ready: "False/ReconcilerError", Suspended: "Unknown/PodStateUnknown", PodScheduled: "Unknown/PodSchedulingUnknown",
			},
		},
		"pod deletion failed": {
			func(o *Observed) { suspend(o); o.PodError = errors.New("boom") },
			summary{Ready: "False/ReconcilerError", Suspended: "False/PodTerminating", PodScheduled: scheduled},
		},
		"claim creation failed": {
			func(o *Observed) { o.Claims, o.ChildError = nil, errors.New("boom") },
			summary{Ready: "False/ReconcilerError", Suspended: running, PodScheduled: scheduled},
		},
		"foreign claim": {
			func(o *Observed) { stranger(&o.Claims[0].ObjectMeta) },
			summary{Ready: "False/ReconcilerError", Suspended: running, PodScheduled: scheduled},
		},
		"foreign service": {
			func(o *Observed) {
				o.Sandbox.Spec.Service = new(true)
				o.Service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "box"}}
			},
			summary{Ready: "False/ReconcilerError", Suspended: running, PodScheduled: scheduled},
		},
		"two pods while running": {
			func(o *Observed) { o.Pods = append(o.Pods, readyPod(o.Sandbox, "other", "pod-2")) },
			summary{Ready: "False/MultiplePods", Suspended: running, PodScheduled: "Unknown/PodSchedulingUnknown"},
		},
		"two pods while suspended": {
			func(o *Observed) { suspend(o); o.Pods = append(o.Pods, readyPod(o.Sandbox, "other", "pod-2")) },
			summary{
				Ready: "False/MultiplePods", Suspended: "Unknown/PodStateUnknown", PodScheduled: "Unknown/PodSchedulingUnknown",
			},
		},
		"being deleted": {
			func(o *Observed) { terminating(&o.Sandbox.ObjectMeta); o.Pods = nil },
			summary{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := base()
			tc.change(&o)
			d := Decide(o, Newest(), now)
			if diff := cmp.Diff(tc.want, summarise(d)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if d.Status == nil {
				return
			}
			for _, c := range d.Status.Conditions {
				if c.ObservedGeneration != 3 || c.LastTransitionTime.IsZero() || c.Message == "" && c.Type != api.ConditionPodScheduled {
					t.Errorf("condition %s is incomplete: %+v", c.Type, c)
				}
			}
		})
	}
}

// TestDialects compares the four controllers over one life: run, suspend, suspended, resume.
func TestDialects(t *testing.T) {
	dialects := map[string]struct {
		dialect Dialect
		want    [4]string // Suspended in each stage
		mirrors bool
	}{
		"newest": {Newest(), [4]string{"False/NotSuspended", "False/PodTerminating", "True/PodTerminated", "False/NotSuspended"}, true},
		"older v1beta1": {
			OlderV1beta1(), [4]string{"", "False/PodTerminating", "True/PodTerminated", "True/PodTerminated"}, false,
		},
		"v1alpha1": {
			V1alpha1(), [4]string{"", "False/PodNotTerminated", "True/PodTerminated", "True/PodTerminated"}, false,
		},
		"v1alpha1 that takes the condition back": {
			Dialect{Version: api.V1alpha1, ReportSuspended: true, TwoReasons: true},
			[4]string{"", "False/PodNotTerminated", "True/PodTerminated", ""},
			false,
		},
		"v1alpha1 without the condition": {V1alpha1WithoutSuspended(), [4]string{}, false},
	}
	for name, tc := range dialects {
		t.Run(name, func(t *testing.T) {
			o := base()
			setMode := func(suspended bool) {
				o.Sandbox.Generation++
				if tc.dialect.Version == api.V1beta1 {
					o.Sandbox.Spec.OperatingMode = map[bool]string{true: api.ModeSuspended, false: api.ModeRunning}[suspended]
					return
				}
				o.Sandbox.Spec.OperatingMode = ""
				o.Sandbox.Spec.Replicas = map[bool]*int64{true: new(int64), false: new(int64(1))}[suspended]
			}
			pods := o.Pods
			stages := []func(){
				func() { setMode(false) },
				func() { setMode(true) },
				func() { o.Pods = nil },
				func() { setMode(false); o.Pods = pods },
			}
			for i, stage := range stages {
				stage()
				d := Decide(o, tc.dialect, now)
				o.Sandbox.Status = *d.Status
				got := summarise(d)
				if got.Suspended != tc.want[i] {
					t.Errorf("stage %d: Suspended = %q, want %q", i, got.Suspended, tc.want[i])
				}
				if wantMirror := tc.mirrors && len(o.Pods) > 0; (got.PodScheduled != "") != wantMirror {
					t.Errorf("stage %d: PodScheduled = %q, want one: %v", i, got.PodScheduled, wantMirror)
				}
			}
			ready := meta.FindStatusCondition(o.Sandbox.Status.Conditions, api.ConditionReady)
			if ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != o.Sandbox.Generation {
				t.Errorf("Ready after resume = %+v, want True for generation %d", ready, o.Sandbox.Generation)
			}
			if old := meta.FindStatusCondition(o.Sandbox.Status.Conditions, api.ConditionSuspended); tc.dialect.KeepSuspended &&
				old.ObservedGeneration == o.Sandbox.Generation {
				t.Error("the Suspended condition that is left behind has the new generation; it must keep the old one")
			}
		})
	}
}

func TestTwoReasonsHideTheOthers(t *testing.T) {
	for name, change := range map[string]func(*Observed){
		"foreign pod":       func(o *Observed) { stranger(&o.Pods[0].ObjectMeta) },
		"pod state unknown": func(o *Observed) { o.Pods, o.PodError = nil, errors.New("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			o := base()
			o.Sandbox.Spec.OperatingMode, o.Sandbox.Spec.Replicas = "", new(int64)
			change(&o)
			if got := summarise(Decide(o, V1alpha1(), now)).Suspended; got != "False/PodNotTerminated" {
				t.Errorf("Suspended = %q, want False/PodNotTerminated", got)
			}
		})
	}
}

func TestStatusFields(t *testing.T) {
	selector := "agents.x-k8s.io/sandbox-name-hash=" + api.NameHash("box")
	tests := map[string]struct {
		dialect Dialect
		change  func(*Observed)
		want    api.Status
	}{
		"v1beta1": {Newest(), func(*Observed) {}, api.Status{Selector: selector, PodIPs: []string{"10.1.2.3"}, NodeName: "node-1"}},
		"v1alpha1": {
			V1alpha1(), func(*Observed) {},
			api.Status{Selector: selector, PodIPs: []string{"10.1.2.3"}, Replicas: new(int64(1))},
		},
		"v1alpha1 without a pod": {
			V1alpha1(), func(o *Observed) { o.Sandbox.Spec.Replicas = new(int64); o.Pods = nil },
			api.Status{Replicas: new(int64)},
		},
		"the selector stays when the pod goes": {
			Newest(), func(o *Observed) {
				suspend(o)
				o.Pods = nil
				o.Sandbox.Status.Selector = selector
				o.Sandbox.Status.NodeName = "old"
			},
			api.Status{Selector: selector},
		},
		"foreign pod gives no address": {
			Newest(), func(o *Observed) { suspend(o); stranger(&o.Pods[0].ObjectMeta) },
			api.Status{Selector: selector},
		},
		"service": {
			Newest(), func(o *Observed) {
				o.Sandbox.Spec.Service = new(true)
				o.Service = &corev1.Service{ObjectMeta: child(o.Sandbox, "box", "svc-uid")}
			},
			api.Status{
				Selector: selector, PodIPs: []string{"10.1.2.3"}, NodeName: "node-1",
				Service: "box", ServiceFQDN: "box.ns.svc.cluster.local",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := base()
			tc.change(&o)
			got := *Decide(o, tc.dialect, now).Status
			got.Conditions = nil
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		dialect Dialect
		want    string // part of the error, "" for none
	}{
		"newest":               {Newest(), ""},
		"older v1beta1":        {OlderV1beta1(), ""},
		"v1alpha1":             {V1alpha1(), ""},
		"v1alpha1 bare":        {V1alpha1WithoutSuspended(), ""},
		"zero":                 {Dialect{}, "version \"\" is unknown"},
		"keeps without report": {Dialect{Version: api.V1beta1, KeepSuspended: true}, "ReportSuspended"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := tc.dialect.Validate()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Validate() = %v, want an error with %q", err, tc.want)
			}
		})
	}
}
