package conduct

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// round is one goal being worked on. It belongs to one goroutine.
type round struct {
	*Conductor
	goal    Goal
	wanted  plan.Goal // also when it is undone
	attempt plan.Attempt
	seen    seen
	log     zerolog.Logger

	// end is when this attempt may make no more requests; zero until its name is in the record. workload is the Pod with which it was set.
	end      time.Time
	workload string
	// began is the step by which Keep began a stop.
	began plan.Step
	// looked says that there was a look.
	looked bool
	// namespace is the one that the fence was seen in.
	namespace home
	// deeds are told in Events.
	deeds []deed
	// made are the uids of the Secrets that this round made, by name, and unheard those that it may have made. blocked is since
	// when one was in the way that may go.
	made    map[string]string
	unheard map[string]bool
	blocked time.Time
	// service and supervisor are how the two compared last.
	service, supervisor comparison
	// failures are the pauses after what failed, and moves those after a write that rests on what is no longer so.
	failures, moves backoff.BackOff
}

const (
	// mostSteps is more than any goal takes, with every write lost to another one a few times.
	mostSteps = 200
	// mostTroubles is how often a look or a write may fail before the goal is refused; each is followed by a new look.
	mostTroubles = 8
	// firstFailure and firstMove are the first pauses, and longestPause the longest.
	firstFailure, firstMove = 40 * time.Millisecond, 2 * time.Millisecond
	longestPause            = 2 * time.Second
)

// work takes steps until one ends it. What a refused run made is taken away also after the end of ctx.
func (r *round) work(ctx context.Context) Outcome {
	last := r.take(ctx)
	if !last.Undo {
		return r.outcome(last)
	}
	r.log.Warn().Str(keyReason, string(last.Reason)).Str(keyExplanation, last.Explanation).Msg("the run is refused, and what it made is taken away")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	r.goal.Want, r.end = r.goal.Undone(last, r.course().record.Attempt), time.Time{}
	switch undone := r.take(ctx); {
	case undone.Action == plan.Done:
	case undone.Reason == plan.IsAnother || undone.Reason == plan.SandboxReplaced || undone.Reason == plan.SandboxAbsent:
		r.log.Warn().Str(keyReason, string(undone.Reason)).Str(keyExplanation, undone.Explanation).
			Msg("what a refused run made is not its own any more, and is left alone")
		last.Explanation += "; what the run made is left alone: " + undone.Explanation
	default:
		r.log.Warn().Str(keyReason, string(undone.Reason)).Str(keyExplanation, undone.Explanation).
			Msg("what a refused run made is not taken away completely yet; the reconcile loop goes on with it")
		last.Explanation += "; what the run made is still being taken away"
	}
	last.Undo = false
	return r.outcome(last)
}

// take looks and takes steps until one ends the goal.
func (r *round) take(ctx context.Context) plan.Step {
	r.look(ctx)
	r.failures, r.moves = pauses(firstFailure, longestPause), pauses(firstMove, longestPause)
	troubles, fresh := 0, true
	for range mostSteps {
		step := r.next()
		if releases(step.Action) && !fresh {
			r.lookBefore(ctx, step.Action)
			fresh = true
			continue
		}
		fresh = false
		switch {
		case step.Action == plan.Done, step.Action == plan.Await && r.goal.Goal == plan.Keep:
			return plan.Step{Action: plan.Done, Reason: r.began.Reason, Explanation: r.began.Explanation}
		case step.Ends() && !r.passes(step):
			return step
		}
		var err error
		if !step.Ends() {
			var refused plan.Step
			if refused, err = r.execute(ctx, step); refused.Reason != "" {
				return refused
			}
			if err == nil {
				continue
			}
		}
		if errors.Is(err, cluster.ErrConflict) && troubles < mostTroubles && !r.late() && r.unmoved(ctx, step) {
			troubles++
			continue
		}
		if troubles++; troubles > mostTroubles || r.hopeless(err) || !r.pause(ctx, err) {
			return r.gaveUp(ctx, step, err)
		}
		r.log.Debug().Err(err).Str(keyAction, step.Action.String()).Msg("everything is looked at again")
		r.look(ctx)
		fresh = true
	}
	return refusal(verdict.Unexplained, "the goal was not reached within %d steps", mostSteps)
}

// unmoved reports whether a write to the Sandbox was in conflict with one that is none of the record's: the controller writes the status
// at the same time. The Sandbox is read again, and all else is as it was seen.
func (r *round) unmoved(ctx context.Context, step plan.Step) bool {
	switch step.Action {
	case plan.Begin, plan.Resume, plan.Write, plan.Suspend:
	default:
		return false
	}
	before := r.course()
	r.lookAt(ctx, plan.SubjectSandbox)
	return r.seen.box.err == nil && r.seen.box.value != nil && r.course() == before
}

// passes reports whether a refusal may be over at the next look. The reconcile loop has a next look of its own.
func (r *round) passes(step plan.Step) bool {
	return step.Reason == plan.ObjectUnreadable && r.goal.Goal != plan.Keep || step.Reason == plan.IsTaken && r.goal.Patient
}

// hopeless reports whether a new look is for somebody else to take: this attempt has had its time, or is one of the reconcile loop
// and not about what was seen.
func (r *round) hopeless(err error) bool {
	return r.late() || r.goal.Goal == plan.Keep && !moved(err)
}

// late reports whether this attempt may make no more requests.
func (r *round) late() bool { return !r.end.IsZero() && !time.Now().Before(r.end) }

// next asks the planner.
func (r *round) next() plan.Step {
	facts := r.facts()
	step := plan.Next(r.goal.Want, &facts)
	r.log.Debug().Str(keyAction, step.Action.String()).Str(keyReason, string(step.Reason)).Msg("next step")
	return step
}

// gaveUp is the refusal after too many failures, or at the end of the call or of the attempt.
func (r *round) gaveUp(ctx context.Context, step plan.Step, err error) plan.Step {
	why := step.Explanation
	if err != nil {
		why = fmt.Sprintf("at the step %s: %v", step.Action, err)
	}
	switch {
	case ctx.Err() != nil:
		return refusal(verdict.CallEnded, "the call ended: %s", why)
	case r.late():
		return refusal(verdict.CallEnded, "the attempt has had the time that it may take; try again: %s", why)
	case err == nil:
		return step
	}
	return refusal(plan.ObjectUnreadable, "%s", why)
}

func refusal(reason verdict.Reason, format string, args ...any) plan.Step {
	return plan.Step{Action: plan.Refuse, Reason: reason, Explanation: fmt.Sprintf(format, args...)}
}

// pause waits longer with every failure, and little when a new look is all that it takes; false when ctx ends first.
func (r *round) pause(ctx context.Context, err error) bool {
	if moved(err) {
		return sleep(ctx, r.moves.NextBackOff())
	}
	return sleep(ctx, r.failures.NextBackOff())
}

// bounded is ctx with the end of this attempt, once its name is in the record.
func (r *round) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.end.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, r.end)
}

// moved reports whether err says that a write rests on what is no longer so, and a new look tells what is.
func moved(err error) bool {
	return errors.Is(err, cluster.ErrConflict) || errors.Is(err, cluster.ErrExists) || errors.Is(err, cluster.ErrAbsent)
}
