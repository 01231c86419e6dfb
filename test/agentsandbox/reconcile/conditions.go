package reconcile

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
)

// writer sets conditions that all carry the observed generation.
type writer struct {
	conditions *[]metav1.Condition
	generation int64
	now        time.Time
}

func (w writer) set(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(w.conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		ObservedGeneration: w.generation, LastTransitionTime: metav1.NewTime(w.now),
	})
}

func (w writer) remove(kind string) { meta.RemoveStatusCondition(w.conditions, kind) }

func reasonOf(conditions []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

// fillConditions writes the four conditions of contract 8.3.
func (c *children) fillConditions(w writer, s *api.Sandbox, d Dialect) {
	if d.ReportSuspended {
		c.setSuspended(w, s, d)
	}
	c.setFinished(w, s)
	if d.MirrorPodScheduled {
		c.setPodScheduled(w, s)
	}
	c.setReady(w, s)
}

func (c *children) setSuspended(w writer, s *api.Sandbox, d Dialect) {
	set := func(status metav1.ConditionStatus, reason, message string) {
		if d.TwoReasons && reason != api.ReasonPodTerminated {
			status, reason = metav1.ConditionFalse, api.ReasonPodNotTerminated
		}
		w.set(api.ConditionSuspended, status, reason, message)
	}
	switch {
	case !s.Suspended() && d.KeepSuspended:
	case !s.Suspended() && d.TwoReasons:
		w.remove(api.ConditionSuspended)
	case !s.Suspended():
		set(metav1.ConditionFalse, api.ReasonNotSuspended, "the sandbox is not suspended")
	case c.pod == nil && c.podErr != nil:
		set(metav1.ConditionUnknown, api.ReasonPodStateUnknown, "the pod could not be looked up")
	case c.pod == nil:
		set(metav1.ConditionTrue, api.ReasonPodTerminated, "the pod is gone")
	case !controls(s, c.pod):
		set(metav1.ConditionFalse, api.ReasonPodNotOwned, "the pod of this name is not this sandbox's and is left alone")
	default:
		set(metav1.ConditionFalse, api.ReasonPodTerminating, "the pod is terminating")
	}
}

// setFinished reports a terminal Pod for as long as it is there.
func (c *children) setFinished(w writer, s *api.Sandbox) {
	reason, message := terminal(c.pod)
	if reason == "" || !controls(s, c.pod) {
		w.remove(api.ConditionFinished)
		return
	}
	w.set(api.ConditionFinished, metav1.ConditionTrue, reason, message)
}

// setPodScheduled copies the Pod's own condition word for word; without a Pod there is none.
func (c *children) setPodScheduled(w writer, s *api.Sandbox) {
	if c.pod == nil && c.podErr != nil {
		w.set(api.ConditionPodScheduled, metav1.ConditionUnknown, api.ReasonPodSchedulingUnknown, "the pod could not be looked up")
		return
	}
	if c.pod == nil || !controls(s, c.pod) {
		w.remove(api.ConditionPodScheduled)
		return
	}
	for _, pc := range c.pod.Status.Conditions {
		if pc.Type != corev1.PodScheduled {
			continue
		}
		reason := pc.Reason
		switch {
		case reason != "":
		case pc.Status == corev1.ConditionTrue:
			reason = api.ReasonPodScheduled
		default:
			reason = api.ReasonPodSchedulingUnknown
		}
		w.set(api.ConditionPodScheduled, metav1.ConditionStatus(pc.Status), reason, pc.Message)
		return
	}
	w.set(api.ConditionPodScheduled, metav1.ConditionUnknown, api.ReasonPodSchedulingUnknown, "the pod has no PodScheduled condition yet")
}

// setReady follows the order of the real controller: an error hides everything, suspension hides the Pod.
func (c *children) setReady(w writer, s *api.Sandbox) {
	not := func(reason, message string) { w.set(api.ConditionReady, metav1.ConditionFalse, reason, message) }
	err := errors.Join(c.podErr, c.childErr)
	finished, finishedMessage := terminal(c.pod)
	waiting := c.waitingFor()
	switch {
	case errors.Is(err, errMultiplePods):
		not(api.ReasonMultiplePods, c.podErr.Error())
	case err != nil:
		not(api.ReasonReconcilerError, err.Error())
	case s.Suspended() && c.pod != nil:
		not(api.ReasonSandboxSuspended, "the sandbox is suspending")
	case s.Suspended():
		not(api.ReasonSandboxSuspended, "the sandbox is suspended")
	case finished != "":
		not(finished, finishedMessage)
	case waiting != "":
		not(api.ReasonDependenciesNotReady, waiting)
	default:
		w.set(api.ConditionReady, metav1.ConditionTrue, api.ReasonDependenciesReady, "the pod is ready")
	}
}

// waitingFor names the first thing that a running Sandbox still lacks, or returns "".
func (c *children) waitingFor() string {
	switch {
	case c.pod == nil:
		return "the pod does not exist"
	case c.pod.Status.Phase != corev1.PodRunning:
		return fmt.Sprintf("the pod is in phase %s", c.pod.Status.Phase)
	case !podReady(c.pod):
		return "the pod is running but not ready"
	case len(c.pod.Status.PodIPs) == 0:
		return "the pod is ready but has no address"
	case c.serviceDue && !c.service:
		return "the service does not exist"
	}
	return ""
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// terminal returns the reason and message for a Pod that has ended, else two empty strings.
func terminal(pod *corev1.Pod) (reason, message string) {
	if pod == nil {
		return "", ""
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return api.ReasonPodSucceeded, "the pod has succeeded"
	case corev1.PodFailed:
		return api.ReasonPodFailed, "the pod has failed"
	default:
		return "", ""
	}
}
