package allowlist

import (
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Answer is what a View says about one namespace. It is a plain value; the zero Answer refuses.
type Answer struct {
	// Namespace that was asked for.
	Namespace string
	// Reason of a refusal; empty in a yes.
	Reason verdict.Reason
	// Epoch and Revision of the newest list that is held; zero when none is. A yes says that this list holds the
	// namespace too.
	Epoch, Revision uint64
	// Proven says that Age has a meaning: a heartbeat vouches, or vouched, for a list.
	Proven bool
	// Age of that heartbeat, counted from its issue.
	Age time.Duration
	// UID of the namespace in the list; empty in a refusal, and when the source is a file.
	UID string

	allowed bool
}

// Allowed reports whether the answer is yes.
func (a Answer) Allowed() bool { return a.allowed }

// Evidence is the state of the list that the answer used.
func (a Answer) Evidence() verdict.Evidence {
	return verdict.Evidence{
		Namespace: a.Namespace, Epoch: a.Epoch, Revision: a.Revision, Proven: a.Proven, Age: a.Age, EntryUID: a.UID,
	}
}

// step names this check in a verdict.
const step = "allowlist"

// Decision is the answer as a verdict, with its evidence. Callers whose contract wants another code for a namespace
// that is not listed set it with WithCode (contract 5.3).
func (a Answer) Decision() verdict.Decision {
	if a.allowed {
		return verdict.Grant(a.Evidence())
	}
	spec, _ := a.Reason.Spec()
	return verdict.Refuse(a.Reason, step, spec.Doc).WithAllowlist(a.Evidence())
}
