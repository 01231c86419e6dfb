package verdict

import "google.golang.org/grpc/codes"

// The reasons for which tokenauth refuses a bearer (contract 6.1), in the order of its steps. Those of the allowlist come
// from the list itself.
const (
	// CredentialMissing: the request has no credential.
	CredentialMissing Reason = "credential_missing" //nolint:gosec // the name of a reason, not a credential
	// CredentialTooLarge: the credential is longer than any token of the cluster.
	CredentialTooLarge Reason = "credential_too_large" //nolint:gosec // the name of a reason, not a credential
	// OtherGateway: the request is for a gateway that this daemon is not configured for.
	OtherGateway Reason = "other_gateway"
	// CredentialMalformed: the credential has not the form of a token of the cluster.
	CredentialMalformed Reason = "credential_malformed" //nolint:gosec // the name of a reason, not a credential
	// NotAsked: a decision was made before everything it needs was asked for.
	NotAsked Reason = "not_asked"

	// ReviewFailed: the TokenReview could not be made.
	ReviewFailed Reason = "tokenreview_failed"
	// ReviewIncomplete: the TokenReview came back without a status.
	ReviewIncomplete Reason = "tokenreview_without_status"
	// CredentialNotAccepted: the TokenReview does not authenticate the credential.
	CredentialNotAccepted Reason = "credential_not_accepted" //nolint:gosec // the name of a reason, not a credential
	// AudienceNotAccepted: the TokenReview does not confirm our audience.
	AudienceNotAccepted Reason = "audience_not_accepted"
	// NotServiceAccount: the token's user is no ServiceAccount.
	NotServiceAccount Reason = "not_a_service_account"
	// AccountNotAccepted: the token's ServiceAccount is not that of sandboxes.
	AccountNotAccepted Reason = "service_account_not_accepted"
	// NamespaceNotAccepted: the namespace is none of the gateway's by its name.
	NamespaceNotAccepted Reason = "namespace_not_accepted"
	// NotPodBound: the token is not bound to exactly one Pod.
	NotPodBound Reason = "credential_not_pod_bound"

	// NamespaceLookupFailed: the namespace could not be read.
	NamespaceLookupFailed Reason = "namespace_lookup_failed"
	// NamespaceNotFound: the namespace does not exist.
	NamespaceNotFound Reason = "namespace_not_found"
	// NamespaceReplaced: the namespace has not the uid that the allowlist names.
	NamespaceReplaced Reason = "namespace_replaced"
	// NamespaceNotOwned: the labels of a managed namespace do not say that it is this gateway's.
	NamespaceNotOwned Reason = "namespace_not_owned"
	// NamespaceTerminating: the namespace is being deleted.
	NamespaceTerminating Reason = "namespace_terminating"

	// PodLookupFailed: the Pod could not be read.
	PodLookupFailed Reason = "pod_lookup_failed"
	// PodNotFound: the token's Pod does not exist.
	PodNotFound Reason = "pod_not_found"
	// PodReplaced: another Pod has the name of the token's Pod.
	PodReplaced Reason = "pod_replaced"
	// PodTerminating: the Pod is being deleted.
	PodTerminating Reason = "pod_terminating"
	// PodSandboxIDMissing: the Pod names no sandbox.
	PodSandboxIDMissing Reason = "pod_sandbox_id_missing"
	// PodSandboxIDConflict: the two spellings of the Pod's annotation name different sandboxes.
	PodSandboxIDConflict Reason = "pod_sandbox_id_conflict"
	// PodPairingMismatch: name or labels of a supervisor Pod are not those of its sandbox.
	PodPairingMismatch Reason = "pod_pairing_mismatch"
	// PodOwnerInvalid: the Pod does not have exactly one owning Sandbox.
	PodOwnerInvalid Reason = "pod_owner_invalid"
	// PodOwnerController: the Sandbox controls a supervisor Pod, or does not control a workload Pod.
	PodOwnerController Reason = "pod_owner_controller"

	// SandboxLookupFailed: the Sandbox could not be read.
	SandboxLookupFailed Reason = "sandbox_lookup_failed"
	// SandboxNotFound: the owning Sandbox does not exist.
	SandboxNotFound Reason = "sandbox_not_found"
	// SandboxReplaced: another Sandbox has the name of the owning one.
	SandboxReplaced Reason = "sandbox_replaced"
	// SandboxIDMismatch: the Sandbox has another sandbox id than the Pod.
	SandboxIDMismatch Reason = "sandbox_id_mismatch"
	// SandboxTerminating: the Sandbox is being deleted.
	SandboxTerminating Reason = "sandbox_terminating"
	// SandboxNotManaged: the Sandbox is not labelled as OpenShell's.
	SandboxNotManaged Reason = "sandbox_not_managed"
	// SandboxOtherGateway: the Sandbox is not labelled as this gateway's.
	SandboxOtherGateway Reason = "sandbox_other_gateway"
	// SandboxOtherNamespace: the Sandbox's workspace does not live in its namespace.
	SandboxOtherNamespace Reason = "sandbox_other_namespace"

	// NotSupervisor: the Pod is not a supervisor.
	NotSupervisor Reason = "not_the_supervisor"
	// SupervisorNotRecorded: the Sandbox records no supervisor.
	SupervisorNotRecorded Reason = "supervisor_not_recorded"
	// SupervisorNotCurrent: the Sandbox records another supervisor.
	SupervisorNotCurrent Reason = "supervisor_not_current"
	// IdentityUnusable: namespace and uids do not make a runtime identity.
	IdentityUnusable Reason = "runtime_identity_unusable"
)

// bearerSpecs is never written to. An error of the API server is INTERNAL and not UNAVAILABLE, as contract 6.1 says; that
// a repetition may help is in Retryable.
var bearerSpecs = [...]Spec{
	{
		Reason: CredentialMissing, Outcome: Denied, Code: codes.InvalidArgument,
		Doc:     "The request carried no credential.",
		Message: "credential is required",
	},
	{
		Reason: CredentialTooLarge, Outcome: Denied, Code: codes.InvalidArgument,
		Doc:     "The credential is longer than any token that the cluster issues.",
		Message: "credential is too large",
	},
	{
		Reason: OtherGateway, Outcome: Denied, Code: codes.FailedPrecondition,
		Doc:     "The request names a gateway other than the one that the daemon is configured for: lifecycle is connected to another gateway's daemon.",
		Message: "the request is for another gateway",
	},
	{
		Reason: CredentialMalformed, Outcome: Denied, Code: codes.Unauthenticated,
		Doc:     "The credential is not a token alone: three parts in the base64 of URLs, each in its one spelling, as the cluster issues them.",
		Message: sayNotAccepted,
	},
	{
		Reason: NotAsked, Outcome: Unknown, Code: codes.Internal,
		Doc:     "The decision was ended before the cluster or the allowlist was asked: a defect in the daemon that refused.",
		Message: sayNotChecked,
	},
	{
		Reason: ReviewFailed, Outcome: Unknown, Code: codes.Internal, Retryable: true,
		Doc:     "The API server did not answer the TokenReview.",
		Message: sayReviewFailed,
	},
	{
		Reason: ReviewIncomplete, Outcome: Unknown, Code: codes.Internal, Retryable: true,
		Doc:     "The API server answered the TokenReview without a status.",
		Message: sayReviewFailed,
	},
	{
		Reason: CredentialNotAccepted, Outcome: Denied, Code: codes.Unauthenticated,
		Doc:     "The API server does not authenticate the credential: it is no token of this cluster, expired, for another audience, or bound to an object that is gone; or the API server could not check it, which it answers in the same way.",
		Message: sayNotAccepted,
	},
	{
		Reason: AudienceNotAccepted, Outcome: Denied, Code: codes.Unauthenticated,
		Doc:     "The API server authenticates the token, and does not confirm that it is for the audience openshell-gateway: it, or what answers for it, does not know audiences.",
		Message: sayNotAccepted,
	},
	{
		Reason: NotServiceAccount, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The user of the token is not a ServiceAccount.",
		Message: sayNotAccepted,
	},
	{
		Reason: AccountNotAccepted, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The ServiceAccount of the token is not the one that sandboxes run under (service_account_name).",
		Message: sayNotAccepted,
	},
	{
		Reason: NamespaceNotAccepted, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The namespace of the token is not that of shared mode, or does not have the gateway's prefix of managed mode.",
		Message: sayNamespaceNotAccepted,
	},
	{
		Reason: NotPodBound, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The token is not bound to one Pod by uid and by a name that the cluster takes.",
		Message: sayNotAccepted,
	},
	{
		Reason: NamespaceLookupFailed, Outcome: Unknown, Code: codes.Internal, Retryable: true,
		Doc:     "The API server did not answer for the namespace.",
		Message: sayNotChecked,
	},
	{
		Reason: NamespaceNotFound, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The namespace does not exist: it was deleted while it was still listed, or while the call ran.",
		Message: sayNamespaceNotAccepted,
	},
	{
		Reason: NamespaceReplaced, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The namespace has another uid than the one in the allowlist: it was deleted and made anew.",
		Message: sayNamespaceNotAccepted,
	},
	{
		Reason: NamespaceNotOwned, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The namespace begins with the gateway's prefix of managed mode, and its labels managed-by, gateway-id and sandbox-workspace do not say that it is the gateway's: it is that of another gateway whose id begins with ours, or was not made by a gateway.",
		Message: sayNamespaceNotAccepted,
	},
	{
		Reason: NamespaceTerminating, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The namespace is being deleted.",
		Message: sayNamespaceNotAccepted,
	},
	{
		Reason: PodLookupFailed, Outcome: Unknown, Code: codes.Internal, Retryable: true,
		Doc:     "The API server did not answer for the Pod.",
		Message: sayNotChecked,
	},
	{
		Reason: PodNotFound, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The Pod that the token is bound to does not exist.",
		Message: sayNotAccepted,
	},
	{
		Reason: PodReplaced, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The Pod has another uid than the token: it was deleted and another made under its name.",
		Message: sayNotAccepted,
	},
	{
		Reason: PodTerminating, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The Pod is being deleted: it may finish what it does, and gets no new token.",
		Message: sayNotAccepted,
	},
	{
		Reason: PodSandboxIDMissing, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The Pod has no sandbox id annotation.",
		Message: sayNotAccepted,
	},
	{
		Reason: PodSandboxIDConflict, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The Pod has the sandbox id annotation in both spellings, with different values.",
		Message: sayNotAccepted,
	},
	{
		Reason: PodPairingMismatch, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The name or a label of the supervisor Pod does not belong to the sandbox that its annotation names.",
		Message: sayNotAccepted,
	},
	{
		Reason: PodOwnerInvalid, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The Pod does not have exactly one owner that is a Sandbox with a uid and a name that the cluster takes.",
		Message: sayNotAccepted,
	},
	{
		Reason: PodOwnerController, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The owner reference of a supervisor Pod says controller, or that of another Pod does not.",
		Message: sayNotAccepted,
	},
	{
		Reason: SandboxLookupFailed, Outcome: Unknown, Code: codes.Internal, Retryable: true,
		Doc:     "The API server did not answer for the Sandbox.",
		Message: sayNotChecked,
	},
	{
		Reason: SandboxNotFound, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The Sandbox that owns the Pod does not exist.",
		Message: sayNotAccepted,
	},
	{
		Reason: SandboxReplaced, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The Sandbox has another uid than the Pod's owner reference: it was deleted and another made under its name.",
		Message: sayNotAccepted,
	},
	{
		Reason: SandboxIDMismatch, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The sandbox id label of the Sandbox is not the id that the Pod names.",
		Message: sayNotAccepted,
	},
	{
		Reason: SandboxTerminating, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The Sandbox is being deleted.",
		Message: sayNotAccepted,
	},
	{
		Reason: SandboxNotManaged, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The Sandbox does not have the label managed-by with the value openshell, so it is none of OpenShell's.",
		Message: sayNotAccepted,
	},
	{
		Reason: SandboxOtherGateway, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The gateway id label of the Sandbox is missing or names another gateway.",
		Message: sayNotAccepted,
	},
	{
		Reason: SandboxOtherNamespace, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The workspace label of the Sandbox is missing, is no workspace, or leads to another managed namespace than the one that the Sandbox is in.",
		Message: sayNotAccepted,
	},
	{
		Reason: NotSupervisor, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The Pod is not a supervisor Pod.",
		Message: sayNotSupervisor,
	},
	{
		Reason: SupervisorNotRecorded, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The Sandbox records no supervisor uid, so no start of it has come far enough for a supervisor to run.",
		Message: sayNotAccepted,
	},
	{
		Reason: SupervisorNotCurrent, Outcome: Denied, Code: codes.PermissionDenied,
		Doc:     "The supervisor Pod is not the one that the Sandbox records: it is left over from an earlier start.",
		Message: sayNotAccepted,
	},
	{
		Reason: IdentityUnusable, Outcome: Unknown, Code: codes.Internal,
		Doc:     "The namespace or a uid has a form that no runtime identity can hold.",
		Message: sayNotChecked,
	},
}
