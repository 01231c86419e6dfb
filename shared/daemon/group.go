package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// hardStop is how long tasks have to end once the shutdown grace has run out and
// all of them were cancelled. It lets innocent tasks, such as the admin listener,
// end in order, so that the error names only those that really hang.
const hardStop = 2 * time.Second

// Group runs the tasks of a daemon.
//
// The order of Add is the order of dependency: a task may rely on those added
// before it for as long as it runs. All start at once, in that order. The stop
// begins with the first cause: the end of Run's context, or a task that fails,
// panics, or returns although nobody asked it to. Then the group
//
//  1. drains the checks, so that readiness turns false at once,
//  2. cancels the tasks one by one in reverse order, each when the one after it has
//     ended,
//  3. when the grace has run out before all have ended, cancels all that are left
//     and gives all of them, the one that used the grace up included, 2 seconds more.
//
// Tasks own what wiring opened for them, such as listeners, and close it when they
// end. Run therefore starts and stops them also when there is nothing left to run for.
//
// A Group is for one Run. Add must not be called once Run has begun.
type Group struct {
	grace   time.Duration
	checks  *Checks
	log     zerolog.Logger
	tasks   []*task
	invalid []error
	used    bool
}

// NewGroup returns an empty group whose tasks have grace to stop; it must be
// positive. checks are drained when the stop begins.
func NewGroup(grace time.Duration, checks *Checks, log zerolog.Logger) (*Group, error) {
	switch {
	case grace <= 0:
		return nil, fmt.Errorf("make a task group: shutdown grace %s is not positive", grace)
	case checks == nil:
		return nil, errors.New("make a task group: checks are nil")
	}
	return &Group{grace: grace, checks: checks, log: log}, nil
}

// Add adds a task that runs until it is cancelled. Returning before that, even nil,
// stops the group. After it is cancelled the task should return nil or its
// context's error; context.Cause of its context says why the group stops.
//
// Names are for people, must be unique and not empty; Run reports a wrong one.
func (g *Group) Add(name string, run func(context.Context) error) {
	if name == "" {
		g.invalid = append(g.invalid, fmt.Errorf("task number %d has no name", len(g.tasks)+1))
	}
	for _, other := range g.tasks {
		if other.name == name {
			g.invalid = append(g.invalid, fmt.Errorf("task %q was added twice", name))
		}
	}
	if run == nil {
		g.invalid = append(g.invalid, fmt.Errorf("task %q has no function", name))
		run = untilCancelled // keeps its place, since the others have to end
	}
	g.tasks = append(g.tasks, &task{name: name, run: run})
}

// Run starts the tasks, waits for the first cause to stop, stops them as the type
// describes and waits until all have ended.
//
// It returns nil only when the stop was asked for, by the end of ctx, and every
// task ended within the grace without an error of its own. Otherwise the error is
// the first cause, joined with what went wrong during the stop; tasks that took longer
// than the grace are named.
//
// When ctx has ended already, or a task was added wrongly, the stop begins at once.
func (g *Group) Run(ctx context.Context) error {
	if g.used {
		return errors.New("run the task group: it has run before")
	}
	g.used = true
	if len(g.tasks) == 0 {
		g.invalid = append(g.invalid, errors.New("there is no task"))
	}
	ended := make(chan *task, len(g.tasks))
	for _, t := range g.tasks {
		t.start(ctx, ended, g.log)
	}
	failed, cause := g.firstCause(ctx, ended)
	// This is the edge where a stop becomes visible. The end of the process, when
	// the error is reported, may be a whole grace away.
	g.log.Info().Str(telemetry.KeyCause, cause.Error()).Msg("stopping")
	g.checks.Drain(cause)
	return g.result(failed, g.stop(cause))
}

// firstCause waits for the cause to stop. failed is the task that is the cause, if
// one is.
func (g *Group) firstCause(ctx context.Context, ended <-chan *task) (failed *task, cause error) {
	if err := g.misuse(); err != nil {
		return nil, err
	}
	// A stop that was asked for before the start comes before what the tasks make of it.
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case t := <-ended:
		if t.err == nil {
			t.err = fmt.Errorf("task %q ended although nothing asked it to", t.name)
		}
		return t, t.err
	}
}

// misuse is what was wrong with the calls of Add, nil when nothing was.
func (g *Group) misuse() error {
	if err := errors.Join(g.invalid...); err != nil {
		return fmt.Errorf("run the task group: %w", err)
	}
	return nil
}

// stop ends all tasks and returns those that exceeded the grace, in the order of Add.
func (g *Group) stop(cause error) (late []*task) {
	grace := time.NewTimer(g.grace)
	defer grace.Stop()
	for i, t := range slices.Backward(g.tasks) {
		t.cancel(cause)
		select {
		case <-t.done:
			g.log.Debug().Str(telemetry.KeyTask, t.name).Msg("task has stopped")
		case <-grace.C:
			g.log.Warn().Str(telemetry.KeyTask, t.name).Msg("task does not stop within the shutdown grace; stopping all others now")
			late = stopHard(cause, g.tasks[:i+1])
			if !slices.Contains(late, t) {
				late = append(late, t) // it has ended since, and yet made the stop a hard one
			}
			return late
		}
	}
	return nil
}

// stopHard cancels the tasks at once and returns those that do not end in time.
func stopHard(cause error, tasks []*task) (late []*task) {
	limit := time.NewTimer(hardStop)
	defer limit.Stop()
	for _, t := range tasks {
		t.cancel(cause)
	}
	for _, t := range tasks {
		select {
		case <-t.done:
			continue
		case <-limit.C:
		}
		for _, t := range tasks {
			if !t.hasEnded() {
				late = append(late, t)
			}
		}
		return late
	}
	return nil
}

// result builds the error of Run from the first cause and from what went wrong
// during the stop.
func (g *Group) result(failed *task, late []*task) error {
	var problems []error
	if err := g.misuse(); err != nil {
		problems = append(problems, err)
	}
	if failed != nil {
		problems = append(problems, failed.err)
	}
	for _, t := range g.tasks {
		if t == failed || !t.hasEnded() || t.err == nil || t.endedByCancel() {
			continue
		}
		problems = append(problems, fmt.Errorf("while stopping: %w", t.err))
	}
	if len(late) > 0 {
		problems = append(problems, g.tooLate(late))
	}
	return errors.Join(problems...)
}

// tooLate names the tasks that exceeded the grace.
func (g *Group) tooLate(late []*task) error {
	names, end := make([]string, len(late)), ""
	for i, t := range late {
		names[i] = t.name
		if t.hasEnded() {
			names[i] += " (ended since)"
		} else {
			end = "; leaving behind what has not ended"
		}
	}
	return fmt.Errorf("tasks still running after the shutdown grace of %s: %s%s", g.grace, strings.Join(names, ", "), end)
}

// untilCancelled is a task that does nothing.
func untilCancelled(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
