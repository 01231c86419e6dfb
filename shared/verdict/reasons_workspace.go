package verdict

import "google.golang.org/grpc/codes"

// The reasons for which lifecycle finds no place for a workspace (contract 9). What the allowlist says has its own.
const (
	// WorkspaceInvalid: no namespace can have the name that the workspace leads to.
	WorkspaceInvalid Reason = "workspace_invalid"
	// WorkspaceAbsent: the namespace does not exist and is not the driver's to make.
	WorkspaceAbsent Reason = "workspace_absent"
	// WorkspaceForeign: the namespace exists and is not the workspace's.
	WorkspaceForeign Reason = "workspace_foreign"
	// WorkspaceTerminating: the namespace is being deleted.
	WorkspaceTerminating Reason = "workspace_terminating"
	// WorkspaceRefused: the cluster refuses the namespace or what belongs in it.
	WorkspaceRefused Reason = "workspace_refused"
	// WorkspaceUnreadable: the API server did not say what there is, or whether it was made.
	WorkspaceUnreadable Reason = "workspace_unreadable"
	// WorkspaceSCCPending: the OpenShift allocator has not done its part in time.
	WorkspaceSCCPending Reason = "workspace_scc_pending"
	// WorkspaceSCCPrevented: the namespace lacks OpenShift annotations, and does not come by them.
	WorkspaceSCCPrevented Reason = "workspace_scc_prevented"
)

// workspaceSpecs is never written to.
var workspaceSpecs = [...]Spec{
	{
		Reason: WorkspaceInvalid, Outcome: Denied, Code: codes.InvalidArgument,
		Doc:     "The workspace's name, together with the settings, is not the name of a namespace (contract 4.1).",
		Message: "the workspace has a name that no namespace can have",
	},
	{
		Reason: WorkspaceAbsent, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The namespace does not exist, and outside of managed mode the platform team makes it; in managed mode it is the source namespace of the settings.",
		Message: "the workspace has no namespace",
	},
	{
		Reason: WorkspaceForeign, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "A namespace of the name exists, and its labels do not say that it is this gateway's for this workspace.",
		Message: "the workspace's namespace belongs to somebody else",
	},
	{
		Reason: WorkspaceTerminating, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The namespace is being deleted; its name is free again when it is gone. If that does not happen, kubectl describe namespace says which objects hold it.",
		Message: "the workspace's namespace is being deleted; try again later",
	},
	{
		Reason: WorkspaceRefused, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The API server refused to make the namespace, its ServiceAccount or its SSH policy: admission, quota or a missing right; the explanation has its words.",
		Message: "the cluster refuses the workspace's namespace",
	},
	{
		Reason: WorkspaceUnreadable, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "The API server did not answer about the namespace, or it is not known whether a write was carried out. Repeating the call completes it.",
		Message: "the workspace's namespace could not be read",
	},
	{
		Reason: WorkspaceSCCPending, Outcome: Unknown, Code: codes.Unavailable, Retryable: true,
		Doc:     "With openshift_scc = \"allocate\", the cluster's allocator has not annotated the new namespace in time (contract 9.3).",
		Message: "the cluster has not given the workspace's namespace its ranges yet; try again later",
	},
	{
		Reason: WorkspaceSCCPrevented, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The namespace lacks OpenShift annotations that its sandboxes take their identity from, and does not come by them: with openshift_scc = \"allocate\" the SELinux label beside its uid range, with \"copy\" the ranges of the source namespace (contract 9.3).",
		Message: "the workspace's namespace lacks OpenShift annotations; delete the workspace and let it be made again",
	},
}
