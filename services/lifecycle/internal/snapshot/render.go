package snapshot

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/excerpt"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// notReady begins the message of every Ready=False that is ours (contract 7.14).
const notReady = "sandbox-runtime enforcement dependencies are not ready"

// Render makes what the gateway is told. s comes from Read. The result is the caller's own.
func Render(s *Sandbox, pods Pods) *computev1.DriverSandbox {
	return &computev1.DriverSandbox{
		Id: s.ID, Name: s.Name, Namespace: s.Namespace, Workspace: s.Workspace,
		Status: &computev1.DriverSandboxStatus{
			Deleting:         s.Deleting,
			Conditions:       s.conditions(&pods),
			ResolvedIdentity: s.resolvedIdentity(),
			FenceEvidence:    s.fenceEvidence(),
		},
	}
}

// conditions are those that the gateway derives the phase from (contract 2.10). Ready and Suspended keep the controller's place.
func (s *Sandbox) conditions(pods *Pods) []*computev1.DriverCondition {
	suspended, ready := s.suspended(pods), s.ready(pods)
	var told []*computev1.DriverCondition
	add := func(c *sandboxapi.Condition) {
		if c != nil {
			told = append(told, conditionOf(c))
		}
	}
	var placed [2]bool
	for i := range s.Conditions {
		switch c := &s.Conditions[i]; c.Type {
		case sandboxapi.ConditionSuspended:
			placed[0] = true
			add(suspended)
		case sandboxapi.ConditionReady:
			placed[1] = true
			add(ready)
		default:
			add(c)
		}
	}
	if !placed[0] {
		add(suspended)
	}
	if !placed[1] {
		add(ready)
	}
	if s.Starting {
		add(&sandboxapi.Condition{
			Type: conditionBootstrapping, Status: "True", Reason: reasonStarting, Message: "a generation of the sandbox runtime is starting",
			Transition: instant(s.Record.Began()),
		})
	}
	return told
}

// suspended is the condition Suspended as it is published; nil for none.
func (s *Sandbox) suspended(pods *Pods) *sandboxapi.Condition {
	if s.Starting {
		return nil
	}
	c, found := s.condition(sandboxapi.ConditionSuspended)
	gone := pods.Known && pods.Workload == nil
	switch {
	case found && isTrue(c.Status) && s.Mode != sandboxapi.Suspended:
		return nil // a controller has left it behind on resume (contract 8.3, bug corpus L16)
	case found && isTrue(c.Status) && pods.Known && !gone:
		// The old Pod is still there (contract 14.3 "3064", bug corpus L17).
		c.Status, c.Reason, c.Message = "False", reasonPodTerminating, "the workload Pod is still there"
		return &c
	case found && (isTrue(c.Status) || c.Reason == sandboxapi.ReasonPodNotOwned):
		return &c
	case s.Record.Stopping():
		// So that the gateway goes on with a stop whose call has failed (contract 2.6).
		c.Type, c.Status, c.Reason, c.Message = sandboxapi.ConditionSuspended, "False", reasonPodTerminating, "the sandbox is being stopped"
		return &c
	case !found && s.Version == sandboxapi.V1alpha1 && s.Mode == sandboxapi.Suspended && gone:
		// Controllers of this version may say nothing (contract 7.10).
		return &sandboxapi.Condition{Type: sandboxapi.ConditionSuspended, Status: "True", Reason: reasonPodTerminated, Message: "the Sandbox is suspended and has no Pod"}
	case found:
		return &c
	}
	return nil
}

// ready is the condition Ready as it is published; nil for none.
func (s *Sandbox) ready(pods *Pods) *sandboxapi.Condition {
	c, found := s.condition(sandboxapi.ConditionReady)
	if found && s.terminal(c, pods) {
		c.Message = join(c.Message, pods.Workload.why())
		return &c
	}
	if p, ok := s.condition(sandboxapi.ConditionSuspended); ok && s.foreignPod(p) {
		p.Type = sandboxapi.ConditionReady
		return &p
	}
	hidden, why := s.withheld(pods)
	switch {
	case hidden:
		out := sandboxapi.Condition{
			Type: sandboxapi.ConditionReady, Status: "False", Reason: reasonDependenciesNotReady, Message: join(notReady, cmp.Or(why, s.cause(c, pods))),
		}
		if found && !isTrue(c.Status) { // since then it is not ready
			out.Transition = c.Transition
		}
		return &out
	case !found:
		return nil
	case isFalse(c.Status) && !isTransient(c.Reason):
		c.Reason, c.Message = reasonDependenciesNotReady, join(join(c.Reason, c.Message), s.podCause(pods))
	case !isTrue(c.Status):
		if refused := refusal(c.Message); refused != (Cause{}) {
			c.Message = refused.String()
		}
		c.Message = join(c.Message, s.podCause(pods))
	}
	return &c
}

// foreignPod reports that a Pod of somebody else has the name of the suspended Sandbox's, which no stop gets over.
func (s *Sandbox) foreignPod(c sandboxapi.Condition) bool {
	return !s.Starting && s.Mode == sandboxapi.Suspended && isFalse(c.Status) && c.Reason == sandboxapi.ReasonPodNotOwned
}

// withheld reports whether Ready is False whatever the controller says, and why.
func (s *Sandbox) withheld(pods *Pods) (hidden bool, why string) {
	switch {
	case s.RecordProblem != "":
		return true, "the record of the run cannot be read: " + s.RecordProblem
	case s.Starting:
		return true, ""
	case s.Record.Stopping():
		return true, join("the sandbox is being stopped", s.Record.StopExplanation)
	case s.Mode != sandboxapi.Running, s.Record.Readiness != runstate.Ready:
		if s.Record.StopExplanation != "" {
			return true, "the run was ended: " + s.Record.StopExplanation
		}
		return true, ""
	}
	why = s.obstacle(pods)
	return why != "", why
}

// cause is what is known of why the sandbox does not come up: from its Pods, or from the controller that cannot make one. ready is the
// controller's Ready, or the zero condition.
func (s *Sandbox) cause(ready sandboxapi.Condition, pods *Pods) string {
	if why := s.podCause(pods); why != "" || isTrue(ready.Status) {
		return why
	}
	if refused := refusal(ready.Message); refused != (Cause{}) {
		return "workload Pod: " + refused.String()
	}
	if quiet := []string{"", reasonDependenciesNotReady, reasonSandboxSuspended}; slices.Contains(quiet, ready.Reason) {
		return ""
	}
	return join(ready.Reason, ready.Message)
}

// podCause is what the Pods say, that of the workload first.
func (s *Sandbox) podCause(pods *Pods) string {
	if why := pods.Workload.why(); why != "" {
		return "workload Pod: " + why
	}
	if why := pods.Supervisor.why(); why != "" {
		return "supervisor Pod: " + why
	}
	return ""
}

// join is two texts as one, when the second says something that the first does not.
func join(first, second string) string {
	switch {
	case second == "" || strings.Contains(first, second):
		return first
	case first == "":
		return second
	}
	return excerpt.Line(first+": "+second, longestMessage)
}

func conditionOf(c *sandboxapi.Condition) *computev1.DriverCondition {
	out := &computev1.DriverCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
	// A gateway refuses a whole snapshot for a time that cannot be (contract 2.6).
	if at := c.Transition.Time; !at.IsZero() && at.Year() >= 1970 && at.Year() < 10000 {
		out.TransitionTime = timestamppb.New(at.Truncate(time.Millisecond))
	}
	return out
}
