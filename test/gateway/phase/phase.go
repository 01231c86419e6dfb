package phase

import "slices"

// Phase is where a sandbox is in its life.
type Phase string

// The phases. Backend gives only Unknown, Deleting, Stopped, Ready, Provisioning and Error.
const (
	Unspecified  Phase = ""
	Unknown      Phase = "Unknown"
	Provisioning Phase = "Provisioning"
	Ready        Phase = "Ready"
	Stopping     Phase = "Stopping"
	Stopped      Phase = "Stopped"
	Starting     Phase = "Starting"
	Completed    Phase = "Completed"
	Error        Phase = "Error"
	Deleting     Phase = "Deleting"
)

// All lists every phase.
func All() []Phase {
	return []Phase{Unspecified, Unknown, Provisioning, Ready, Stopping, Stopped, Starting, Completed, Error, Deleting}
}

// Cause is why a row is in Error or what keeps it from being forgotten. It decides what a user may do next.
type Cause string

// The causes. The zero Cause is the driver's own: its condition says why.
const (
	NoCause                Cause = ""
	MainProcessFailed      Cause = "MainProcessFailed"      // reported by the supervisor
	ProvisioningTimedOut   Cause = "ProvisioningTimedOut"   // contract 2.12
	ComputeResourceMissing Cause = "ComputeResourceMissing" // contract 2.9
)

// MayStart reports whether StartSandbox may be asked for (contract 2.6). reclaimed says that the clean-up behind a provisioning
// timeout is done.
func MayStart(p Phase, cause Cause, reclaimed bool) bool {
	switch p {
	case Stopped, Completed, Starting:
		return true
	case Error:
		return cause == MainProcessFailed || cause == ProvisioningTimedOut && reclaimed
	default:
		return false
	}
}

// MayStop reports whether StopSandbox may be asked for (contract 2.6).
func MayStop(p Phase) bool { return p == Ready || p == Stopping }

// Bindable reports whether a runtime identity that the driver returned may still be stored (contract 2.6). starting says that
// it came from a start.
func Bindable(p Phase, starting bool) bool {
	if starting {
		return p == Starting || p == Ready
	}
	return p == Provisioning || p == Ready
}

// Lost is what becomes of a row whose sandbox the driver does not have any more (contract 2.9).
type Lost int

// What becomes of it. The zero Lost keeps the row.
const (
	Keep   Lost = iota
	Fail        // Error, ComputeResourceMissing
	Remove      // the row goes, and DeleteSandbox is called
)

// Missing decides it for the prune sweep.
func Missing(p Phase, cause Cause) Lost {
	switch {
	case p == Completed, p == Error && (cause == MainProcessFailed || cause == ProvisioningTimedOut):
		return Keep
	case slices.Contains([]Phase{Stopping, Stopped, Starting}, p):
		return Fail
	default:
		return Remove
	}
}
