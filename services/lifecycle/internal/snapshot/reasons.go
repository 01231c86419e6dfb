package snapshot

import (
	"slices"
	"strings"

	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// Types and reasons of conditions (contract 7.14, 8.3).
const (
	conditionBootstrapping = "Bootstrapping"

	reasonStarting             = "SandboxRuntimeGenerationStarting"
	reasonDependenciesNotReady = "DependenciesNotReady"
	reasonReconcilerError      = "ReconcilerError"
	reasonSandboxSuspended     = "SandboxSuspended"
	reasonSandboxExpired       = "SandboxExpired"
	reasonPodSucceeded         = "PodSucceeded"
	reasonPodFailed            = "PodFailed"
	reasonPodTerminating       = "PodTerminating"
	reasonPodTerminated        = "PodTerminated"
)

// transient are the reasons of Ready=False after which the gateway goes on waiting (contract 2.10).
var transient = []string{
	reasonReconcilerError, reasonDependenciesNotReady, "SupervisorNotConnected", "Starting", "ContainerStarting", "ContainerCreated",
	"HealthCheckStarting", "InspectFailed",
}

func isTransient(reason string) bool {
	return slices.ContainsFunc(transient, func(t string) bool { return strings.EqualFold(t, reason) })
}

// end is what a reason of Ready=False says about the sandbox. The zero end is no end: a reason that nobody knows heals.
type end uint8

const (
	// heals: it may become ready without anybody starting it again.
	heals end = iota
	// workloadEnded: its workload Pod has finished and is not made again (restartPolicy Never, bug corpus L10).
	workloadEnded
	// expired: the controller has shut it down for good.
	expired
)

// ends has the reasons of contract 8.3 that are no transient ones for the gateway:
//
//	SandboxExpired            it ended: nothing but a new sandbox follows
//	PodSucceeded, PodFailed   it ended: nothing but a new start follows, unless the Pod in question is being stopped by us, or another
//	                          one is alive already
//	SandboxSuspended          no end: it is said by Suspended=True, and until that is True the sandbox is on its way
//	MultiplePods              no end: one of them goes, or supervisorctl stops the run
//	Unschedulable             no end: a node may come
//	any other, or none        no end: a controller of tomorrow must not make sandboxes unusable today
//
// That a Sandbox is to be suspended and a Pod that is not its own has its name is an end too, said by Suspended=False / PodNotOwned
// (contract 7.10, 14.3 "2858").
var ends = map[string]end{
	reasonSandboxExpired: expired,
	reasonPodSucceeded:   workloadEnded,
	reasonPodFailed:      workloadEnded,
}

// terminal reports whether the sandbox has come to an end that Ready says.
func (s *Sandbox) terminal(ready sandboxapi.Condition, pods *Pods) bool {
	if s.Starting || !isFalse(ready.Status) {
		return false
	}
	switch ends[ready.Reason] {
	case heals:
	case expired:
		return true
	case workloadEnded:
		alive := pods.Workload != nil && !pods.Workload.Ended
		return s.Mode == sandboxapi.Running && !s.Record.Stopping() && !alive
	}
	return false
}

func isTrue(status string) bool  { return strings.EqualFold(status, "True") }
func isFalse(status string) bool { return strings.EqualFold(status, "False") }
