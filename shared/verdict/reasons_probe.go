package verdict

import "google.golang.org/grpc/codes"

// The reasons for which a probe of the fence does not say that a namespace is fenced, beside FenceAltered and
// CallEnded. Those that deny say that the fence does not hold; the others, that it could not be found out.
const (
	// FenceEgressOpen: a Pod with a workload's labels reached what it must not reach.
	FenceEgressOpen Reason = "fence_egress_open"
	// FenceIngressOpen: a Pod with a workload's labels was reached at another port than the boundary's.
	FenceIngressOpen Reason = "fence_ingress_open"

	// ProbeNotRun: no probe of the namespace has come to an end yet.
	ProbeNotRun Reason = "probe_not_run"
	// ProbeUnreadable: the API server did not answer, or it is not known whether it did what the probe asked for.
	ProbeUnreadable Reason = "probe_cluster_unreadable"
	// ProbeRefused: the cluster refuses what the probe makes.
	ProbeRefused Reason = "probe_refused"
	// ProbePodAltered: the admitted canary Pod is not the one that was asked for.
	ProbePodAltered Reason = "probe_pod_altered"
	// ProbePodFailed: a canary Pod did not run, or did not run to its end.
	ProbePodFailed Reason = "probe_pod_failed"
	// ProbeReportInvalid: a canary left no report, or none of this probe.
	ProbeReportInvalid Reason = "probe_report_invalid"
	// ProbeTargetUnreached: the canary that may go everywhere did not reach a target, before, during or after the tries.
	ProbeTargetUnreached Reason = "probe_target_unreached"
	// ProbeDoorUnreached: the supervisor canary did not get into the workload canary.
	ProbeDoorUnreached Reason = "probe_door_unreached"
	// ProbeUndecided: the tries neither reached a target nor were blocked often enough in a row, or the fence changed meanwhile.
	ProbeUndecided Reason = "probe_undecided"
)

// probeSpecs is never written to.
var probeSpecs = [...]Spec{
	{
		Reason: FenceEgressOpen, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "A canary Pod with a workload's labels opened a connection to a target after enforcement had its time to set in: the network plug-in does not enforce the fence, or something else opens it.",
		Message: sayNotFenced,
	},
	{
		Reason: FenceIngressOpen, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "A canary Pod with a workload's labels could be reached at another port than the boundary's: the network plug-in does not enforce the fence inwards, or something else opens it.",
		Message: sayNotFenced,
	},
	{
		Reason: ProbeNotRun, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "No probe of the namespace has come to an end since the daemon started, or nobody probes the namespace.",
		Message: sayNoProbeYet,
	},
	{
		Reason: ProbeUnreadable, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The API server did not answer the probe, or not so that it is known what it did.",
		Message: sayNotProbed,
	},
	{
		Reason: ProbeRefused, Outcome: Unknown, Code: codes.Unavailable,
		Doc:     "The cluster refuses a policy or a canary Pod of the probe: the namespace is absent or ends, a quota, Pod security, an admission webhook; or the canary cannot be rendered.",
		Message: sayNotProbed,
	},
	{
		Reason: ProbePodAltered, Outcome: Unknown, Code: codes.Unavailable,
		Doc:     "Admission changed a canary Pod in what the probe rests on: its labels, its network, its program or its containers.",
		Message: sayNotProbed,
	},
	{
		Reason: ProbePodFailed, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "A canary Pod was not scheduled, its image (probe_image) could not be had, it was removed, or it did not end in time.",
		Message: sayNotProbed,
	},
	{
		Reason: ProbeReportInvalid, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "A canary Pod ended without the report of this probe: its program failed, or probe_image is no supervisorctl of this release.",
		Message: sayNotProbed,
	},
	{
		Reason: ProbeTargetUnreached, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The canary with a supervisor's labels, which may go everywhere, did not reach a target before, during or after the workload's tries: that these were blocked proves nothing.",
		Message: sayNotProbed,
	},
	{
		Reason: ProbeDoorUnreached, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The canary with a supervisor's labels did not get into the workload's at the boundary port, or not out of it in order: the fence cuts supervisors off, or the workload's canary had no network.",
		Message: sayNotProbed,
	},
	{
		Reason: ProbeUndecided, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The tries of a canary were neither let through nor blocked often enough in a row before the probe's time was over, or a policy was changed, made anew or deleted meanwhile.",
		Message: sayNotProbed,
	},
}
