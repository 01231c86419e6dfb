package admitted

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Reasons about which Pod it is.
const (
	ExpectationIncomplete Reason = "workload_expectation_incomplete"
	PodMissing            Reason = "workload_pod_missing"
	WrongPod              Reason = "workload_wrong_pod"
	Deleting              Reason = "workload_deleting"
	OwnerMismatch         Reason = "workload_owner_mismatch"
	PairLabel             Reason = "workload_pair_label"
	RoleLabel             Reason = "workload_role_label"
	SandboxIDAnnotation   Reason = "workload_sandbox_id_annotation"
	GateMissing           Reason = "workload_gate_missing"
	AlreadyScheduled      Reason = "workload_already_scheduled"
)

func premises() []check {
	return []check{
		{ExpectationIncomplete, func(_ *corev1.Pod, e *Expected) string {
			if err := e.check(); err != nil {
				return err.Error()
			}
			return ""
		}},
		{PodMissing, func(p *corev1.Pod, _ *Expected) string {
			return unless(p != nil && p.UID != "", "there is no Pod with a uid")
		}},
	}
}

func identity() []check {
	return []check{
		{WrongPod, func(p *corev1.Pod, e *Expected) string {
			return unless(p.Name == e.Name && p.Namespace == e.Namespace, "Pod %.80q in namespace %.80q was looked at, and %q in %q must be",
				p.Name, p.Namespace, e.Name, e.Namespace)
		}},
		{Deleting, func(p *corev1.Pod, _ *Expected) string {
			return unless(p.DeletionTimestamp == nil, "the Pod is being deleted")
		}},
		{OwnerMismatch, owner},
		{PairLabel, func(p *corev1.Pod, e *Expected) string {
			return label(p, workspace.LabelBoundaryPair, workspace.Pair(e.ID))
		}},
		{RoleLabel, func(p *corev1.Pod, _ *Expected) string {
			return label(p, workspace.LabelBoundaryRole, workspace.RoleWorkload)
		}},
		{SandboxIDAnnotation, func(p *corev1.Pod, e *Expected) string {
			id, conflict := workspace.SandboxIDOf(p.Annotations)
			if conflict {
				return "the annotations of both spellings name different sandboxes"
			}
			return unless(id == e.ID, "the annotation %s is %.80q, and must be %q", workspace.AnnotationSandboxID, id, e.ID)
		}},
		{GateMissing, func(p *corev1.Pod, _ *Expected) string {
			gated := slices.ContainsFunc(p.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == workspace.SchedulingGate })
			return unless(gated, "the scheduling gate %s is gone, so the Pod may start without its material", workspace.SchedulingGate)
		}},
		{AlreadyScheduled, func(p *corev1.Pod, _ *Expected) string {
			return unless(p.Spec.NodeName == "", "the Pod is on node %.80q while its gate should hold it back", p.Spec.NodeName)
		}},
	}
}

// owner wants the Sandbox of this run for the controller, by uid (contract 7.1).
func owner(p *corev1.Pod, e *Expected) string {
	owner, err := sandboxapi.OwnerOf(p.OwnerReferences)
	switch {
	case err != nil:
		return err.Error()
	case owner.UID != string(e.SandboxUID):
		return unless(false, "the Pod is of the Sandbox with uid %.130q, and must be of %q", owner.UID, e.SandboxUID)
	case owner.Name != e.SandboxName:
		return unless(false, "the Pod is of the Sandbox %.80q, and must be of %q", owner.Name, e.SandboxName)
	default:
		return unless(owner.Controller, "the Sandbox owns the Pod and does not control it")
	}
}

func label(p *corev1.Pod, key, want string) string {
	return unless(p.Labels[key] == want, "the label %s is %.80q, and must be %q", key, p.Labels[key], want)
}
