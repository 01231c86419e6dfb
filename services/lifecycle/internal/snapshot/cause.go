package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/excerpt"
)

// Hindrance is a kind of cause. The zero Hindrance is none.
type Hindrance string

// The kinds of cause, as people read them (issue of lifecycle, bug corpus L12, L13, L28).
const (
	// ImagePull: the image of a container cannot be had.
	ImagePull Hindrance = "image pull"
	// Quota: a quota or limit of the namespace refuses the Pod.
	Quota Hindrance = "refused by quota"
	// Refused: admission refuses the Pod.
	Refused Hindrance = "refused by the cluster"
	// Unschedulable: no node takes the Pod.
	Unschedulable Hindrance = "unschedulable"
	// UnboundClaim: a volume claim is not bound or does not exist.
	UnboundClaim Hindrance = "unbound claim"
	// Volume: a volume cannot be mounted.
	Volume Hindrance = "volume"
	// Start: a container cannot be made or started.
	Start Hindrance = "container start"
	// Crash: a container has ended.
	Crash Hindrance = "crash"
	// Ended: the Pod as a whole was ended, for example evicted.
	Ended Hindrance = "ended"
)

// Cause is why something does not come up. The zero Cause is that nothing is known.
type Cause struct {
	Kind Hindrance
	// Text is for people, one line of at most longestCause bytes.
	Text string
}

// longestCause leaves room for what stands around it in a message.
const longestCause = 640

// String is the kind and the text; empty for the zero Cause.
func (c Cause) String() string {
	if c.Kind == "" {
		return ""
	}
	return string(c.Kind) + ": " + c.Text
}

func newCause(kind Hindrance, format string, args ...any) Cause {
	return Cause{Kind: kind, Text: excerpt.Line(fmt.Sprintf(format, args...), longestCause)}
}

// waiting are the reasons for which the kubelet lets a container wait that are causes. It waits for others in the normal course.
var waiting = map[string]Hindrance{
	"ErrImagePull": ImagePull, "ImagePullBackOff": ImagePull, "InvalidImageName": ImagePull, "ErrImageNeverPull": ImagePull,
	"ImageInspectError": ImagePull, "RegistryUnavailable": ImagePull, "SignatureValidationFailed": ImagePull,
	"CreateContainerConfigError": Start, "CreateContainerError": Start, "RunContainerError": Start, "PreCreateHookError": Start,
	"PreStartHookError": Start, "PostStartHookError": Start, "CrashLoopBackOff": Crash,
}

// normal are the reasons for which a container waits that say nothing.
var normal = []string{"", "PodInitializing", "ContainerCreating"}

// causeOf is what a Pod's status says about why it is not ready. A container that ended comes before one that waits.
func causeOf(s *corev1.PodStatus) Cause {
	containers := slices.Concat(s.InitContainerStatuses, s.ContainerStatuses)
	for i := range containers {
		if c := crash(&containers[i], s.Phase); c != (Cause{}) {
			return c
		}
	}
	for i := range containers {
		w := containers[i].State.Waiting
		if w == nil || slices.Contains(normal, w.Reason) {
			continue
		}
		kind := cmp.Or(waiting[w.Reason], Start)
		return newCause(kind, "container %s waits: %s", containers[i].Name, because(w.Reason, w.Message))
	}
	if s.Phase == corev1.PodFailed && s.Reason != "" {
		return newCause(Ended, "%s", because(s.Reason, s.Message))
	}
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason != corev1.PodReasonSchedulingGated {
			return newCause(scheduling(c.Message), "%s", because(c.Reason, c.Message))
		}
	}
	return Cause{}
}

// crash is that a container has ended, now or before it was started again. An init container that has done its work is none.
func crash(c *corev1.ContainerStatus, phase corev1.PodPhase) Cause {
	ended := c.State.Terminated
	if ended == nil && c.State.Running == nil {
		ended = c.LastTerminationState.Terminated
	}
	if ended == nil || ended.ExitCode == 0 && (phase == corev1.PodPending || ended.Reason == "Completed" && phase != corev1.PodSucceeded) {
		return Cause{}
	}
	// What a container wrote as its termination message is the caller's own text and is not repeated.
	reason := ""
	if ended.Reason != "" {
		reason = " (" + ended.Reason + ")"
	}
	return newCause(Crash, "container %s ended with exit code %d%s", c.Name, ended.ExitCode, reason)
}

// scheduling tells claims from nodes, as the scheduler's words do.
func scheduling(message string) Hindrance {
	m := strings.ToLower(message)
	if strings.Contains(m, "persistentvolumeclaim") || strings.Contains(m, "volume node affinity") {
		return UnboundClaim
	}
	return Unschedulable
}

// refusal is what the words of whoever made, or did not make, the workload Pod say: the controller repeats the API server's.
func refusal(message string) Cause {
	m := strings.ToLower(message)
	switch {
	case message == "":
		return Cause{}
	case strings.Contains(m, "exceeded quota"), strings.Contains(m, "failed quota"), strings.Contains(m, "maximum ") && strings.Contains(m, " usage per "):
		return newCause(Quota, "%s", message)
	case strings.Contains(m, "is forbidden"), strings.Contains(m, "admission webhook") && strings.Contains(m, "denied"), strings.Contains(m, "violates podsecurity"),
		strings.Contains(m, "unable to validate against any security context constraint"), strings.Contains(m, " is invalid: "):
		return newCause(Refused, "%s", message)
	}
	return Cause{}
}

// warnings are the reasons of events about Pods that are causes which no status says, or only seconds later.
var warnings = map[string]Hindrance{
	"FailedMount": Volume, "FailedAttachVolume": Volume, "FailedMapVolume": Volume,
	"FailedCreatePodSandBox": Start, "FailedCreatePodContainer": Start, "NetworkNotReady": Start,
	"ErrImageNeverPull": ImagePull, "InspectFailed": ImagePull,
}

// What kubelets say in events of the reason failed: that an image could not be got, and why; and that a container could not be started,
// for one of the reasons in waiting, which an event before it or the status explains, or in words.
const (
	failed      = "Failed"
	pullFailed  = "Failed to pull image "
	startFailed = "Error: "
)

// CauseOfWarning is what an event of type Warning about a Pod says about why it does not come up; zero when it does not say that. Of an
// image that cannot be pulled the event comes at once, and a kubelet may leave the status as it was until it tries again, ten seconds and
// more later.
func CauseOfWarning(reason, message string) Cause {
	if kind, ok := warnings[reason]; ok {
		return newCause(kind, "%s", because(reason, message))
	}
	if reason != failed {
		return Cause{}
	}
	if strings.HasPrefix(message, pullFailed) {
		return newCause(ImagePull, "%s", message)
	}
	why, ok := strings.CutPrefix(message, startFailed)
	if _, code := waiting[why]; !ok || code || why == "" {
		return Cause{}
	}
	return newCause(Start, "%s", why)
}

func because(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + message
}
