package reconcile

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
)

// errMultiplePods is not retried by the caller: only a change of a Pod can end it.
var errMultiplePods = errors.New("more than one pod is controlled by this sandbox, none is chosen")

// children is the plan for claims, Pod and Service, and what will be there once it is carried out.
type children struct {
	actions []Action

	// pod is the Sandbox's Pod, or the foreign one that has its name while suspended. It is nil when there is none, and,
	// together with podErr, when that is not known.
	pod    *corev1.Pod
	podErr error

	service    bool // the Sandbox's Service exists
	serviceDue bool // readiness needs it
	childErr   error
}

func plan(o Observed, d Dialect) *children {
	c := &children{podErr: o.PodError, childErr: o.ChildError}
	c.planClaims(o, d)
	c.planPod(o, d)
	c.planService(o, d)
	if o.PodError != nil || o.ChildError != nil {
		c.actions = nil
	}
	return c
}

// planClaims makes missing claims whether the Sandbox runs or not, and never deletes one (contract 8.4).
func (c *children) planClaims(o Observed, d Dialect) {
	s := o.Sandbox
	existing := make(map[string]*corev1.PersistentVolumeClaim, len(o.Claims))
	for _, claim := range o.Claims {
		existing[claim.Name] = claim
	}
	for _, t := range s.Spec.VolumeClaimTemplates {
		name := s.ClaimName(t)
		switch claim := existing[name]; {
		case claim == nil:
			c.actions = append(c.actions, Action{Step: CreateClaim, Name: name, Object: claimObject(s, t, d)})
		case !controls(s, claim):
			c.childErr = errors.Join(c.childErr, foreign("persistentvolumeclaim", claim))
		}
	}
}

func (c *children) planPod(o Observed, d Dialect) {
	s := o.Sandbox
	_, annotated := s.Annotations[api.AnnotationPodName]
	mine := owned(o.Pods, s)
	if len(mine) > 1 {
		c.podErr = fmt.Errorf("%w (%d pods)", errMultiplePods, len(mine))
		return
	}
	named := podNamed(o.Pods, s.PodName())
	c.pod = named
	if len(mine) == 1 {
		c.pod = mine[0] // the owner UID says more than a name
	}
	isMine := len(mine) == 1
	if annotated && (c.pod == nil || c.pod != named || !isMine) {
		c.actions = append(c.actions, patch(ClearPodName, s, map[string]any{
			"annotations": map[string]any{api.AnnotationPodName: nil},
		}))
	}

	switch {
	case s.Suspended():
		if isMine && c.pod.DeletionTimestamp == nil {
			c.actions = append(c.actions, deletion(DeletePod, c.pod))
		}
	case isMine:
		if metadata := propagate(s, c.pod); metadata != nil {
			c.actions = append(c.actions, patch(PatchPod, c.pod, metadata))
		}
	case c.pod != nil:
		c.podErr = errors.Join(c.podErr, foreign("pod", c.pod))
		c.pod = nil
	case podNamed(o.Pods, s.Name) != nil: // a new Pod has this name even if the annotation says another
		c.podErr = errors.Join(c.podErr, foreign("pod", podNamed(o.Pods, s.Name)))
	case c.podErr == nil:
		c.actions = append(c.actions, Action{Step: CreatePod, Name: s.Name, Object: podObject(s, d)})
		c.pod = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: s.Name, OwnerReferences: []metav1.OwnerReference{ownerReference(s, d)}},
			Status:     corev1.PodStatus{Phase: corev1.PodPending},
		}
	}
}

// blocked reports an obstacle other than several Pods, whose end does come with an event.
func (c *children) blocked() bool {
	return c.childErr != nil || c.podErr != nil && !errors.Is(c.podErr, errMultiplePods)
}

func podNamed(pods []*corev1.Pod, name string) *corev1.Pod {
	for _, pod := range pods {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

// planService makes the Service only when spec.service is true and removes it only when it is false; unset leaves an
// older one in place. Nothing is touched while it is unclear which Pod would be behind it.
func (c *children) planService(o Observed, d Dialect) {
	s := o.Sandbox
	c.service = o.Service != nil && controls(s, o.Service)
	c.serviceDue = c.service
	if s.Spec.Service == nil || errors.Is(c.podErr, errMultiplePods) {
		return
	}
	c.serviceDue = *s.Spec.Service
	switch {
	case c.serviceDue && o.Service == nil:
		c.actions = append(c.actions, Action{Step: CreateService, Name: s.Name, Object: serviceObject(s, d)})
		c.service = o.ChildError == nil && o.PodError == nil
	case c.serviceDue && !c.service:
		c.childErr = errors.Join(c.childErr, foreign("service", o.Service))
	case !c.serviceDue && c.service:
		if o.Service.DeletionTimestamp == nil {
			c.actions = append(c.actions, deletion(DeleteService, o.Service))
		}
		c.service = false
	}
}

// fillStatus writes all of the status but the conditions.
func (c *children) fillStatus(status *api.Status, s *api.Sandbox, d Dialect) {
	status.PodIPs, status.NodeName = nil, ""
	if c.pod != nil {
		status.Selector = api.LabelNameHash + "=" + api.NameHash(s.Name)
	}
	mine := c.pod != nil && controls(s, c.pod)
	if mine {
		for _, ip := range c.pod.Status.PodIPs {
			status.PodIPs = append(status.PodIPs, ip.IP)
		}
	}
	if mine && d.Version == api.V1beta1 {
		status.NodeName = c.pod.Spec.NodeName
	}
	if d.Version == api.V1alpha1 {
		status.Replicas = new(int64)
		if mine {
			*status.Replicas = 1
		}
	}
	status.Service, status.ServiceFQDN = "", ""
	if c.service {
		status.Service = s.Name
		status.ServiceFQDN = fmt.Sprintf("%s.%s.svc.cluster.local", s.Name, s.Namespace)
	}
}
