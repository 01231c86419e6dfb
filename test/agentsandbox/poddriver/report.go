package poddriver

import (
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// report writes the status of one Pod in the words of a kubelet. What it does not mention stays as it was.
type report struct {
	pod *corev1.Pod
	now time.Time
}

// pending reports containers that wait for a reason.
func (r report) pending(reason, message string) *corev1.PodStatus {
	s := r.begin(corev1.PodPending)
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	s.ContainerStatuses = r.containers(r.pod.Spec.Containers, s.ContainerStatuses, waiting, false)
	s.InitContainerStatuses = r.containers(r.pod.Spec.InitContainers, s.InitContainerStatuses, waiting, false)
	r.setReady(s, false, "ContainersNotReady")
	return s
}

func (r report) running(ready bool) *corev1.PodStatus {
	s := r.begin(corev1.PodRunning)
	r.address(s)
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: r.time()}}
	s.ContainerStatuses = r.containers(r.pod.Spec.Containers, s.ContainerStatuses, state, ready)
	s.InitContainerStatuses = r.initialised(s)
	r.setReady(s, ready, "ContainersNotReady")
	return s
}

func (r report) crashing() *corev1.PodStatus {
	s := r.begin(corev1.PodRunning)
	r.address(s)
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "CrashLoopBackOff", Message: "back-off restarting failed container",
	}}
	s.ContainerStatuses = r.containers(r.pod.Spec.Containers, s.ContainerStatuses, waiting, false)
	for i := range s.ContainerStatuses {
		c := &s.ContainerStatuses[i]
		c.RestartCount = crashRestart
		if c.LastTerminationState.Terminated == nil {
			c.LastTerminationState = r.terminated(crashedExit, "Error")
		}
	}
	s.InitContainerStatuses = r.initialised(s)
	r.setReady(s, false, "ContainersNotReady")
	return s
}

func (r report) ended(e End) *corev1.PodStatus {
	phase, reason, conditionReason := corev1.PodSucceeded, "Completed", "PodCompleted"
	if e.Evicted && e.ExitCode == 0 {
		e.ExitCode = evictedExit
	}
	if e.ExitCode != 0 {
		phase, reason, conditionReason = corev1.PodFailed, "Error", "PodFailed"
	}
	if e.Reason != "" {
		reason = e.Reason
	}
	s := r.begin(phase)
	if e.Evicted {
		s.Reason, s.Message = "Evicted", "the node was low on resource: memory"
	}
	s.ContainerStatuses = r.containers(r.pod.Spec.Containers, s.ContainerStatuses, r.terminated(e.ExitCode, reason), false)
	s.InitContainerStatuses = r.initialised(s)
	r.setReady(s, false, conditionReason)
	return s
}

// begin copies the status and sets what every report has.
func (r report) begin(phase corev1.PodPhase) *corev1.PodStatus {
	s := r.pod.Status.DeepCopy()
	s.Phase = phase
	s.ObservedGeneration = r.pod.Generation
	if s.StartTime == nil {
		start := r.time()
		s.StartTime = &start
	}
	s.HostIP = nodeAddress
	s.HostIPs = []corev1.HostIP{{IP: nodeAddress}}
	return s
}

// address gives a Pod an address that follows from its UID, so that it has the same one for life and hardly ever one that
// another Pod has.
func (r report) address(s *corev1.PodStatus) {
	h := fnv.New32a()
	h.Write([]byte(r.pod.UID))
	sum := h.Sum32()
	s.PodIP = fmt.Sprintf("10.%d.%d.%d", byte(sum>>16), byte(sum>>8), byte(sum))
	s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
}

func (r report) containers(
	specs []corev1.Container, old []corev1.ContainerStatus, state corev1.ContainerState, ready bool,
) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for _, spec := range specs {
		c := corev1.ContainerStatus{Name: spec.Name, Image: spec.Image, State: state, Ready: ready}
		started := state.Running != nil
		c.Started = &started
		if state.Waiting == nil {
			c.ImageID = "stand-in://" + spec.Image
			c.ContainerID = fmt.Sprintf("stand-in://%s/%s", r.pod.UID, spec.Name)
		}
		for _, before := range old {
			if before.Name == spec.Name {
				keepTimes(&c, before)
			}
		}
		all = append(all, c)
	}
	return all
}

// keepTimes carries over when a container reached the state it is still in, and its history.
func keepTimes(c *corev1.ContainerStatus, before corev1.ContainerStatus) {
	c.RestartCount, c.LastTerminationState = before.RestartCount, before.LastTerminationState
	if c.State.Running != nil && before.State.Running != nil {
		c.State = before.State
	}
	if c.State.Terminated == nil {
		return
	}
	terminated := *c.State.Terminated
	if before.State.Running != nil {
		terminated.StartedAt = before.State.Running.StartedAt
	}
	c.State.Terminated = &terminated
	if before.State.Terminated != nil {
		c.State = before.State
	}
}

func (r report) initialised(s *corev1.PodStatus) []corev1.ContainerStatus {
	return r.containers(r.pod.Spec.InitContainers, s.InitContainerStatuses, r.terminated(0, "Completed"), true)
}

func (r report) terminated(exit int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: exit, Reason: reason, StartedAt: r.time(), FinishedAt: r.time(),
	}}
}

// setReady writes the four conditions that a kubelet owns; PodScheduled is the scheduler's.
func (r report) setReady(s *corev1.PodStatus, ready bool, reason string) {
	set := func(kind corev1.PodConditionType, yes bool, reason string) {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, ObservedGeneration: r.pod.Generation}
		if yes {
			c.Status, c.Reason = corev1.ConditionTrue, ""
		}
		c.LastTransitionTime = r.time()
		for i, before := range s.Conditions {
			if before.Type != kind {
				continue
			}
			if before.Status == c.Status {
				c.LastTransitionTime = before.LastTransitionTime
			}
			s.Conditions[i] = c
			return
		}
		s.Conditions = append(s.Conditions, c)
	}
	started := s.Phase != corev1.PodPending
	set(corev1.PodReadyToStartContainers, started, "")
	set(corev1.PodInitialized, started || len(r.pod.Spec.InitContainers) == 0, "ContainersNotInitialized")
	set(corev1.ContainersReady, ready, reason)
	set(corev1.PodReady, ready, reason)
}

// time returns now in the precision that the API stores, so that a report equals itself after it was read back.
func (r report) time() metav1.Time { return metav1.NewTime(r.now.Truncate(time.Second)) }
