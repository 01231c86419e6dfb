package service

import (
	"strings"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
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
		policy(supervisorv1.Part_PART_WORKLOAD_FENCE, workspace.WorkloadFence, f.WorkloadFence, fence),
		policy(supervisorv1.Part_PART_SUPERVISOR_FENCE, workspace.SupervisorEgress, f.SupervisorFence, ""),
		service(workspace.BoundaryService(ref.SandboxID), f.Service),
		pod(supervisorv1.Part_PART_SUPERVISOR_POD, f.Supervisor, supervisor),
		pod(supervisorv1.Part_PART_WORKLOAD_POD, f.Workload, workload),
	}
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
	return available(c, "Standing")
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
	return available(c, "Standing")
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
		return unavailable(c, "Deleting", found.Detail)
	case found.Ended:
		return unavailable(c, "PodEnded", found.Detail)
	case replaced(found.UID, recorded):
		return unavailable(c, "Replaced", "it is not the one that was released")
	case found.Ownership != plan.OfThisRun:
		return unavailable(c, "Altered", found.Detail)
	case found.Altered != "":
		return unavailable(c, "Altered", found.Altered)
	case found.Gated:
		return unavailable(c, "PodGated", "it waits for the rest of the set")
	case !found.Ready:
		return say(c, supervisorv1.Availability_AVAILABILITY_DEGRADED, "PodNotReady", found.Detail)
	}
	return available(c, "PodReady")
}
