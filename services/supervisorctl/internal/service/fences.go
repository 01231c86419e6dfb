package service

import (
	"time"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Fences are what probes have found out about the fences of namespaces; *probe.Patrol is one.
type Fences interface {
	// Admit is granted when a run may be raised in the namespace.
	Admit(namespace string) verdict.Decision
	// Verdict is whether the fence is enforced there, and when the probe began that says so, zero when none has ended. False for a
	// namespace that is not probed.
	Verdict(namespace string) (d verdict.Decision, at time.Time, probed bool)
}

// unprobed is what is known where nobody probes.
type unprobed struct{}

func (unprobed) Admit(string) verdict.Decision { return granted() }

func (unprobed) Verdict(string) (verdict.Decision, time.Time, bool) {
	return verdict.Decision{}, time.Time{}, false
}

// fenced refuses to raise a run where no run may be raised. Ending one is never refused.
func (s *Service) fenced(goal plan.Goal, namespace string) verdict.Decision {
	if goal != plan.Provision && goal != plan.Restart {
		return granted()
	}
	return s.fences.Admit(namespace)
}

// describe is the status of a set, with what is known about the fence of its namespace.
func (s *Service) describe(ref plan.Ref, f *plan.Facts) *supervisorv1.CompanionStatus {
	out := statusOf(ref, f)
	for _, c := range out.GetConditions() {
		if c.GetPart() == supervisorv1.Part_PART_WORKLOAD_FENCE {
			s.proven(c, ref.Namespace)
		}
	}
	return out
}

// Reasons of the condition of a part that stands, and those of a fence, by what a probe of it says.
const (
	reasonStanding    = "Standing"
	reasonEnforced    = "FenceEnforced"
	reasonNotEnforced = "FenceNotEnforced"
	reasonNotProven   = "FenceNotProven"
)

// proven adds to the condition of a fence that stands whether it is enforced. It is there and what it must be, so it stays available
// (contract 7.13), whatever a probe says; that it is proven not to be enforced comes before everything else that is said of it.
func (s *Service) proven(c *supervisorv1.Condition, namespace string) {
	d, at, probed := s.fences.Verdict(namespace)
	if !probed || c.GetAvailability() != supervisorv1.Availability_AVAILABILITY_AVAILABLE {
		return
	}
	reason, message := reasonNotProven, "whether it is enforced is not known: "+d.Explain()
	switch d.Outcome() {
	case verdict.Granted:
		reason, message = reasonEnforced, "a probe proved that it is enforced"
	case verdict.Denied:
		reason, message = reasonNotEnforced, "a probe proved that it is not enforced: "+d.Explain()
	case verdict.Unknown:
	}
	if !at.IsZero() {
		message += " (" + at.UTC().Format(time.RFC3339) + ")"
	}
	if c.GetMessage() != "" {
		message += "; " + c.GetMessage()
	}
	if c.GetReason() != reasonStanding && reason != reasonNotEnforced {
		reason = c.GetReason()
	}
	say(c, c.GetAvailability(), reason, message)
	c.TransitionTime = nil // the cluster does not record it
}
