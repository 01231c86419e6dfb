package probe

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// stage is how far a canary Pod has come. The zero value is not known.
type stage struct {
	// running: it has an address and its container runs.
	running  bool
	ip, node string
	// ended: its container has ended, with message.
	ended   bool
	message string
	// lost: it will not come to its end, or not to a report.
	lost bool
	// detail is what holds it up, or why it is lost, in the cluster's words; empty when nothing is said.
	detail string
}

// hopeless are reasons of a container to wait that the length of a probe does not change. An image that could not be pulled once is
// tried again; ImagePullBackOff comes after the second failure.
var hopeless = []string{"InvalidImageName", "ErrImageNeverPull", "ImagePullBackOff", "CreateContainerConfigError", "ImageInspectError"}

func stageOf(p *corev1.Pod, uid string) stage {
	s := stage{ip: p.Status.PodIP, node: p.Spec.NodeName}
	if string(p.UID) != uid {
		return stage{lost: true, detail: "another Pod has its name"}
	}
	for i := range p.Status.ContainerStatuses {
		if c := &p.Status.ContainerStatuses[i]; c.Name == container {
			s.read(&c.State)
		}
	}
	switch {
	case s.ended:
		s.lost = false
	case p.DeletionTimestamp != nil:
		s.lost, s.detail = true, "it is being deleted by somebody else"
	case p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded:
		s.lost, s.detail = true, told("it ended as "+string(p.Status.Phase), p.Status.Reason, p.Status.Message)
	}
	if s.detail == "" && s.node == "" {
		s.detail = unscheduled(p)
	}
	s.running = s.running && s.ip != "" && !s.lost
	return s
}

func (s *stage) read(c *corev1.ContainerState) {
	switch {
	case c.Terminated != nil:
		s.ended, s.message = true, c.Terminated.Message
		s.detail = told(fmt.Sprintf("its container ended with code %d", c.Terminated.ExitCode), c.Terminated.Reason, c.Terminated.Message)
	case c.Running != nil:
		s.running = true
	case c.Waiting != nil && c.Waiting.Reason != "ContainerCreating" && c.Waiting.Reason != "":
		s.lost = slices.Contains(hopeless, c.Waiting.Reason)
		s.detail = told("its container waits", c.Waiting.Reason, c.Waiting.Message)
	}
}

func unscheduled(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return told("no node takes it", c.Reason, c.Message)
		}
	}
	return ""
}

// told puts the cluster's words behind ours, cut where they are too long.
func told(what, reason, message string) string {
	const longest = 300
	words := slices.DeleteFunc([]string{what, reason, message}, func(s string) bool { return s == "" })
	text := strings.Join(words, ": ")
	if len(text) > longest {
		text = text[:longest] + "..."
	}
	return text
}
