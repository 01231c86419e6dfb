package plan

import "github.com/portcullis-mesh/portcullis/shared/verdict"

// The reasons of refusals, which are registered in package verdict.
const (
	SandboxAbsent         = verdict.RunSandboxAbsent
	ObjectUnreadable      = verdict.RunObjectUnreadable
	SandboxReplaced       = verdict.RunSandboxReplaced
	SandboxForeign        = verdict.RunSandboxForeign
	SandboxDeleting       = verdict.RunSandboxDeleting
	RecordInvalid         = verdict.RunRecordInvalid
	IsAnother             = verdict.RunIsAnother
	IsTaken               = verdict.RunIsTaken
	Broke                 = verdict.RunBroke
	NotReady              = verdict.RunNotReady
	FenceNotAcknowledged  = verdict.FenceNotAcknowledged
	FenceAltered          = verdict.FenceAltered
	Collision             = verdict.CompanionCollision
	ServiceWithoutAddress = verdict.ServiceWithoutAddress
	WorkloadMissing       = verdict.WorkloadMissing
	WorkloadRefused       = verdict.WorkloadRefused
	WorkloadAltered       = verdict.WorkloadAltered
	CompanionAltered      = verdict.CompanionAltered
	GateLifted            = verdict.GateLifted
)
