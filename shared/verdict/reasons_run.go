package verdict

import (
	"strings"

	"google.golang.org/grpc/codes"
)

// The reasons for which supervisorctl refuses to raise, stop or remove the companion set of a sandbox (contract 7), in the order
// in which its planner looks.
const (
	// RequestInvalid: a field of the request is missing or cannot be.
	RequestInvalid Reason = "request_invalid"
	// RunSandboxAbsent: there is no such Sandbox.
	RunSandboxAbsent Reason = "run_sandbox_absent"
	// RunObjectUnreadable: the Sandbox, or another object of the set, could not be read.
	RunObjectUnreadable Reason = "run_object_unreadable"
	// RunSandboxReplaced: another Sandbox has the name of the one that is meant.
	RunSandboxReplaced Reason = "run_sandbox_replaced"
	// RunSandboxForeign: the Sandbox is not this gateway's, not of this sandbox id, or not in its place.
	RunSandboxForeign Reason = "run_sandbox_foreign"
	// RunSandboxDeleting: the Sandbox is being deleted.
	RunSandboxDeleting Reason = "run_sandbox_deleting"
	// RunRecordInvalid: the Sandbox's annotations are not those of any run.
	RunRecordInvalid Reason = "run_record_invalid"
	// RunIsAnother: another run, or another operation on it, is recorded.
	RunIsAnother Reason = "run_is_another"
	// RunIsTaken: another attempt at the same run is under way.
	RunIsTaken Reason = "run_is_taken"
	// RunBroke: a part of the run is gone, and the run can only be ended.
	RunBroke Reason = "run_broke"
	// RunNotReady: the run was released and did not become ready in time, and nothing says why.
	RunNotReady Reason = "run_not_ready"

	// PodImageUnavailable: the image of a Pod is not pulled.
	PodImageUnavailable Reason = "pod_image_unavailable"
	// PodImageUnusable: the image of a Pod cannot be pulled, and no new try changes that.
	PodImageUnusable Reason = "pod_image_unusable"
	// PodClaimUnbound: a claim of a Pod is not bound.
	PodClaimUnbound Reason = "pod_claim_unbound"
	// PodUnschedulable: no node takes a Pod.
	PodUnschedulable Reason = "pod_unschedulable"
	// PodNotStarted: a container of a Pod cannot be made.
	PodNotStarted Reason = "pod_not_started"
	// PodCrashed: a container of a Pod has ended.
	PodCrashed Reason = "pod_crashed"

	// FenceNotAcknowledged: the operator has not said that the network enforces policies.
	FenceNotAcknowledged Reason = "fence_not_acknowledged"
	// FenceAltered: a policy of the fence is there and is not what it must be.
	FenceAltered Reason = "fence_altered"
	// FenceReopened: the fence is what it must be, and another policy allows more.
	FenceReopened Reason = "fence_reopened"
	// CompanionCollision: an object that is not ours has the name of a companion.
	CompanionCollision Reason = "companion_collision"
	// ServiceWithoutAddress: the boundary Service has no address of its own.
	ServiceWithoutAddress Reason = "service_without_address"
	// WorkloadMissing: the workload Pod did not come in time.
	WorkloadMissing Reason = "workload_missing"
	// WorkloadRefused: the cluster refuses to make the workload Pod, and says why.
	WorkloadRefused Reason = "workload_refused"
	// WorkloadAltered: the admitted workload Pod is not the one that was asked for.
	WorkloadAltered Reason = "workload_altered"
	// CompanionAltered: the supervisor Pod or the Service that the cluster made is not the one that was asked for.
	CompanionAltered Reason = "companion_altered"
	// GateLifted: a Pod's scheduling gate was lifted before its time, by somebody else.
	GateLifted Reason = "gate_lifted"
	// CompanionRefused: the cluster refuses a companion, or it cannot be rendered.
	CompanionRefused Reason = "companion_refused"
	// RunStopOverdue: a Pod or the controller does not come to an end in the time that it has.
	RunStopOverdue Reason = "run_stop_overdue"
	// LaunchInvalid: the credential bundle is missing or is none.
	LaunchInvalid Reason = "launch_authentication_invalid"
)

// runSpecs is never written to. Only FAILED_PRECONDITION reaches a user with its message (contract 2.6), so what a user or an
// operator can mend has it.
var runSpecs = [...]Spec{
	{
		Reason: RequestInvalid, Outcome: Denied, Code: codes.InvalidArgument,
		Doc:     "A field of the request is missing, malformed or too long; the explanation names it.",
		Message: "the request is invalid",
	},
	{
		Reason: RunSandboxAbsent, Outcome: Denied, Code: codes.NotFound,
		Doc:     "There is no Sandbox with the name and namespace of the request.",
		Message: "sandbox not found",
	},
	{
		Reason: RunObjectUnreadable, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The API server did not say what has become of the Sandbox or of one of its companions.",
		Message: "the sandbox's objects could not be read",
	},
	{
		Reason: RunSandboxReplaced, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The Sandbox of that name has another uid than the one that is meant.",
		Message: "the sandbox was replaced",
	},
	{
		Reason: RunSandboxForeign, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The Sandbox's labels name another gateway or another sandbox id, or say that OpenShell does not manage it, or it is in a namespace where its workspace does not live.",
		Message: "the sandbox object belongs to somebody else",
	},
	{
		Reason: RunSandboxDeleting, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The Sandbox has a deletion timestamp.",
		Message: "the sandbox is being deleted",
	},
	{
		Reason: RunRecordInvalid, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The annotations in which a Sandbox keeps the record of its run are unreadable or contradict each other: somebody edited them.",
		Message: "the sandbox's record of its run cannot be used",
	},
	{
		Reason: RunIsAnother, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The Sandbox records another generation, session or epoch than the request, or another operation that is not complete.",
		Message: "another run or operation of the sandbox is in progress",
	},
	{
		Reason: RunIsTaken, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "Another call, perhaps to another replica, is raising the same run; its attempt ends by itself if that process has died.",
		Message: "the sandbox is being started by another call",
	},
	{
		Reason: RunBroke, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "A Pod, the Service or the fence of the run was removed or replaced after it was released.",
		Message: "the sandbox's run lost a part and cannot go on",
	},
	{
		Reason: RunNotReady, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The run was released and was not ready within five minutes, and neither Pod nor the Sandbox says why.",
		Message: "the sandbox was not ready in time",
	},
	{
		Reason: PodImageUnavailable, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The image of a Pod was not pulled: registry, name or credentials. The kubelet tries again, so the run has its time; less when the registry has answered.",
		Message: "an image of the sandbox cannot be pulled",
	},
	{
		Reason: PodImageUnusable, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The name of a Pod's image is none, or the image may not be pulled and is not on the node. No new try changes that, so the run is ended.",
		Message: "an image of the sandbox cannot be used",
	},
	{
		Reason: PodClaimUnbound, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "A PersistentVolumeClaim of the workload Pod is not bound: no StorageClass, or no volume of it.",
		Message: "a volume of the sandbox is not available",
	},
	{
		Reason: PodUnschedulable, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "No node takes a Pod of the set; the explanation repeats the scheduler's words.",
		Message: "no node has room for the sandbox",
	},
	{
		Reason: PodNotStarted, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The kubelet cannot make a container of a Pod; the explanation repeats its words.",
		Message: "a container of the sandbox cannot be started",
	},
	{
		Reason: PodCrashed, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "A container of a Pod has ended, with the code in the explanation, and the run was not ready in time.",
		Message: "a container of the sandbox ends by itself",
	},
	{
		Reason: FenceNotAcknowledged, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "sandbox_runtime.network_policy_enforced is not true, so nobody vouches that NetworkPolicies are enforced.",
		Message: "the operator has not acknowledged that the cluster enforces network policies",
	},
	{
		Reason: FenceAltered, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "A NetworkPolicy of the fence differs from what it must be, or is being deleted; it is never repaired silently.",
		Message: "the namespace's network policies are not the required ones",
	},
	{
		Reason: FenceReopened, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "A NetworkPolicy that is not ours selects the workload Pod and allows it more than the fence does. It is reported and refuses nothing.",
		Message: "another network policy of the namespace opens the sandbox's fence",
	},
	{
		Reason: CompanionCollision, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "An object with the name of a companion exists and belongs to something else; it is left alone.",
		Message: "a foreign object has the name of one of the sandbox's companions",
	},
	{
		Reason: ServiceWithoutAddress, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The boundary Service has no cluster IP of its own.",
		Message: "the sandbox's service has no address",
	},
	{
		Reason: WorkloadMissing, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The Agent Sandbox controller made no workload Pod within the time allowed, and nothing says why.",
		Message: "the sandbox's pod was not created in time",
	},
	{
		Reason: WorkloadRefused, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The workload Pod is refused by quota, pod security, an SCC, an image, a claim or a scheduler; the explanation repeats the cluster's words.",
		Message: "the cluster refuses the sandbox's pod",
	},
	{
		Reason: WorkloadAltered, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The workload Pod that the API server admitted lacks a protection that was asked for, or has something that was not: a webhook or a policy changed it.",
		Message: "the admitted sandbox pod is not the requested one",
	},
	{
		Reason: CompanionAltered, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The supervisor Pod or the Service is not stored as it was asked for: an admission webhook or a policy changed it.",
		Message: "an admitted companion of the sandbox is not the requested one",
	},
	{
		Reason: GateLifted, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "A Pod of the set may be scheduled although its time had not come: somebody else lifted its gate.",
		Message: "a pod of the sandbox was released by somebody else",
	},
	{
		Reason: CompanionRefused, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The API server refuses the Service, the supervisor Pod, a policy or a Secret, by quota, admission or validation, or the Sandbox holds what none can be rendered from.",
		Message: "the cluster refuses a companion of the sandbox",
	},
	{
		Reason: RunStopOverdue, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The supervisor Pod, the workload Pod or the Sandbox's Suspended condition has not come within its grace period and 30 s more.",
		Message: "the sandbox has not stopped in time",
	},
	{
		Reason: LaunchInvalid, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "launch_authentication is empty or is not a valid credential bundle; nothing was touched.",
		Message: "the launch credentials are missing or invalid",
	},
}

// CamelCase is the code as Kubernetes writes reasons, in conditions and Events: RunBroke for run_broke.
func (r Reason) CamelCase() string {
	var out strings.Builder
	for word := range strings.SplitSeq(string(r), "_") {
		if word != "" {
			out.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return out.String()
}
