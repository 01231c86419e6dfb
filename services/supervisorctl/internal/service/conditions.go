package service

import (
	"cmp"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// conditions are those of the parts, in the order of Part; of the Secrets nobody may know. The zero record is that of no run.
func conditions(ref plan.Ref, f *plan.Facts, r *runstate.Record) []*supervisorv1.Condition {
	// The record names the Pods and the fence of a run once it is released, and until it is stopped.
	var workload, supervisor, fence string
	if r.Phase == "" || r.Phase == runstate.Released {
		workload, supervisor, fence = r.WorkloadUID, r.SupervisorUID, r.FenceUID
	}
	return []*supervisorv1.Condition{
		reopened(policy(supervisorv1.Part_PART_WORKLOAD_FENCE, workspace.WorkloadFence, f.WorkloadFence, fence), f.Openings),
		policy(supervisorv1.Part_PART_SUPERVISOR_FENCE, workspace.SupervisorEgress, f.SupervisorFence, ""),
		service(workspace.BoundaryService(ref.SandboxID), f.Service),
		ended(pod(supervisorv1.Part_PART_SUPERVISOR_POD, f.Supervisor, supervisor), f.Supervisor.Absent(), r),
		ended(pod(supervisorv1.Part_PART_WORKLOAD_POD, f.Workload, workload), f.Workload.Absent(), r),
	}
}

// reopened adds to the condition of a fence that stands what other policies make of it. The fence is there and what it must be, so it
// stays available (contract 7.13): whether anybody is to be cut off for what somebody else allowed is not ours to decide. A start does not
// look for them: the loop does, and a call for the status.
func reopened(c *supervisorv1.Condition, k plan.Known[[]plan.Opening]) *supervisorv1.Condition {
	openings, ok := k.Value()
	switch {
	case c.GetAvailability() != supervisorv1.Availability_AVAILABILITY_AVAILABLE, k.Unseen():
	case !ok:
		c.Message = "whether another policy opens it is not known"
	case len(openings) > 0:
		say(c, c.Availability, verdict.FenceReopened.CamelCase(), plan.OpeningWords(openings))
		c.TransitionTime = nil // nobody records it
	}
	return c
}

// ended adds to the condition of a Pod that is gone why the run was ended that it was of.
func ended(c *supervisorv1.Condition, absent bool, r *runstate.Record) *supervisorv1.Condition {
	if absent && r.StopReason != "" {
		say(c, c.Availability, c.Reason, "there is none: the run was ended ("+r.StopReason+"): "+r.StopExplanation)
	}
	return c
}

// condition is what is said of every part that was not found.
func condition[T any](part supervisorv1.Part, k plan.Known[T]) *supervisorv1.Condition {
	c := &supervisorv1.Condition{Part: part, Reason: "NotReadable", Message: "the cluster could not be asked"}
	if k.Absent() {
		return unavailable(c, "Missing", "there is none")
	}
	return c
}

const longestMessage = 1024

func say(c *supervisorv1.Condition, availability supervisorv1.Availability, reason, message string) *supervisorv1.Condition {
	c.Availability, c.Reason = availability, reason
	// A cut through a character, or a kubelet's text, would make the whole answer one that cannot be sent.
	c.Message = strings.ToValidUTF8(message[:min(len(message), longestMessage)], "")
	return c
}

func unavailable(c *supervisorv1.Condition, reason, message string) *supervisorv1.Condition {
	return say(c, supervisorv1.Availability_AVAILABILITY_UNAVAILABLE, reason, message)
}

// since says when the cluster recorded the state, if it did.
func since(c *supervisorv1.Condition, at time.Time) *supervisorv1.Condition {
	if !at.IsZero() {
		c.TransitionTime = timestamppb.New(at)
	}
	return c
}

func available(c *supervisorv1.Condition, reason string) *supervisorv1.Condition {
	return say(c, supervisorv1.Availability_AVAILABILITY_AVAILABLE, reason, "")
}

func replaced(uid, recorded string) bool { return recorded != "" && uid != recorded }

func policy(part supervisorv1.Part, name string, k plan.Known[plan.Policy], recorded string) *supervisorv1.Condition {
	c := condition(part, k)
	found, ok := k.Value()
	if !ok {
		return c
	}
	c.ObjectName, c.ObjectUid = name, found.UID
	switch {
	case found.Standing == plan.Foreign:
		return unavailable(c, "Foreign", found.Difference)
	case found.Standing != plan.Stands:
		return unavailable(c, "Altered", found.Difference)
	case replaced(found.UID, recorded):
		return unavailable(c, "Replaced", "it is not the one that the run was released behind")
	}
	return since(available(c, reasonStanding), found.Since)
}

func service(name string, k plan.Known[plan.Service]) *supervisorv1.Condition {
	c := condition(supervisorv1.Part_PART_BOUNDARY_SERVICE, k)
	found, ok := k.Value()
	if !ok {
		return c
	}
	c.ObjectName, c.ObjectUid = name, found.UID
	switch {
	case found.Ownership == plan.Theirs:
		return unavailable(c, "Foreign", found.Detail)
	case found.Deleting:
		return unavailable(c, "Deleting", found.Detail)
	case found.Ownership != plan.OfThisRun:
		return unavailable(c, "Altered", found.Detail)
	case found.ClusterIP == "":
		return unavailable(c, "NoAddress", "it has no cluster IP of its own")
	}
	return available(c, reasonStanding)
}

func pod(part supervisorv1.Part, k plan.Known[plan.Pod], recorded string) *supervisorv1.Condition {
	c := condition(part, k)
	found, ok := k.Value()
	if !ok {
		return c
	}
	c.ObjectName, c.ObjectUid = found.Name, found.UID
	switch {
	case found.Ownership == plan.Theirs:
		return unavailable(c, "Foreign", found.Detail)
	case found.Deleting:
		return since(unavailable(c, "Deleting", found.Detail), found.Since)
	case found.Ended:
		return since(unavailable(c, "PodEnded", found.Detail), found.Since)
	case replaced(found.UID, recorded):
		return unavailable(c, "Replaced", "it is not the one that was released")
	case found.Ownership != plan.OfThisRun && recorded == "":
		return unavailable(c, "Altered", found.Detail)
	case found.Altered != "":
		return unavailable(c, "Altered", found.Altered)
	case found.Gated:
		return since(unavailable(c, "PodGated", "it waits for the rest of the set"), found.Since)
	case !found.Ready && found.Hopeless:
		return since(unavailable(c, notReady(&found), found.Detail), found.Since)
	case !found.Ready:
		return since(say(c, supervisorv1.Availability_AVAILABILITY_DEGRADED, notReady(&found), found.Detail), found.Since)
	}
	return since(say(c, supervisorv1.Availability_AVAILABILITY_AVAILABLE, "PodReady", former(&found)), found.Since)
}

// former says how a Pod that was released differs from one that would be made now: the settings were changed since. That ends no run, and
// makes none unavailable; the next start has the new ones.
func former(p *plan.Pod) string {
	if p.Ownership == plan.OfThisRun {
		return ""
	}
	return "it is of a run that was released before the settings were changed: " + p.Detail
}

// notReady is why, by its stable code.
func notReady(p *plan.Pod) string {
	return cmp.Or(p.Cause.CamelCase(), "PodNotReady")
}
