package poddriver

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// blockedRetry is when to look again for a volume source that was missing; the driver does not watch them.
const blockedRetry = 200 * time.Millisecond

// situation is everything that decides a Pod's next report.
type situation struct {
	pod       *corev1.Pod
	behaviour Behaviour
	seen      seen
	blocked   string // the volume source that is missing, "" for none
	bind      bool
	now       time.Time
}

// seen is when this driver noticed each event of a Pod's life. The times in the Pod itself have whole seconds only, too
// coarse for short scripts.
type seen struct{ bound, running, deleted time.Time }

// plan is what to do next.
type plan struct {
	bind   bool
	status *corev1.PodStatus // nil: nothing to report
	remove bool              // confirm the deletion, after the report
	again  time.Duration     // look again without an event; 0 is never
	seen   seen
}

// next decides. It changes nothing and reads no clock.
func next(s situation) plan {
	p := plan{seen: s.seen}
	deleted := s.pod.DeletionTimestamp != nil
	switch {
	case len(s.pod.Spec.SchedulingGates) > 0:
	case s.pod.Spec.NodeName == "":
		p.bind = s.bind && !deleted
	case deleted:
		stop(s, &p)
	case !ended(s.pod):
		run(s, &p)
	}
	if p.status != nil && equality.Semantic.DeepEqual(*p.status, s.pod.Status) {
		p.status = nil
	}
	return p
}

func run(s situation, p *plan) {
	if p.seen.bound.IsZero() {
		p.seen.bound = s.now
	}
	if s.pod.Status.Phase == corev1.PodRunning && p.seen.running.IsZero() {
		p.seen.running = s.now // an earlier driver started it
	}
	r := report{pod: s.pod, now: s.now}
	if p.seen.running.IsZero() {
		switch wait := s.behaviour.StartAfter - s.now.Sub(p.seen.bound); {
		case s.blocked != "":
			p.status, p.again = r.pending("ContainerCreating", s.blocked), blockedRetry
			return
		case wait > 0:
			p.status, p.again = r.pending("ContainerCreating", ""), wait
			return
		case s.behaviour.Waiting != "":
			p.status = r.pending(s.behaviour.Waiting, "scripted")
			return
		}
		p.seen.running = s.now
	}
	live(s, r, p)
}

// live reports a Pod that has started.
func live(s situation, r report, p *plan) {
	b, up := s.behaviour, s.now.Sub(p.seen.running)
	if b.End != nil {
		if left := b.End.After - up; left > 0 {
			p.again = left
		} else {
			p.status = r.ended(*b.End)
			return
		}
	}
	if b.CrashLoop {
		p.status = r.crashing()
		return
	}
	ready, change := readiness(b, up)
	p.status = r.running(ready)
	if change > 0 && (p.again == 0 || change < p.again) {
		p.again = change
	}
}

// readiness returns whether a Pod that runs since up is ready, and in what time that changes, 0 for never.
func readiness(b Behaviour, up time.Duration) (ready bool, change time.Duration) {
	switch {
	case b.NeverReady:
		return false, 0
	case up < b.ReadyAfter:
		return false, b.ReadyAfter - up
	case b.FlapEvery <= 0:
		return true, 0
	}
	since := up - b.ReadyAfter
	return since/b.FlapEvery%2 == 0, b.FlapEvery - since%b.FlapEvery
}

// stop follows a deletion to its confirmation.
func stop(s situation, p *plan) {
	if s.behaviour.IgnoreDeletion {
		return
	}
	if p.seen.deleted.IsZero() {
		p.seen.deleted = s.now
	}
	started := s.pod.Status.Phase == corev1.PodRunning
	if !started { // nothing to stop: it never started, or has ended
		p.remove = true
		return
	}
	wait, exit := s.behaviour.StopAfter, int32(0)
	if grace := s.pod.DeletionGracePeriodSeconds; grace != nil && wait > time.Duration(*grace)*time.Second {
		wait, exit = time.Duration(*grace)*time.Second, killedExit
	}
	if left := wait - s.now.Sub(p.seen.deleted); left > 0 {
		p.again = left
		return
	}
	p.status = report{pod: s.pod, now: s.now}.ended(End{ExitCode: exit})
	p.remove = true
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
