package phase

import "slices"

// Observation is what is known about a sandbox beside its row.
type Observation struct {
	Status           Status
	ReportsReadiness bool // the driver's Ready is final (capability driver_reports_runtime_readiness)
	Connected        bool // the run's supervisor holds a session
	GPU              bool // the sandbox asked for one
}

// Public is what a user sees.
type Public struct {
	Phase      Phase
	Conditions []Condition
}

// The texts of conditions that the gateway makes (contract 2.11).
const (
	waitingMessage      = "Backend ready; waiting for supervisor session"
	connectedMessage    = "Supervisor session connected"
	DisconnectedMessage = "Supervisor session disconnected"
	gpuMessage          = "No node has a free GPU for this sandbox; it waits, or a smaller request may fit"
)

// ConnectedCondition is what a session's beginning makes of Ready.
func ConnectedCondition() Condition {
	return Condition{Type: "Ready", Status: "True", Reason: "DependenciesReady", Message: connectedMessage}
}

// DisconnectedCondition is what its end makes of it.
func DisconnectedCondition() Condition {
	return Condition{Type: "Ready", Status: "False", Reason: "DependenciesNotReady", Message: DisconnectedMessage}
}

// Compose makes the public phase from what is observed, without regard to the stored one (contract 2.11).
func Compose(o Observation) Public {
	public := Public{Phase: Backend(o.Status), Conditions: slices.Clone(o.Status.Conditions)}
	switch public.Phase {
	case Ready:
		if !o.ReportsReadiness && !o.Connected {
			public.Phase = Provisioning
			public.Conditions = With(public.Conditions, Condition{
				Type: "Ready", Status: "False", Reason: "SupervisorNotConnected", Message: waitingMessage,
			})
		}
	case Provisioning, Unknown:
		public.Phase = Provisioning
		if o.Connected {
			public.Phase = Ready
			public.Conditions = With(public.Conditions, ConnectedCondition())
		}
	case Error:
		if ready := o.Status.Find("Ready"); o.GPU && among(ready.Reason, []string{"Unschedulable"}) {
			ready.Message = gpuMessage
			public.Conditions = With(public.Conditions, ready)
		}
	default:
	}
	return public
}

// With returns the conditions with c in the place of those of its type, or at the end. The argument is not changed.
func With(conditions []Condition, c Condition) []Condition {
	replaced := slices.DeleteFunc(slices.Clone(conditions), func(old Condition) bool { return old.Type == c.Type })
	return append(replaced, c)
}

// Verdict is what an observation does to a row.
type Verdict int

// What it does. The zero Verdict leaves the row alone.
const (
	Ignored Verdict = iota // nothing but the name may change
	Kept                   // the phase stays, the conditions are news
	Moved                  // Public replaces phase and conditions
	Late                   // as Ignored: it became ready after its deadline (contract 2.12, ProvisioningDeadlineElapsed)
)

// Next decides what an observation does to a row in a phase (contract 2.8, 2.11). Public is meaningful when the verdict is Kept
// or Moved.
func Next(stored Phase, cause Cause, o Observation) (Public, Verdict) {
	public := Compose(o)
	backend := Backend(o.Status)
	moved := func(to Phase) (Public, Verdict) {
		public.Phase = to
		if to == stored {
			return public, Kept
		}
		return public, Moved
	}
	switch stored {
	case Error:
		if cause == ProvisioningTimedOut && (public.Phase == Ready || backend == Ready) {
			return public, Late
		}
		return public, Ignored
	case Completed, Deleting:
		return public, Ignored
	default:
	}
	if !o.Status.Known && !o.Connected {
		return public, Ignored // a snapshot without status says nothing about the phase
	}
	switch stored {
	case Stopping:
		switch {
		case backend == Stopped, exited(o.Status):
			return moved(Stopped)
		case backend == Error:
			return moved(Error)
		}
		return moved(Stopping)
	case Stopped:
		if o.Status.Has("Bootstrapping", "True") && !o.Status.Has("Suspended", "True") && !o.Status.Deleting {
			return moved(public.Phase)
		}
		return moved(Stopped)
	case Starting:
		if public.Phase == Ready || public.Phase == Error {
			return moved(public.Phase)
		}
		return moved(Starting)
	default:
		return moved(public.Phase)
	}
}
