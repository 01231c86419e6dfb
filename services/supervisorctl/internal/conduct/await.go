package conduct

import (
	"context"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

const (
	// grace is what a Pod has to end when it does not say, and headroom what is given on top (contract 7.10).
	grace    = 30 * time.Second
	headroom = 30 * time.Second
)

const (
	// shortest and longest are the pauses between two looks; the first ones are short because most waits are.
	shortest, longest = 5 * time.Millisecond, 100 * time.Millisecond
	// unasked is the pause between two looks while a watch is to tell of a change.
	unasked = 800 * time.Millisecond
	// perDiagnosis is how many looks at a workload there are for one at the Sandbox, which says why it does not come.
	perDiagnosis = 4
)

// await looks at a subject until it has changed, or, for a workload, until the Sandbox says that it will not come or is on another
// course. It refuses a stop that takes longer than it may, and lets a raise know when the workload is overdue. It looks when a watch of
// the Pod says so, and now and then in case it does not; where there is none, again and again.
func (r *round) await(ctx context.Context, subject plan.Subject) (plan.Step, error) {
	raised := subject == plan.SubjectWorkload && (r.goal.Goal == plan.Provision || r.goal.Goal == plan.Restart)
	limit, began, before, course := r.limit(subject), time.Now(), r.version(subject), r.course()
	changed := func() bool { return r.version(subject) != before || r.course() != course }
	r.attempt.Refusal = ""
	told, stop := r.told(ctx, subject)
	defer stop()
	pauses := pauses(shortest, longest)
	for looks := 1; ; looks++ {
		heard, ok := told.sleep(ctx, pauses.NextBackOff())
		if !ok {
			return plan.Step{}, fmt.Errorf("wait for the %s: %w", subject, context.Cause(ctx))
		}
		if raised && heard { // all that the next step rests on, at once
			r.lookAround(ctx)
		} else {
			r.lookAt(ctx, subject)
		}
		if subject == plan.SubjectWorkload && (looks%perDiagnosis == 0 || told.watches()) {
			r.lookAt(ctx, plan.SubjectSandbox)
			r.attempt.Refusal = r.diagnosis()
		}
		overdue := time.Since(began) > limit
		switch {
		case changed(), r.attempt.Refusal != "":
			if raised && !heard {
				r.lookAround(ctx)
			}
			return plan.Step{}, nil
		case overdue && raised && r.seen.workload.value == nil:
			r.attempt.WorkloadOverdue = true
			return plan.Step{}, nil
		case overdue:
			return refusal(StopOverdue, "the %s has not changed within %s", subject, limit), nil
		}
	}
}

// limit is how long a subject may take.
func (r *round) limit(subject plan.Subject) time.Duration {
	pod := r.seen.workload.value
	switch {
	case subject == plan.SubjectSupervisor:
		pod = r.seen.supervisor.value
	case pod == nil && subject == plan.SubjectWorkload:
		return workloadLimit
	}
	own := grace
	if pod != nil && pod.Spec.TerminationGracePeriodSeconds != nil {
		own = time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	return own + headroom
}

// version tells two states of a subject apart.
func (r *round) version(subject plan.Subject) string {
	of := func(pod *corev1.Pod, err error) string {
		switch {
		case err != nil:
			return "unknown"
		case pod == nil:
			return "absent"
		}
		return string(pod.UID) + "/" + pod.ResourceVersion
	}
	s := &r.seen
	switch subject {
	case plan.SubjectSupervisor:
		return of(s.supervisor.value, s.supervisor.err)
	case plan.SubjectWorkload:
		return of(s.workload.value, s.workload.err)
	default:
	}
	if s.box.err != nil || s.box.value == nil {
		return "unknown"
	}
	return s.box.value.ResourceVersion
}

// course is what a Sandbox is at: whoever changes it means the work to go another way.
type course struct {
	uid      string
	deleting bool
	mode     sandboxapi.Mode
	record   runstate.Record
}

func (r *round) course() course {
	box := r.seen.box.value
	if box == nil {
		return course{}
	}
	record, err := runstate.Of(box.Annotations)
	if err != nil {
		return course{uid: box.UID}
	}
	return course{box.UID, box.Deleting, box.Mode, record}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pauses are those between one try and the next: each twice as long as the one before, at random a quarter more or less, and none longer
// than longest.
func pauses(first, longest time.Duration) *backoff.ExponentialBackOff {
	const spread = .25
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(first), backoff.WithMultiplier(2), backoff.WithRandomizationFactor(spread),
		backoff.WithMaxInterval(time.Duration(float64(longest)/(1+spread))), backoff.WithMaxElapsedTime(0),
	)
}
