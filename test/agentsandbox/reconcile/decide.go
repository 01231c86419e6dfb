package reconcile

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
)

// blockedRetry is when to look again after a foreign object was in the way: its end may come without an event for us.
const blockedRetry = time.Second

// Observed is everything one decision depends on.
type Observed struct {
	Sandbox *api.Sandbox
	// Pods are the Pods of the Sandbox's namespace that carry its name hash, or have its name or the one PodName returns.
	Pods []*corev1.Pod
	// Claims are the claims of the namespace that have a name the claim templates ask for.
	Claims []*corev1.PersistentVolumeClaim
	// Service is the Service named like the Sandbox, or nil.
	Service *corev1.Service

	// PodError says that reading or changing the Pod failed. Then nothing is done, and what is not in Pods is unknown.
	PodError error
	// ChildError is the same for claims and the Service.
	ChildError error
}

// Decision is what to do. Actions come first, in order; then Status is written.
type Decision struct {
	Actions []Action
	// Status is what the whole status has to become, given that the actions succeed; nil leaves it alone.
	Status *api.Status
	// Again is how long after this decision the Sandbox has to be looked at again without an event; 0 is never.
	Again time.Duration
}

// Decide computes the decision for one Sandbox.
func Decide(o Observed, d Dialect, now time.Time) Decision {
	s := o.Sandbox
	if s.DeletionTimestamp != nil {
		return Decision{} // children go by garbage collection
	}
	status := s.Status
	status.Conditions = append([]metav1.Condition(nil), s.Status.Conditions...)
	w := writer{conditions: &status.Conditions, generation: s.Generation, now: now}

	if expired(s, now) {
		return expire(o, &status, w)
	}
	out := Decision{Status: &status}
	if s.Spec.ShutdownTime != nil {
		out.Again = s.Spec.ShutdownTime.Sub(now)
	}
	children := plan(o, d)
	out.Actions = children.actions
	children.fillStatus(&status, s, d)
	children.fillConditions(w, s, d)
	if children.blocked() && (out.Again == 0 || out.Again > blockedRetry) {
		out.Again = blockedRetry
	}
	return out
}

func expired(s *api.Sandbox, now time.Time) bool {
	return s.Spec.ShutdownTime != nil && !now.Before(s.Spec.ShutdownTime.Time)
}

// expire first makes the expiry visible and only then removes what the Sandbox owns, so that an observer never sees a
// Sandbox that lost its Pod without a reason. Claims stay.
func expire(o Observed, status *api.Status, w writer) Decision {
	s := o.Sandbox
	marked := reasonOf(s.Status.Conditions, api.ConditionReady) == api.ReasonSandboxExpired
	w.set(api.ConditionReady, metav1.ConditionFalse, api.ReasonSandboxExpired, "shutdownTime has passed")
	w.remove(api.ConditionPodScheduled)
	if !marked {
		return Decision{Status: status, Again: time.Millisecond}
	}
	if o.PodError != nil || o.ChildError != nil {
		return Decision{Status: status} // the caller retries a failed action
	}

	out := Decision{Status: &api.Status{Conditions: status.Conditions}}
	if s.Status.Replicas != nil {
		out.Status.Replicas = new(int64)
	}
	for _, pod := range owned(o.Pods, s) {
		if pod.DeletionTimestamp == nil {
			out.Actions = append(out.Actions, deletion(DeletePod, pod))
		}
	}
	if o.Service != nil && controls(s, o.Service) && o.Service.DeletionTimestamp == nil {
		out.Actions = append(out.Actions, deletion(DeleteService, o.Service))
	}
	if s.Spec.ShutdownPolicy == api.ShutdownDelete {
		out.Actions = append(out.Actions, deletion(DeleteSandbox, s))
		out.Status = nil
	}
	return out
}

// controls reports whether the Sandbox's UID is the controller of an object.
func controls(s *api.Sandbox, o metav1.Object) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.UID == s.UID
}

func owned(pods []*corev1.Pod, s *api.Sandbox) []*corev1.Pod {
	var mine []*corev1.Pod
	for _, pod := range pods {
		if controls(s, pod) {
			mine = append(mine, pod)
		}
	}
	return mine
}

// foreign describes an object that has a name we need but another controller, or none.
func foreign(kind string, o metav1.Object) error {
	if owner := metav1.GetControllerOf(o); owner != nil {
		return fmt.Errorf("%s %q is controlled by %s %q and not by this sandbox", kind, o.GetName(), owner.Kind, owner.Name)
	}
	return fmt.Errorf("%s %q exists and has no controller", kind, o.GetName())
}
