package conduct

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// PodOf is what a Pod's own fields say.
func PodOf(found *corev1.Pod) plan.Pod {
	p := plan.Pod{
		Name: found.Name, UID: string(found.UID), Deleting: found.DeletionTimestamp != nil, Gated: companion.Gated(found),
		Ended: found.Status.Phase == corev1.PodSucceeded || found.Status.Phase == corev1.PodFailed,
		Ready: found.Status.Phase == corev1.PodRunning && slices.ContainsFunc(found.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}),
	}
	p.Restarted = slices.ContainsFunc(found.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.RestartCount > 0 })
	if !p.Ready {
		h := hindranceOf(&found.Status)
		p.Cause, p.Detail, p.Hopeless, p.Doomed = h.cause, h.text, h.hopeless, h.doomed
	}
	if p.Ended {
		p.Detail = cmp.Or(p.Detail, short(found.Status.Reason), string(found.Status.Phase))
	}
	p.Since = since(found, &p)
	return p
}

// since is when a Pod came to be as it is, as far as the cluster records it.
func since(found *corev1.Pod, p *plan.Pod) time.Time {
	switch {
	case p.Deleting:
		grace := time.Duration(0) // the time that is recorded is the end of it
		if s := found.DeletionGracePeriodSeconds; s != nil {
			grace = time.Duration(*s) * time.Second
		}
		return found.DeletionTimestamp.Add(-grace)
	case p.Ended:
		var last time.Time
		for _, c := range slices.Concat(found.Status.InitContainerStatuses, found.Status.ContainerStatuses) {
			if ended := c.State.Terminated; ended != nil && ended.FinishedAt.After(last) {
				last = ended.FinishedAt.Time
			}
		}
		return last
	case p.Gated:
		return found.CreationTimestamp.Time
	}
	for _, c := range found.Status.Conditions {
		if c.Type == corev1.PodReady && (c.Status == corev1.ConditionTrue) == p.Ready {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// hindrance is why a Pod is not ready. hopeless is what no new try of the kubelet's changes, doomed what hardly one does.
type hindrance struct {
	cause            verdict.Reason
	text             string
	hopeless, doomed bool
}

// hindranceOf is why a Pod is not ready, in the words of the scheduler and the kubelet: a container that ended, one that cannot be
// started, or a node that is not found, as for a claim that nobody binds (bug corpus L13, L28). Without a cause when they say nothing but
// that it takes its time, and zero when they say nothing.
func hindranceOf(s *corev1.PodStatus) hindrance {
	for i, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		ended := c.State.Terminated
		if ended == nil && c.State.Running == nil {
			ended = c.LastTerminationState.Terminated // it is started again, after a pause
		}
		// An init container that is done is why the others may start.
		done := ended != nil && ended.ExitCode == 0 && ended.Reason == "Completed"
		if ended != nil && (!done || i >= len(s.InitContainerStatuses)) {
			return hindrance{
				cause: verdict.PodCrashed,
				text:  fmt.Sprintf("container %s ended with code %d: %s", c.Name, ended.ExitCode, short(cmp.Or(ended.Reason, "no reason given"))),
			}
		}
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
			h := hindrance{cause: causeOf(w.Reason), text: fmt.Sprintf("container %s waits: %s", c.Name, because(w.Reason, w.Message))}
			h.hopeless, h.doomed = h.cause == verdict.PodImageUnusable, h.cause == verdict.PodImageUnavailable && answered(w.Message)
			return h
		}
	}
	for _, c := range s.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason != corev1.PodReasonSchedulingGated {
			return hindrance{cause: unscheduled(c.Message), text: "no node takes it: " + because(c.Reason, c.Message)}
		}
	}
	if making(s) {
		return hindrance{text: "its containers are being made; if that lasts, the Pod's Events name the volume, Secret or image that is waited for"}
	}
	return hindrance{}
}

// making reports whether the kubelet has begun with no container yet. What it waits for, such as a volume of a Secret that is gone, it
// tells in Events alone.
func making(s *corev1.PodStatus) bool {
	all := slices.Concat(s.InitContainerStatuses, s.ContainerStatuses)
	return len(all) > 0 && !slices.ContainsFunc(all, func(c corev1.ContainerStatus) bool { return c.State.Waiting == nil || c.State.Waiting.Reason == "" })
}

// causeOf is what a kubelet's reason for a container that waits means. An image whose name is none, and one that may not be pulled and is
// not there, stay so.
func causeOf(reason string) verdict.Reason {
	switch reason {
	case "ErrImageNeverPull", "InvalidImageName":
		return verdict.PodImageUnusable
	case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed":
		return verdict.PodImageUnavailable
	case "CrashLoopBackOff":
		return verdict.PodCrashed
	}
	return verdict.PodNotStarted
}

// answered reports whether a registry has said that it has no such image, or does not give it, in the words of the kubelet's runtimes. None
// of them can be part of an image's name. A registry that is away, or busy, has said nothing.
func answered(message string) bool {
	if strings.Contains(message, "toomanyrequests") {
		return false
	}
	for _, sign := range [...]string{
		": not found", "manifest unknown", "name unknown", "repository does not exist", "no match for platform", // there is none
		"access denied", "is denied", "denied: ", "401 Unauthorized", "403 Forbidden", "unauthorized: ", "authorization failed", // not for us
	} {
		if strings.Contains(message, sign) {
			return true
		}
	}
	return false
}

// unscheduled tells a claim that is not bound from a node that is not found, which only the scheduler's words do.
func unscheduled(message string) verdict.Reason {
	for _, sign := range [...]string{"persistentvolumeclaim", "persistent volumes to bind"} {
		if strings.Contains(strings.ToLower(message), sign) {
			return verdict.PodClaimUnbound
		}
	}
	return verdict.PodUnschedulable
}

func because(reason, message string) string {
	if message == "" {
		return short(reason)
	}
	return short(reason + ": " + message)
}
