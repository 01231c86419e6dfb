package verdict

import "google.golang.org/grpc/codes"

// The reasons for which lifecycle refuses a call about a sandbox that is read, made, started or deleted (contract 2.6, 2.7), beside
// those of what it rests on.
const (
	// SandboxExists: a Sandbox of the name, or of the id, is there already.
	SandboxExists Reason = "sandbox_exists"
	// SandboxAbsent: it is proven that there is no such sandbox.
	SandboxAbsent Reason = "sandbox_absent"
	// SandboxAmbiguous: more than one Sandbox object has the id.
	SandboxAmbiguous Reason = "sandbox_ambiguous"
	// SandboxUnreadable: there is a Sandbox object with the id, and it cannot be understood.
	SandboxUnreadable Reason = "sandbox_unreadable"
	// SandboxRefused: the API server refuses the Sandbox object.
	SandboxRefused Reason = "sandbox_refused"
	// SandboxUnserved: the API server serves no known version of the Sandbox resource.
	SandboxUnserved Reason = "sandbox_resource_unserved"
	// SandboxUnsettled: the API server did not say what has become of the sandbox.
	SandboxUnsettled Reason = "sandbox_unsettled"
	// ViewNotCurrent: the driver's view of the cluster is not complete or not current.
	ViewNotCurrent Reason = "view_not_current"
	// WatchBehind: a caller of the watch took too little.
	WatchBehind Reason = "watch_behind"
	// ExpectedIdentity: the runtime identity that a start expects is missing, malformed or another sandbox's.
	ExpectedIdentity Reason = "expected_identity_mismatch"
	// SupervisorctlUnreachable: supervisorctl gave no answer.
	SupervisorctlUnreachable Reason = "supervisorctl_unreachable"
	// TokenauthUnreachable: tokenauth gave no answer.
	TokenauthUnreachable Reason = "tokenauth_unreachable" //nolint:gosec // the name of a reason, not a credential
)

// driverSpecs is never written to.
var driverSpecs = [...]Spec{
	{
		Reason: SandboxExists, Outcome: Denied, Code: codes.AlreadyExists,
		Doc:     "A Sandbox object of that name is there, or one of that sandbox id; in shared mode two pairs of workspace and name can have one name (contract 4.1).",
		Message: "sandbox already exists",
	},
	{
		Reason: SandboxAbsent, Outcome: Denied, Code: codes.NotFound,
		Doc:     "A consistent read of the cluster has no Sandbox of this gateway with the id.",
		Message: "sandbox not found",
	},
	{
		Reason: SandboxAmbiguous, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "Two Sandbox objects of this gateway have one sandbox id: somebody copied one. Delete the one that is not the gateway's.",
		Message: "more than one Sandbox object has this sandbox id",
	},
	{
		Reason: SandboxUnreadable, Outcome: Unknown, Code: codes.Internal,
		Doc:     "A Sandbox object with the id is in its place, and does not say what a sandbox must say, or not in a way that can be read. It is never taken for absent; it can be deleted.",
		Message: "the Sandbox object cannot be understood",
	},
	{
		Reason: SandboxRefused, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The API server refused to make the Sandbox: admission, quota, validation or a missing right; the explanation has its words, without values that they quote.",
		Message: "the cluster refuses the sandbox",
	},
	{
		Reason: SandboxUnserved, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "Neither v1beta1 nor v1alpha1 of agents.x-k8s.io sandboxes is served: the Agent Sandbox definitions are not installed.",
		Message: "the cluster does not serve the Agent Sandbox resource",
	},
	{
		Reason: SandboxUnsettled, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The API server did not answer, or not clearly, about the sandbox. What a create may have made is removed when it can be.",
		Message: "what has become of the sandbox could not be found out",
	},
	{
		Reason: ViewNotCurrent, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The driver's view of the cluster is not complete yet, or the cluster has not answered for too long; a partial list would be taken for absence (contract 2.9).",
		Message: "the driver's view of the cluster is not current",
	},
	{
		Reason: WatchBehind, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The caller of the watch left so much waiting that something would have been lost; it opens the stream again and is told everything.",
		Message: "the watch was reset because its reader is too slow; open it again",
	},
	{
		Reason: ExpectedIdentity, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "expected_runtime_identity is empty, is not one of this driver, or names another namespace or another Sandbox object than the one with the id (contract 7.11).",
		Message: "the expected runtime identity is not the sandbox's",
	},
	{
		Reason: SupervisorctlUnreachable, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "No answer came from supervisorctl, or one without a verdict: it is down, unreachable, or does not take lifecycle's certificate.",
		Message: "the sandbox's companions could not be reached",
	},
	{
		Reason: TokenauthUnreachable, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "No answer came from tokenauth, or one without a verdict: it is down, unreachable, or does not take lifecycle's certificate.",
		Message: "the sandbox credential could not be checked",
	},
}
