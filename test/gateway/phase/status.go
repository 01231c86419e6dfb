package phase

import (
	"fmt"
	"slices"
	"strings"
	"time"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// Condition is one observation, of the driver or of the gateway.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// Status is what the driver said last. The zero Status is that it said nothing.
type Status struct {
	Known      bool        `json:"known,omitempty"`
	Deleting   bool        `json:"deleting,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// FromDriver reads a driver's status; nil is the zero Status. The error names a time that is out of range (contract 2.6).
func FromDriver(s *computev1.DriverSandboxStatus) (Status, error) {
	if s == nil {
		return Status{}, nil
	}
	read := Status{Known: true, Deleting: s.GetDeleting()}
	for i, c := range s.GetConditions() {
		given := Condition{Type: c.GetType(), Status: c.GetStatus(), Reason: c.GetReason(), Message: c.GetMessage()}
		if c.GetTransitionTime() != nil {
			if err := c.GetTransitionTime().CheckValid(); err != nil {
				return Status{}, fmt.Errorf("status.conditions[%d].transition_time: %w", i, err)
			}
			given.Since = c.GetTransitionTime().AsTime()
		}
		read.Conditions = append(read.Conditions, given)
	}
	return read, nil
}

// Find returns the first condition of exactly this type, the zero Condition when there is none.
func (s Status) Find(kind string) Condition {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return Condition{}
}

// Has reports whether some condition has this type and this status, in any case of letters.
func (s Status) Has(kind, status string) bool {
	return slices.ContainsFunc(s.Conditions, func(c Condition) bool {
		return strings.EqualFold(c.Type, kind) && strings.EqualFold(c.Status, status)
	})
}

// reason reports whether the condition has this type, this status and one of the reasons, in any case of letters.
func (s Status) reason(kind, status string, reasons ...string) bool {
	return slices.ContainsFunc(s.Conditions, func(c Condition) bool {
		return strings.EqualFold(c.Type, kind) && strings.EqualFold(c.Status, status) && among(c.Reason, reasons)
	})
}

func among(word string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, word) })
}

// TransientReasons are the reasons with which Ready=False means that a sandbox is still coming up (contract 2.10). The slice is
// the caller's own.
func TransientReasons() []string {
	return []string{
		"ReconcilerError", "DependenciesNotReady", "SupervisorNotConnected", "Starting", "ContainerStarting", "ContainerCreated",
		"HealthCheckStarting", "InspectFailed",
	}
}

// Transient reports whether a reason is one of them, in any case of letters.
func Transient(reason string) bool { return among(reason, TransientReasons()) }

// Backend derives the phase of what the driver runs (contract 2.10).
func Backend(s Status) Phase {
	switch {
	case !s.Known:
		return Unknown
	case s.Deleting:
		return Deleting
	case s.Has("Suspended", "True") && !s.Has("Ready", "True"):
		return Stopped
	}
	ready := s.Find("Ready")
	switch {
	case strings.EqualFold(ready.Status, "True"):
		return Ready
	case strings.EqualFold(ready.Status, "False") && !Transient(ready.Reason):
		return Error
	default:
		return Provisioning
	}
}

// StillStopping reports whether the status says that a stop is under way. It is asked behind a stop that failed and there goes
// before the derived phase, which would be Error (contract 2.6, StopSandbox); a snapshot has no such grace (contract 2.11).
func StillStopping(s Status) bool {
	return s.reason("Suspended", "False", "PodTerminating", "PodNotTerminated") || s.reason("Ready", "False", "ContainerRuntimeRestart")
}

// exited reports whether the status says that the container has ended, which is what a stop wants.
func exited(s Status) bool {
	return s.reason("Ready", "False", "ContainerExited", "ContainerStopped")
}
