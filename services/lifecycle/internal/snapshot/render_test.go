package snapshot

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

func TestRenderOfOneThatIsReady(t *testing.T) {
	want := &computev1.DriverSandbox{
		Id: sandboxID, Name: "box", Namespace: "openshell", Workspace: "team",
		Status: &computev1.DriverSandboxStatus{
			Conditions: []*computev1.DriverCondition{
				{Type: "Ready", Status: "True", Reason: "DependenciesReady", Message: "all is well", TransitionTime: timestamppb.New(epoch)},
				{Type: "Suspended", Status: "False", Reason: "NotSuspended"},
			},
			ResolvedIdentity: &computev1.ResolvedWorkloadIdentity{Uid: 10001, Gid: 10002, Source: "kubernetes-config", ResourceDigest: "sandbox:box-uid"},
			FenceEvidence: &computev1.DriverFenceEvidence{
				Generation: "g000000000000002a", EvidenceDigest: "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a",
				ResourceClaims: map[string]string{
					"kubernetes.namespace_uid": "n", "kubernetes.sandbox_resource_uid": "box-uid", "kubernetes.workload_pod_uid": "w",
					"kubernetes.supervisor_pod_uid": "s", "kubernetes.egress_policy_uid": "f", "kubernetes.egress_policy_resource_version": "7",
				},
			},
		},
	}
	if diff := cmp.Diff(want, healthy().render(t), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestRenderOfOneThatStarts(t *testing.T) {
	s := healthy()
	s.record = starting()
	want := []*computev1.DriverCondition{
		{Type: "Ready", Status: "False", Reason: "DependenciesNotReady", Message: "sandbox-runtime enforcement dependencies are not ready"},
		{
			Type: "Bootstrapping", Status: "True", Reason: "SandboxRuntimeGenerationStarting", Message: "a generation of the sandbox runtime is starting",
			TransitionTime: timestamppb.New(epoch),
		},
	}
	if diff := cmp.Diff(want, s.render(t).GetStatus().GetConditions(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// TestPhases is the table of contract 7.14, 2.10 and 8.3: what becomes of a state at the gateway.
func TestPhases(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(s *scene)
		phase string
		says  string // in the message of Ready
	}{
		"ready":                  {func(*scene) {}, "Ready", "all is well"},
		"no readiness published": {func(s *scene) { s.record.Readiness = "" }, "Provisioning", notReady},
		"readiness unavailable":  {func(s *scene) { s.record.Readiness = runstate.Unavailable }, "Provisioning", notReady},
		"deleting":               {func(s *scene) { s.box.Deleting = true }, "Deleting", ""},
		"suspended":              {(*scene).suspend, "Stopped", ""},
		"suspended, and the controller says nothing yet": {func(s *scene) { s.suspend(); s.box.Conditions = nil }, "Provisioning", notReady},
		"L16: suspended of a former generation": {func(s *scene) {
			s.put(sandboxapi.Condition{Type: "Suspended", Status: "True", Reason: "PodTerminated", ObservedGeneration: 3})
		}, "Ready", ""},
		"L16: suspended left behind without a generation, and not ready": {func(s *scene) {
			s.put(sandboxapi.Condition{Type: "Suspended", Status: "True", Reason: "PodTerminated"})
			s.set("Ready", "False", "DependenciesNotReady")
		}, "Provisioning", ""},
		"L16: the same, and its readiness is unavailable": {func(s *scene) {
			s.put(sandboxapi.Condition{Type: "Suspended", Status: "True"})
			s.record.Readiness = runstate.Unavailable
		}, "Provisioning", notReady},
		"ready of a former generation": {func(s *scene) { s.box.Generation = 5 }, "Provisioning", ""},
		"create begun": {func(s *scene) {
			s.suspend()
			s.record = starting()
			s.record.Phase = runstate.Preparing
		}, "Provisioning", notReady},
		"restart of one that was stopped": {func(s *scene) {
			s.suspend()
			s.record = starting()
			s.record.Operation, s.record.Phase = runstate.Restart, runstate.Preparing
		}, "Provisioning", notReady},
		"a pod fails while it starts": {func(s *scene) { s.record = starting(); s.set("Ready", "False", "PodFailed") }, "Provisioning", notReady},
		"L10: the workload has failed": {func(s *scene) {
			s.set("Ready", "False", "PodFailed")
			unready(s.workload, corev1.PodFailed).ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"},
			}}}
			s.record.Readiness = runstate.Unavailable
		}, "Error", "PodFailed it says: crash: container agent ended with exit code 3 (Error)"},
		"the workload has succeeded": {func(s *scene) {
			s.set("Ready", "False", "PodSucceeded")
			unready(s.workload, corev1.PodSucceeded)
		}, "Error", "PodSucceeded"},
		"the workload has failed, and nothing is known of Pods":          {func(s *scene) { s.set("Ready", "False", "PodFailed"); s.unknown = true; s.workload = nil }, "Error", ""},
		"a failure of a Pod that is not there any more, while one lives": {func(s *scene) { s.set("Ready", "False", "PodFailed") }, "Provisioning", "PodFailed"},
		"the workload fails by being stopped": {func(s *scene) {
			s.record = stopping()
			s.set("Ready", "False", "PodFailed")
			unready(s.workload, corev1.PodFailed)
		}, "Provisioning", "being stopped"},
		"the workload is suspended and fails": {func(s *scene) {
			s.suspend()
			s.without("Suspended")
			s.set("Ready", "False", "PodFailed")
		}, "Provisioning", notReady},
		"expired":           {func(s *scene) { s.set("Ready", "False", "SandboxExpired") }, "Error", "SandboxExpired"},
		"suspending":        {func(s *scene) { s.set("Ready", "False", "SandboxSuspended") }, "Provisioning", "SandboxSuspended"},
		"many Pods":         {func(s *scene) { s.set("Ready", "False", "MultiplePods") }, "Provisioning", "MultiplePods: MultiplePods it says"},
		"unschedulable":     {func(s *scene) { s.set("Ready", "False", "Unschedulable") }, "Provisioning", ""},
		"of tomorrow":       {func(s *scene) { s.set("Ready", "False", "WarpCoreCold") }, "Provisioning", "WarpCoreCold"},
		"no reason":         {func(s *scene) { s.set("Ready", "False", "") }, "Provisioning", ""},
		"controller fails":  {func(s *scene) { s.set("Ready", "False", "ReconcilerError") }, "Provisioning", "ReconcilerError it says"},
		"ready unknown":     {func(s *scene) { s.set("Ready", "Unknown", "What") }, "Provisioning", ""},
		"no ready":          {func(s *scene) { s.without("Ready") }, "Provisioning", ""},
		"ready, lower case": {func(s *scene) { s.without("Ready"); s.set("ready", "True", "x") }, "Provisioning", ""},
		"L17: suspended, while the old Pod is there": {func(s *scene) {
			w := s.workload
			s.suspend()
			s.workload = w
		}, "Provisioning", ""},
		"suspended, and nothing is known of Pods": {func(s *scene) { s.suspend(); s.unknown = true }, "Stopped", ""},
		"a foreign Pod has the name": {func(s *scene) {
			s.suspend()
			s.set("Suspended", "False", "PodNotOwned")
		}, "Error", "PodNotOwned"},
		"v1alpha1, suspended, says nothing": {func(s *scene) {
			s.suspend()
			s.box.Version, s.box.Conditions = sandboxapi.V1alpha1, nil
		}, "Stopped", ""},
		"v1alpha1, suspended, says nothing, and has a Pod": {func(s *scene) {
			w := s.workload
			s.suspend()
			s.box.Version, s.box.Conditions, s.workload = sandboxapi.V1alpha1, nil, w
		}, "Provisioning", ""},
		"v1alpha1, suspended, says nothing, nothing known": {func(s *scene) {
			s.suspend()
			s.box.Version, s.box.Conditions, s.unknown = sandboxapi.V1alpha1, nil, true
		}, "Provisioning", ""},
		"L01: the workload Pod is gone":      {func(s *scene) { s.workload = nil }, "Provisioning", "the workload Pod is gone"},
		"L09: the workload Pod is drained":   {func(s *scene) { s.workload.DeletionTimestamp = &metav1.Time{Time: epoch} }, "Provisioning", "the workload Pod is being deleted"},
		"L09: the workload Pod is not ready": {func(s *scene) { unready(s.workload, corev1.PodRunning) }, "Provisioning", "the workload Pod is not ready"},
		"L14: another workload Pod":          {func(s *scene) { s.workload.UID = "other" }, "Provisioning", "not the one of this run"},
		"another workload Pod, and what is wrong with it": {func(s *scene) {
			s.workload.UID = "other"
			unready(s.workload, corev1.PodPending).ContainerStatuses = []corev1.ContainerStatus{waits("ErrImagePull", "no such image")}
		}, "Provisioning", "not the one of this run: image pull: container agent waits: ErrImagePull: no such image"},
		"the supervisor Pod is gone":            {func(s *scene) { s.supervisor = nil }, "Provisioning", "the supervisor Pod is gone"},
		"the supervisor Pod is not ready":       {func(s *scene) { unready(s.supervisor, corev1.PodRunning) }, "Provisioning", "the supervisor Pod is not ready"},
		"the supervisor Pod has ended":          {func(s *scene) { unready(s.supervisor, corev1.PodFailed) }, "Provisioning", "the supervisor Pod has ended"},
		"another supervisor Pod":                {func(s *scene) { s.supervisor.UID = "other" }, "Provisioning", "not the one of this run"},
		"Pods gone, but nothing is known of it": {func(s *scene) { s.workload, s.supervisor, s.unknown = nil, nil, true }, "Ready", ""},
		"a record that cannot be read":          {func(s *scene) { s.box.Annotations[workspace.AnnotationBootstrapPhase] = "dancing" }, "Provisioning", "record of the run cannot be read"},
		"a record of a start that cannot be read": {func(s *scene) {
			s.suspend()
			s.box.Annotations[workspace.AnnotationBootstrapPhase], s.box.Annotations[workspace.AnnotationBootstrapping] = "dancing", "true"
		}, "Provisioning", "cannot be read"},
		"stop begun": {func(s *scene) { s.record = stopping() }, "Provisioning", "being stopped"},
		"stop at work": {func(s *scene) {
			s.record = stopping()
			s.record.Phase = runstate.Suspending
			s.box.Mode = sandboxapi.Suspended
		}, "Provisioning", "being stopped"},
		"ended by the reconcile loop": {func(s *scene) {
			s.suspend()
			s.record.StopReason, s.record.StopExplanation = "run_broke", "the Service is gone"
		}, "Stopped", "the run was ended: the Service is gone"},
		"being ended by the reconcile loop": {func(s *scene) {
			s.record = stopping()
			s.record.StopReason, s.record.StopExplanation = "run_broke", "the Service is gone"
		}, "Provisioning", "the Service is gone"},
		"quota": {func(s *scene) {
			s.workload, s.record = nil, starting()
			s.put(sandboxapi.Condition{Type: "Ready", Status: "False", Reason: "ReconcilerError", Message: `pods "x" is forbidden: exceeded quota: small, requested: cpu=1`})
		}, "Provisioning", notReady + `: workload Pod: refused by quota: pods "x" is forbidden: exceeded quota: small`},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			c.edit(s)
			d := s.render(t)
			if got := phaseOf(d); got != c.phase {
				t.Errorf("phase %s, want %s: %v", got, c.phase, d.GetStatus().GetConditions())
			}
			if got := find(d, "Ready").GetMessage(); !strings.Contains(got, c.says) {
				t.Errorf("it says %q, want %q in it", got, c.says)
			}
		})
	}
}

// TestStopUnderWay: what a gateway looks for after a stop call that failed (contract 2.6).
func TestStopUnderWay(t *testing.T) {
	for name, edit := range map[string]func(s *scene){
		"nothing said":  func(s *scene) { s.without("Suspended") },
		"not suspended": func(*scene) {},
		"the old word":  func(s *scene) { s.set("Suspended", "False", "PodNotTerminated") },
	} {
		s := healthy()
		s.record = stopping()
		edit(s)
		if c := find(s.render(t), "Suspended"); c.GetStatus() != "False" || c.GetReason() != "PodTerminating" && c.GetReason() != "PodNotTerminated" {
			t.Errorf("%s: %v", name, c)
		}
	}
}

func TestTransitionTimes(t *testing.T) {
	for name, c := range map[string]struct {
		at   time.Time
		want *timestamppb.Timestamp
	}{
		"none":              {time.Time{}, nil},
		"one":               {epoch, timestamppb.New(epoch)},
		"before the epoch":  {time.Date(1, 2, 3, 0, 0, 0, 0, time.UTC), nil},
		"after all that is": {time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), nil},
	} {
		s := healthy()
		s.box.Conditions[0].Transition = metav1.NewTime(c.at)
		got := find(s.render(t), "Ready").GetTransitionTime()
		if diff := cmp.Diff(c.want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got != nil && got.CheckValid() != nil {
			t.Errorf("%s: %v", name, got.CheckValid())
		}
	}
}

func TestReservedAndDoubleConditionsAreNotPassedOn(t *testing.T) {
	s := healthy()
	s.box.Conditions = append(s.box.Conditions,
		sandboxapi.Condition{Type: "Bootstrapping", Status: "True"}, sandboxapi.Condition{Type: "configurationready", Status: "False"},
		sandboxapi.Condition{Type: "Ready", Status: "False", Reason: "PodFailed"}, sandboxapi.Condition{Type: "SUSPENDED", Status: "True"}, sandboxapi.Condition{Status: "True"},
		sandboxapi.Condition{Type: "PodScheduled", Status: "True"})
	var types []string
	for _, c := range s.render(t).GetStatus().GetConditions() {
		types = append(types, c.GetType()+"="+c.GetStatus())
	}
	if diff := cmp.Diff([]string{"Ready=True", "Suspended=False", "PodScheduled=True"}, types); diff != "" {
		t.Error(diff)
	}
}

func TestTextsAreBounded(t *testing.T) {
	s := healthy()
	long := strings.Repeat("é\x00\n", 4000) + "\xff"
	s.box.Conditions = nil
	for i := range 40 {
		s.box.Conditions = append(s.box.Conditions, sandboxapi.Condition{Type: long + string(rune('a'+i)), Status: long, Reason: long, Message: long})
	}
	s.put(sandboxapi.Condition{Type: "Ready", Status: "False", Reason: "ReconcilerError", Message: long})
	d := s.render(t)
	if n := len(d.GetStatus().GetConditions()); n > mostConditions {
		t.Errorf("%d conditions", n)
	}
	for _, c := range d.GetStatus().GetConditions() {
		for _, text := range []string{c.GetType(), c.GetStatus(), c.GetReason(), c.GetMessage()} {
			if len(text) > longestMessage || strings.ContainsAny(text, "\x00\n") || !strings.HasPrefix(text, "é") && len(text) > 0 && text != "Ready" && text != "False" && text != "ReconcilerError" {
				t.Errorf("%d bytes: %.40q", len(text), text)
			}
		}
	}
}
