package plan

import (
	"fmt"

	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Action is what a step does. The zero Action refuses.
type Action uint8

// The actions. Each is one write to the API server, save where it says otherwise.
const (
	// Refuse ends the work with Reason and Explanation. With Undo, what the run made so far is to be taken away first: see Want.Undone.
	Refuse Action = iota
	// Done ends the work: what is wanted is so.
	Done
	// Await waits until Subject changes. How long it may is for whoever executes it to say; a look of Keep ends with it.
	Await

	// CreateWorkloadFence and CreateSupervisorFence make one policy each.
	CreateWorkloadFence
	CreateSupervisorFence
	// CreateService makes the boundary Service.
	CreateService
	// CreateSupervisor makes the supervisor Pod, gated.
	CreateSupervisor
	// Begin writes Record, and the names of the run's Secrets into the template of the suspended Sandbox.
	Begin
	// Resume writes Record and makes the Sandbox run.
	Resume
	// Write writes Record.
	Write
	// MakeSecrets makes all Secrets: several writes. What it finds under a name is in its way: see Afresh.
	MakeSecrets
	// UngateSupervisor and UngateWorkload lift the gate of the Pod with UID.
	UngateSupervisor
	UngateWorkload

	// DeleteSupervisor and DeleteService delete the object with UID.
	DeleteSupervisor
	DeleteService
	// DeleteWorkload deletes the workload Pod with UID, of which the controller takes no notice any more because somebody took its
	// owner away.
	DeleteWorkload
	// Suspend writes Record and makes the Sandbox suspended.
	Suspend
	// DeleteSecrets removes those Secrets of Generation of which the uid is known, to the record or to this attempt: several writes. The
	// others go with the Pods that own them.
	DeleteSecrets
)

var actionNames = [...]string{
	"refuse", "done", "await", "create-workload-fence", "create-supervisor-fence", "create-service", "create-supervisor", "begin", "resume",
	"write", "make-secrets", "ungate-supervisor", "ungate-workload", "delete-supervisor", "delete-service", "delete-workload", "suspend", "delete-secrets",
}

// String is the action's name in logs and metrics.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return "unknown"
}

// Subject is an object of the set.
type Subject uint8

// The subjects that a step may wait for.
const (
	SubjectSandbox Subject = iota + 1
	SubjectSupervisor
	SubjectWorkload
)

// String is the subject's name in texts.
func (s Subject) String() string {
	switch s {
	case SubjectSandbox:
		return "Sandbox"
	case SubjectSupervisor:
		return "supervisor Pod"
	case SubjectWorkload:
		return "workload Pod"
	}
	return "object"
}

// Step is what to do next.
type Step struct {
	Action Action
	// Subject to wait for.
	Subject Subject
	// UID of what is deleted or ungated; never empty there.
	UID string
	// Record to write, whole; what differs from the present one is written.
	Record runstate.Record
	// Generation whose Secrets are meant.
	Generation string
	// For is what MakeSecrets makes them for.
	For Bound
	// Afresh says that an earlier attempt or run may have left Secrets whose Pods are gone, so that one that is in the way may be about
	// to go; Attempt.Afresh keeps it.
	Afresh bool

	// Inherits is the workload Pod with which this attempt takes over from another one that may have made Secrets for it, empty if it does
	// not; Attempt.Inherited keeps it.
	Inherits string

	// Reason and Explanation of a refusal, or of a stop that Keep begins.
	Reason      verdict.Reason
	Explanation string
	// Undo: what the run made so far is to be taken away.
	Undo bool
}

// Ends reports whether the work is at its end with this step.
func (s Step) Ends() bool { return s.Action == Refuse || s.Action == Done }

func refuse(reason verdict.Reason, format string, args ...any) Step {
	return Step{Action: Refuse, Reason: reason, Explanation: fmt.Sprintf(format, args...)}
}

// undo is a refusal after which nothing of the run may stay.
func undo(reason verdict.Reason, format string, args ...any) Step {
	s := refuse(reason, format, args...)
	s.Undo = true
	return s
}

func unreadable(what, why string) Step {
	return refuse(ObjectUnreadable, "the %s could not be read: %s", what, why)
}

// sure refuses instead of a step that would write a record that nobody can read again, or act on an object whose uid is not known.
func sure(step Step) Step {
	switch step.Action {
	case Begin, Resume, Write, Suspend:
		if again, err := runstate.Of(step.Record.Annotations()); err != nil {
			return refuse(RecordInvalid, "to %s would leave a record that cannot be read: %v", step.Action, err)
		} else if again != step.Record {
			return refuse(RecordInvalid, "to %s would leave a record that reads differently", step.Action)
		}
	case UngateSupervisor, UngateWorkload, DeleteSupervisor, DeleteService, DeleteWorkload:
		if step.UID == "" {
			return unreadable("object to "+step.Action.String(), "it has no uid")
		}
	default: // has neither
	}
	return step
}
