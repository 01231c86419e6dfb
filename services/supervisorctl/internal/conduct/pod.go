package conduct

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
)

// podOf is what a Pod's own fields say.
func podOf(found *corev1.Pod) plan.Pod {
	p := plan.Pod{
		Name: found.Name, UID: string(found.UID), Deleting: found.DeletionTimestamp != nil, Gated: companion.Gated(found),
		Ended: found.Status.Phase == corev1.PodSucceeded || found.Status.Phase == corev1.PodFailed,
		Ready: found.Status.Phase == corev1.PodRunning && slices.ContainsFunc(found.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}),
	}
	p.Restarted = slices.ContainsFunc(found.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.RestartCount > 0 })
	if !p.Ready {
		p.Detail = hindrance(&found.Status)
	}
	if p.Ended {
		p.Detail = cmp.Or(p.Detail, short(found.Status.Reason), string(found.Status.Phase))
	}
	return p
}

// hindrance is why a Pod is not ready, in the words of the scheduler and the kubelet: a container that ended, one that cannot be
// started, or a node that is not found, as for a claim that nobody binds (bug corpus L13, L28). Empty when they say nothing, or
// nothing but that it takes its time.
func hindrance(s *corev1.PodStatus) string {
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		ended := c.State.Terminated
		if ended == nil && c.State.Running == nil {
			ended = c.LastTerminationState.Terminated // it is started again, after a pause
		}
		if ended != nil && (ended.ExitCode != 0 || ended.Reason != "Completed" || s.Phase != corev1.PodPending) {
			return fmt.Sprintf("container %s ended with code %d: %s", c.Name, ended.ExitCode, short(cmp.Or(ended.Reason, "no reason given")))
		}
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
			return fmt.Sprintf("container %s waits: %s", c.Name, because(w.Reason, w.Message))
		}
	}
	for _, c := range s.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason != corev1.PodReasonSchedulingGated {
			return "no node takes it: " + because(c.Reason, c.Message)
		}
	}
	return ""
}

func because(reason, message string) string {
	if message == "" {
		return short(reason)
	}
	return short(reason + ": " + message)
}
