package reconcile

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// scripted answers one call after another, and keeps the goals.
type scripted struct {
	t       *testing.T
	answers []func() (conduct.Outcome, error)
	goals   []conduct.Goal
}

func (s *scripted) Do(ctx context.Context, goal conduct.Goal) (conduct.Outcome, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		s.t.Error("a look without an end")
	}
	if len(s.goals) == len(s.answers) {
		s.t.Fatalf("call %d is not expected: %+v", len(s.goals)+1, goal)
	}
	s.goals = append(s.goals, goal)
	return s.answers[len(s.goals)-1]()
}

func (*scripted) Lead() func() { return func() {} }

// outcome is one that read a Sandbox with the record.
func outcome(step plan.Step, record runstate.Record) conduct.Outcome {
	return conduct.Outcome{Step: step, Facts: plan.Facts{Sandbox: plan.Found(sandboxapi.Object{
		Sandbox: sandboxapi.Sandbox{UID: "uid-1", Annotations: record.Annotations()}, ResourceVersion: "7",
	})}}
}

func did(step plan.Step, record runstate.Record) func() (conduct.Outcome, error) {
	return func() (conduct.Outcome, error) { return outcome(step, record), nil }
}

// doomed is a look that found a Pod whose image is not to be had.
func doomed(record runstate.Record) func() (conduct.Outcome, error) {
	out := outcome(plan.Step{Action: plan.Done}, record)
	out.Facts.Workload = plan.Found(plan.Pod{Doomed: true})
	return func() (conduct.Outcome, error) { return out, nil }
}

// released is the record of a run whose readiness is awaited.
func released() runstate.Record {
	r := running()
	r.Bootstrapping, r.StartedAt, r.Operation, r.Phase, r.Readiness = true, 1, runstate.Create, runstate.Released, ""
	return r
}

// TestIdleIsConfirmedLive: the conductor is told that a record has stood still only when it does so live, and when it matters.
func TestIdleIsConfirmedLive(t *testing.T) {
	done := plan.Step{Action: plan.Done}
	moved := preparing()
	moved.Attempt = "another"
	for name, tc := range map[string]struct {
		record    runstate.Record
		idle      time.Duration
		answers   []func() (conduct.Outcome, error)
		idles     []time.Duration
		witnessed bool
	}{
		"just begun": {preparing(), plan.IdleLimit - 1, []func() (conduct.Outcome, error){did(done, preparing())}, []time.Duration{0}, false},
		"abandoned": {
			preparing(), abandonedAfter,
			[]func() (conduct.Outcome, error){did(done, preparing()), did(done, releasing())},
			[]time.Duration{0, abandonedAfter},
			true,
		},
		"it has moved":   {preparing(), abandonedAfter, []func() (conduct.Outcome, error){did(done, moved)}, []time.Duration{0}, true},
		"it is released": {preparing(), abandonedAfter, []func() (conduct.Outcome, error){did(done, released())}, []time.Duration{0}, true},
		"it is gone": {preparing(), abandonedAfter, []func() (conduct.Outcome, error){func() (conduct.Outcome, error) {
			return conduct.Outcome{Step: done, Facts: plan.Facts{Sandbox: plan.Absent[sandboxapi.Object]()}}, nil
		}}, []time.Duration{0}, false},
		"nobody knows": {preparing(), abandonedAfter, []func() (conduct.Outcome, error){
			did(plan.Step{Action: plan.Refuse, Reason: plan.ObjectUnreadable}, preparing()),
		}, []time.Duration{0}, false},
		"the call is at it": {preparing(), abandonedAfter, []func() (conduct.Outcome, error){func() (conduct.Outcome, error) {
			return conduct.Outcome{}, conduct.ErrBusy
		}}, []time.Duration{0}, false},
		"released for a while": {released(), plan.ReadyLimit, []func() (conduct.Outcome, error){did(done, released())}, []time.Duration{0}, true},
		"released, as a former leader saw": {
			released(), plan.WatchLimit,
			[]func() (conduct.Outcome, error){did(done, released()), did(done, releasing())},
			[]time.Duration{0, plan.WatchLimit},
			false,
		},
		"released, as a former leader saw, just seen": {released(), plan.WatchLimit - 1, []func() (conduct.Outcome, error){did(done, released())}, []time.Duration{0}, false},
		"released, its image is not to be had": {
			released(), plan.ImageLimit,
			[]func() (conduct.Outcome, error){doomed(released()), did(done, releasing())},
			[]time.Duration{0, plan.ImageLimit},
			true,
		},
		"released, its image is not to be had, just seen": {released(), plan.ImageLimit - 1, []func() (conduct.Outcome, error){doomed(released())}, []time.Duration{0}, true},
		"released, all may be had":                        {released(), plan.ImageLimit, []func() (conduct.Outcome, error){did(done, released())}, []time.Duration{0}, true},
		"released for too long": {
			released(), plan.ReadyLimit + 1,
			[]func() (conduct.Outcome, error){did(done, released()), did(done, releasing())},
			[]time.Duration{0, plan.ReadyLimit + 1},
			true,
		},
		"running for ever": {running(), time.Hour, []func() (conduct.Outcome, error){did(done, running())}, []time.Duration{0}, true},
		"stopping":         {releasing(), time.Hour, []func() (conduct.Outcome, error){did(done, releasing())}, []time.Duration{0}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &scripted{t: t, answers: tc.answers}
			ref := plan.Ref{GatewayID: gateway, SandboxID: id(1), Namespace: ns, Name: "box-1", UID: "uid-1"}
			record, _ := recordOf(tc.record.Annotations())
			look(t.Context(), c, &task{ref: ref, record: record, readable: true, since: epoch, witnessed: tc.witnessed}, func() time.Time { return epoch.Add(tc.idle) })
			if len(c.goals) != len(tc.idles) {
				t.Fatalf("%d calls: %+v", len(c.goals), c.goals)
			}
			for i, goal := range c.goals {
				if goal.Want != (plan.Want{Goal: plan.Keep, Ref: ref}) || goal.Patient || goal.Bundle != nil {
					t.Errorf("goal %+v", goal)
				}
				if goal.Idle != tc.idles[i] {
					t.Errorf("call %d: idle %s, want %s", i, goal.Idle, tc.idles[i])
				}
				if measured := goal.Idle > 0; measured && goal.Still != record || goal.Witnessed != (measured && tc.witnessed) {
					t.Errorf("call %d: measured of %+v, witnessed %t", i, goal.Still, goal.Witnessed)
				}
			}
		})
	}
	t.Run("a record that cannot be read", func(t *testing.T) {
		c := &scripted{t: t, answers: []func() (conduct.Outcome, error){did(done, runstate.Record{})}}
		look(t.Context(), c, &task{record: preparing(), since: epoch}, func() time.Time { return epoch.Add(time.Hour) })
	})
}

func TestFindings(t *testing.T) {
	done := plan.Step{Action: plan.Done}
	refuse := func(reason verdict.Reason) plan.Step {
		return plan.Step{Action: plan.Refuse, Reason: reason, Explanation: "why"}
	}
	deleting := outcome(done, running())
	box, _ := deleting.Facts.Sandbox.Value()
	box.Deleting = true
	deleting.Facts.Sandbox = plan.Found(box)
	unreadable := outcome(done, running())
	box.Deleting, box.Annotations = false, map[string]string{workspace.AnnotationBootstrapPhase: "another"}
	unreadable.Facts.Sandbox = plan.Found(box)
	stopped := done
	stopped.Reason = plan.FenceAltered
	for name, tc := range map[string]struct {
		out     conduct.Outcome
		err     error
		ending  ending
		reason  verdict.Reason
		stopped verdict.Reason
		live    bool
	}{
		"running":         {outcome(done, running()), nil, settled, "", "", true},
		"stopped":         {outcome(done, running().Stopped()), nil, settled, "", "", true},
		"preparing":       {outcome(done, preparing()), nil, waiting, "", "", true},
		"released":        {outcome(done, released()), nil, waiting, "", "", true},
		"releasing":       {outcome(done, releasing()), nil, waiting, "", "", true},
		"stop with a why": {outcome(stopped, releasing()), nil, waiting, "", plan.FenceAltered, true},
		"being deleted":   {deleting, nil, waiting, "", "", true},
		"odd record":      {unreadable, nil, waiting, "", "", true},
		"gone":            {conduct.Outcome{Step: done, Facts: plan.Facts{Sandbox: plan.Absent[sandboxapi.Object]()}}, nil, waiting, "", "", false},
		"collision":       {outcome(refuse(plan.Collision), releasing()), nil, refused, plan.Collision, "", true},
		"invalid":         {outcome(refuse(plan.RecordInvalid), running()), nil, refused, plan.RecordInvalid, "", true},
		"overdue":         {outcome(refuse(conduct.StopOverdue), releasing()), nil, refused, conduct.StopOverdue, "", true},
		"not read":        {outcome(refuse(plan.ObjectUnreadable), running()), nil, failed, plan.ObjectUnreadable, "", true},
		"broken off":      {outcome(refuse(verdict.CallEnded), running()), nil, failed, verdict.CallEnded, "", true},
		"endless":         {outcome(refuse(verdict.Unexplained), running()), nil, failed, verdict.Unexplained, "", true},
		"busy":            {conduct.Outcome{}, conduct.ErrBusy, busy, "", "", false},
		"error":           {conduct.Outcome{}, errors.New("no entropy"), failed, verdict.Unexplained, "", false},
		"the zero one":    {conduct.Outcome{}, nil, refused, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := findingOf(tc.out, tc.err)
			if f.ending != tc.ending || f.reason != tc.reason || f.stopped != tc.stopped || (f.live != nil) != tc.live {
				t.Errorf("%s, reason %q, stopped %q, live %v", f.ending, f.reason, f.stopped, f.live)
			}
		})
	}
}

// TestALookEnds: one that hangs is broken off, and is a failure.
func TestALookEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		f := look(t.Context(), hanging{}, &task{}, time.Now)
		if f.ending != failed || time.Since(begun) != lookLimit {
			t.Errorf("%s after %s", f.ending, time.Since(begun))
		}
	})
}

type hanging struct{}

func (hanging) Lead() func() { return func() {} }

func (hanging) Do(ctx context.Context, _ conduct.Goal) (conduct.Outcome, error) {
	<-ctx.Done()
	return conduct.Outcome{}, ctx.Err()
}

// TestALookThatPanics is a failure of this one look: the worker goes on, and the log has the stack and not the value.
func TestALookThatPanics(t *testing.T) {
	var log bytes.Buffer
	r, err := newReporter(zerolog.New(&log), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	l := &Loop{conductor: odd{}, reporter: r, now: time.Now}
	f := l.guarded(t.Context(), &task{ref: plan.Ref{Namespace: ns, Name: "box-1"}})
	if f.ending != failed || f.reason != verdict.Unexplained || f.explanation == "" {
		t.Errorf("%+v", f)
	}
	if text := log.String(); strings.Contains(text, "private") || !strings.Contains(text, "look_test.go") || !strings.Contains(text, `"sandbox":"box-1"`) {
		t.Errorf("%s", text)
	}
}

type odd struct{}

func (odd) Lead() func() { return func() {} }

func (odd) Do(context.Context, conduct.Goal) (conduct.Outcome, error) { panic("a private word") }
