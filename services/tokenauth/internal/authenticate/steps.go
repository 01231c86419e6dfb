package authenticate

import "github.com/portcullis-mesh/portcullis/shared/verdict"

// steps is the order of judgement; doc.go argues it. It is never written to.
var steps = [...]check{
	{name: "request.credential", contract: 1, judge: judgeCredential, shows: showCredential, reasons: reasons(verdict.CredentialMissing)},
	{name: "request.size", judge: judgeSize, shows: showCredential, reasons: reasons(verdict.CredentialTooLarge)},
	{name: "request.gateway", judge: judgeGateway, shows: showGateway, reasons: reasons(verdict.OtherGateway)},
	{name: "request.form", judge: judgeForm, shows: showForm, reasons: reasons(verdict.CredentialMalformed)},

	{name: "review.answered", contract: 2, judge: judgeReviewAnswered, shows: showReview, reasons: reasons(verdict.NotAsked, verdict.ReviewFailed)},
	{name: "review.status", contract: 3, judge: judgeReviewStatus, shows: showReview, reasons: reasons(verdict.ReviewIncomplete)},
	{name: "review.authenticated", contract: 4, judge: judgeAuthenticated, shows: showReview, reasons: reasons(verdict.CredentialNotAccepted)},
	{name: "review.audience", contract: 5, judge: judgeAudience, shows: showAudience, reasons: reasons(verdict.AudienceNotAccepted)},
	{name: "review.user", contract: 6, judge: judgeUser, shows: showUser, reasons: reasons(verdict.NotServiceAccount)},
	{name: "review.account", contract: 7, judge: judgeAccount, shows: showAccount, reasons: reasons(verdict.AccountNotAccepted)},
	{name: "namespace.accepted", contract: 8, judge: judgeNamespace, shows: showNamespace, reasons: reasons(
		verdict.NamespaceNotAccepted, verdict.NotAsked, verdict.NotListed,
		verdict.Unsynced, verdict.Stale, verdict.Withdrawn, verdict.Invalid, verdict.Forked, verdict.Behind)},
	{name: "review.pod", contract: 9, judge: judgePodBinding, shows: showPodBinding, reasons: reasons(verdict.NotPodBound)},

	{name: "namespace.found", judge: judgeNamespaceFound, shows: showNamespaceFound, reasons: reasons(
		verdict.NotAsked, verdict.NamespaceLookupFailed, verdict.NamespaceNotFound)},
	{name: "namespace.uid", judge: judgeNamespaceUID, shows: showNamespaceUID, reasons: reasons(verdict.NamespaceReplaced)},
	{name: "namespace.owned", judge: judgeNamespaceOwned, shows: showNamespaceOwned, reasons: reasons(verdict.NamespaceNotOwned)},
	{name: "namespace.deletion", judge: judgeNamespaceDeletion, shows: showNotDeleting, reasons: reasons(verdict.NamespaceTerminating)},

	{name: "pod.found", contract: 10, judge: judgePodFound, shows: showPod, reasons: reasons(verdict.NotAsked, verdict.PodLookupFailed, verdict.PodNotFound)},
	{name: "pod.uid", contract: 11, judge: judgePodUID, shows: showPod, reasons: reasons(verdict.PodReplaced)},
	{name: "pod.deletion", judge: judgePodDeletion, shows: showNotDeleting, reasons: reasons(verdict.PodTerminating)},
	{name: "pod.annotation", judge: judgePodAnnotation, shows: showPodAnnotations, reasons: reasons(verdict.PodSandboxIDConflict)},
	{name: "pod.sandbox", contract: 12, judge: judgePodSandbox, shows: showPodAnnotations, reasons: reasons(verdict.PodSandboxIDMissing)},
	{name: "pod.pairing", contract: 13, judge: judgePodPairing, shows: showPodPairing, reasons: reasons(verdict.PodPairingMismatch)},
	{name: "pod.owner", contract: 14, judge: judgePodOwner, shows: showPodOwner, reasons: reasons(verdict.PodOwnerInvalid)},
	{name: "pod.controller", contract: 14, judge: judgePodController, shows: showPodOwner, reasons: reasons(verdict.PodOwnerController)},

	{name: "sandbox.found", contract: 15, judge: judgeSandboxFound, shows: showSandbox, reasons: reasons(
		verdict.NotAsked, verdict.SandboxLookupFailed, verdict.SandboxNotFound)},
	{name: "sandbox.uid", contract: 16, judge: judgeSandboxUID, shows: showSandbox, reasons: reasons(verdict.SandboxReplaced)},
	{name: "sandbox.id", contract: 16, judge: judgeSandboxID, shows: showSandboxID, reasons: reasons(verdict.SandboxIDMismatch)},
	{name: "sandbox.deletion", judge: judgeSandboxDeletion, shows: showNotDeleting, reasons: reasons(verdict.SandboxTerminating)},
	{name: "sandbox.managed", judge: judgeSandboxManaged, shows: showSandboxManaged, reasons: reasons(verdict.SandboxNotManaged)},
	{name: "sandbox.gateway", judge: judgeSandboxGateway, shows: showSandboxGateway, reasons: reasons(verdict.SandboxOtherGateway)},
	{name: "sandbox.workspace", judge: judgeSandboxWorkspace, shows: showSandboxWorkspace, reasons: reasons(verdict.SandboxOtherNamespace)},

	{name: "pod.supervisor", contract: 17, judge: judgeSupervisor, shows: showPodPairing, reasons: reasons(verdict.NotSupervisor)},
	{name: "supervisor.recorded", judge: judgeSupervisorRecorded, shows: showSupervisor, reasons: reasons(verdict.SupervisorNotRecorded)},
	{name: "supervisor.current", judge: judgeSupervisorCurrent, shows: showSupervisor, reasons: reasons(verdict.SupervisorNotCurrent)},

	{name: "identity", judge: judgeIdentity, shows: showIdentity, reasons: reasons(verdict.IdentityUnusable)},
	{name: "namespace.listed.again", judge: judgeListedAgain, shows: showListedAgain, reasons: reasons(
		verdict.NotAsked, verdict.NotListed, verdict.NamespaceReplaced,
		verdict.Unsynced, verdict.Stale, verdict.Withdrawn, verdict.Invalid, verdict.Forked, verdict.Behind)},
}

func reasons(list ...verdict.Reason) []verdict.Reason { return list }
