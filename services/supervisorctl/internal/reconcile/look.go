package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Conductor works on goals; *conduct.Conductor is one.
type Conductor interface {
	Do(ctx context.Context, goal conduct.Goal) (conduct.Outcome, error)
	Lead() (end func())
}

var _ Conductor = (*conduct.Conductor)(nil)

// lookLimit ends a look that takes too long. What it has begun is found by the next one.
const lookLimit = 2 * time.Minute

// look has the conductor look at a sandbox and do what is to be done. That its record has stood still is said only after a look that
// did not say so has read the same record.
func look(ctx context.Context, c Conductor, t *task, now func() time.Time) finding {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	goal := conduct.Goal{Want: plan.Want{Goal: plan.Keep, Ref: t.ref}}
	f := findingOf(c.Do(ctx, goal))
	if !t.readable || !matters(t, &f, now().Sub(t.since)) || f.ending == busy || f.ending == failed || !f.shows(&t.record) {
		return f
	}
	goal.Idle, goal.Still, goal.Witnessed = now().Sub(t.since), t.record, t.witnessed
	return findingOf(c.Do(ctx, goal))
}

// matters reports whether the planner may decide by the time for which a record has stood still.
func matters(t *task, f *finding, idle time.Duration) bool {
	switch t.record.Phase {
	case runstate.Preparing:
		return idle >= plan.IdleLimit
	case runstate.Released:
		return idle > plan.ReadyLimit || !t.witnessed && idle >= plan.WatchLimit || f.doomed && idle >= plan.ImageLimit
	default:
	}
	return false
}

// shows reports whether the record was read live as it was seen before.
func (f *finding) shows(r *runstate.Record) bool {
	if f.live == nil {
		return false
	}
	record, ok := recordOf(f.live.Annotations)
	return ok && record == *r
}

// findingOf is what an outcome says about when to look again.
func findingOf(out conduct.Outcome, err error) finding {
	if err != nil {
		f := finding{ending: failed, reason: verdict.Unexplained, explanation: err.Error()}
		if errors.Is(err, conduct.ErrBusy) {
			f = finding{ending: busy}
		}
		return f
	}
	f := finding{explanation: out.Step.Explanation}
	if out.Step.Action == plan.Done {
		f.stopped = out.Step.Reason
	} else {
		f.reason = out.Step.Reason
	}
	if box, ok := out.Facts.Sandbox.Value(); ok {
		f.live = &box
	}
	f.openings, f.inspected = out.Facts.Openings.Value()
	f.doomed = out.Facts.Doomed()
	switch {
	case out.Step.Action == plan.Done && f.resting():
		f.ending = settled
	case out.Step.Action == plan.Done:
		f.ending = waiting
	case f.reason == plan.ObjectUnreadable, f.reason == verdict.CallEnded, f.reason == verdict.Unexplained:
		f.ending = failed
	default:
		f.ending = refused
	}
	return f
}

// resting reports whether the Sandbox is on its way nowhere.
func (f *finding) resting() bool {
	if f.live == nil || f.live.Deleting {
		return false
	}
	record, ok := recordOf(f.live.Annotations)
	return ok && record.Phase == ""
}
