package snapshot

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// told is what a gateway makes of a scene: the phase, and the message of Ready.
func told(t *testing.T, edit func(s *scene)) (phase, message string) {
	t.Helper()
	s := healthy()
	edit(s)
	d := s.render(t)
	return phaseOf(d), find(d, "Ready").GetMessage()
}

func tells(t *testing.T, phase, says string, edit func(s *scene)) {
	t.Helper()
	if got, message := told(t, edit); got != phase || !strings.Contains(message, says) {
		t.Errorf("phase %s, %q; want %s with %q", got, message, phase, says)
	}
}

// TestReplayL01APodDeletedOutside is told, though record and controller still say that all is well.
func TestReplayL01APodDeletedOutside(t *testing.T) {
	tells(t, "Provisioning", "the workload Pod is gone", func(s *scene) { s.workload = nil })
	tells(t, "Provisioning", "the supervisor Pod is gone", func(s *scene) { s.supervisor = nil })
}

// TestReplayL09ReadyIsDerived from the live Pods, and not from what a controller said before a drain.
func TestReplayL09ReadyIsDerived(t *testing.T) {
	for name, edit := range map[string]func(s *scene){
		"evicted":              func(s *scene) { s.workload.DeletionTimestamp = &metav1.Time{Time: epoch} },
		"not ready":            func(s *scene) { unready(s.workload, corev1.PodRunning) },
		"gone":                 func(s *scene) { s.workload = nil },
		"its supervisor":       func(s *scene) { unready(s.supervisor, corev1.PodRunning) },
		"of another run":       func(s *scene) { s.workload.UID = "other" },
		"said before the spec": func(s *scene) { s.box.Generation++ },
	} {
		if phase, message := told(t, edit); phase == "Ready" {
			t.Errorf("%s: it is ready: %s", name, message)
		}
	}
}

// TestReplayL10AnEndedWorkload is told as an end with its reason, until a stop or a start is under way.
func TestReplayL10AnEndedWorkload(t *testing.T) {
	fails := func(s *scene) {
		s.set("Ready", "False", "PodFailed")
		unready(s.workload, corev1.PodFailed).ContainerStatuses = []corev1.ContainerStatus{ended(3, "Error")}
		s.record.Readiness = runstate.Unavailable
	}
	tells(t, "Error", "exit code 3", fails)
	tells(t, "Provisioning", "", func(s *scene) { fails(s); s.record = starting() })
	tells(t, "Provisioning", "", func(s *scene) { fails(s); s.record = stopping() })
}

// TestReplayL12ARefusedPod is told with the API server's words while it is refused, and not by a deadline.
func TestReplayL12ARefusedPod(t *testing.T) {
	const words = `pods "team--box" is forbidden: exceeded quota: small, requested: cpu=1, used: cpu=4, limited: cpu=4`
	refused := func(s *scene) {
		s.workload = nil
		s.put(sandboxapi.Condition{Type: "Ready", Status: "False", Reason: "ReconcilerError", Message: words, ObservedGeneration: s.box.Generation})
	}
	tells(t, "Provisioning", "refused by quota: "+words, func(s *scene) { refused(s); s.record = starting() })
	tells(t, "Provisioning", "refused by quota: "+words, func(s *scene) { refused(s); s.record.Readiness = runstate.Unavailable })
}

// TestReplayL13AClaimThatIsNotBound is named as the cause.
func TestReplayL13AClaimThatIsNotBound(t *testing.T) {
	tells(t, "Provisioning", "unbound claim", func(s *scene) {
		s.record = starting()
		unready(s.workload, corev1.PodPending).Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
			Message: "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
		}}
	})
}

// TestReplayL14APodOfAFormerSandbox of the same name is not this one's: owners are compared by uid.
func TestReplayL14APodOfAFormerSandbox(t *testing.T) {
	tells(t, "Provisioning", "the workload Pod is gone", func(s *scene) { s.workload.OwnerReferences[0].UID = "the former" })
	tells(t, "Provisioning", "the supervisor Pod is gone", func(s *scene) { s.supervisor.OwnerReferences[0].UID = "the former" })
}

// TestReplayL16AStaleSuspendedCondition, as controllers of that version leave it on resume, never says that a sandbox is stopped.
func TestReplayL16AStaleSuspendedCondition(t *testing.T) {
	for name, observed := range map[string]int64{"of a former generation": 3, "without one": 0, "with the present one": 4} {
		stale := sandboxapi.Condition{Type: "Suspended", Status: "True", Reason: "PodTerminated", ObservedGeneration: observed}
		for ready, edit := range map[string]func(s *scene){
			"ready":     func(*scene) {},
			"not ready": func(s *scene) { s.set("Ready", "False", "DependenciesNotReady") },
			"starting":  func(s *scene) { s.record = starting() },
		} {
			if phase, _ := told(t, func(s *scene) { s.put(stale); edit(s) }); phase == "Stopped" || ready == "ready" && phase != "Ready" {
				t.Errorf("%s, %s: %s", name, ready, phase)
			}
		}
	}
}

// TestReplayL17AStopWithThePodStillThere is not told as complete, in either version of the resource.
func TestReplayL17AStopWithThePodStillThere(t *testing.T) {
	for _, version := range []sandboxapi.Version{sandboxapi.V1beta1, sandboxapi.V1alpha1} {
		stop := func(s *scene) {
			former := s.workload
			s.suspend()
			s.box.Version, s.workload = version, former
			former.DeletionTimestamp = &metav1.Time{Time: epoch}
		}
		tells(t, "Provisioning", "", stop)
		tells(t, "Stopped", "", func(s *scene) { stop(s); s.workload = nil })
	}
}

// TestReplayL22WhatAStockDriverMade is read after an upgrade. Its labels and annotations are written out here as that driver writes them.
func TestReplayL22WhatAStockDriverMade(t *testing.T) {
	box := sandboxapi.Object{
		Sandbox: sandboxapi.Sandbox{
			Namespace: "openshell", Name: "team--demo", UID: "u",
			Labels: map[string]string{
				"openshell.ai/managed-by": "openshell", "openshell.ai/sandbox-id": sandboxID, "openshell.ai/sandbox-name": "demo",
				"openshell.ai/sandbox-workspace": "team", "openshell.ai/gateway-id": "blue",
			},
			Annotations: map[string]string{
				"openshell.ai/sandbox-id": sandboxID, "openshell.ai/sandbox-runtime-generation": "g1", "openshell.ai/sandbox-runtime-readiness": "ready",
				"openshell.ai/sandbox-runtime-workload-uid": "w", "openshell.ai/sandbox-runtime-supervisor-uid": "s",
				"openshell.ai/sandbox-runtime-network-policy-uid": "f", "openshell.ai/sandbox-runtime-network-policy-generation": "1",
			},
		},
		Version: sandboxapi.V1beta1, Generation: 1, Mode: sandboxapi.Running,
		Conditions: []sandboxapi.Condition{{Type: "Ready", Status: "True", Reason: "DependenciesReady", ObservedGeneration: 1}},
	}
	read, err := Read(&box, scheme)
	if err != nil {
		t.Fatal(err)
	}
	mine := func(uid string, supervisor bool) *Pod {
		return &Pod{Namespace: "openshell", Name: uid, UID: uid, Owner: "u", Supervisor: supervisor, Ready: true}
	}
	d := Render(&read, Pick(&read, []*Pod{mine("w", false), mine("s", true)}, true))
	if d.GetId() != sandboxID || d.GetName() != "demo" || d.GetWorkspace() != "team" || phaseOf(d) != "Ready" {
		t.Errorf("%v", d)
	}
}

// TestReplayL26ALostNode: its Pods are not ready, then gone; never is the sandbox told as ready, or not at all.
func TestReplayL26ALostNode(t *testing.T) {
	tells(t, "Provisioning", "not ready", func(s *scene) { unready(s.workload, corev1.PodRunning); unready(s.supervisor, corev1.PodRunning) })
	tells(t, "Provisioning", "gone", func(s *scene) { s.workload, s.supervisor = nil, nil })
	tells(t, "Provisioning", "the run was ended: the node is gone", func(s *scene) { // as supervisorctl then records
		s.record.Readiness, s.record.StopExplanation = runstate.Unavailable, "the node is gone"
	})
}

// TestReplayL28WhyAPodDoesNotStart reaches the gateway in the message of Ready, from either Pod.
func TestReplayL28WhyAPodDoesNotStart(t *testing.T) {
	for _, c := range []struct {
		status corev1.PodStatus
		says   string
	}{
		{corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waits("ImagePullBackOff", "no such image")}}, "image pull: container agent waits: ImagePullBackOff: no such image"},
		{corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waits("CreateContainerConfigError", `secret "x" not found`)}}, `container start: container agent waits: CreateContainerConfigError: secret "x" not found`},
		{corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{ended(137, "OOMKilled")}}, "crash: container agent ended with exit code 137 (OOMKilled)"},
		{corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "the node was low on memory"}, "ended: Evicted: the node was low on memory"},
		{corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient cpu",
		}}}, "unschedulable: Unschedulable: 0/3 nodes are available: 3 Insufficient cpu"},
	} {
		tells(t, "Provisioning", "workload Pod: "+c.says, func(s *scene) { s.record, s.workload.Status = starting(), c.status })
		tells(t, "Provisioning", "supervisor Pod: "+c.says, func(s *scene) { s.record, s.supervisor.Status = starting(), c.status })
	}
	// A Pod that waits behind its own gate has no cause.
	if _, message := told(t, func(s *scene) {
		s.record = starting()
		unready(s.workload, corev1.PodPending).Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
	}); strings.Contains(message, "chedul") {
		t.Errorf("a gate is told as a cause: %s", message)
	}
}
