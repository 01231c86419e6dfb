package plan_test

import (
	"errors"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// me is the attempt of all cases; other is one that came before it.
const me, other = "me", "other"

var bound = plan.Bound{Workload: "workload", Supervisor: "supervisor", Fence: "fence", FenceGeneration: 3, Address: "10.0.0.1"}

// box makes the Sandbox of a record.
func box(mode sandboxapi.Mode, r runstate.Record, conditions ...sandboxapi.Condition) plan.Known[sandboxapi.Object] {
	return plan.Found(sandboxapi.Object{
		Sandbox: sandboxapi.Sandbox{
			Namespace: "team", Name: "box", UID: "sandbox", Annotations: r.Annotations(),
			Labels: map[string]string{workspace.LabelManagedBy: workspace.ManagedByOpenShell, workspace.LabelGatewayID: "gw", workspace.LabelSandboxID: "id"},
		},
		Version: sandboxapi.V1beta1, Generation: 1, ResourceVersion: "1", Mode: mode, Conditions: conditions,
	})
}

var (
	isReady     = sandboxapi.Condition{Type: sandboxapi.ConditionReady, Status: "True", ObservedGeneration: 1}
	isSuspended = sandboxapi.Condition{Type: sandboxapi.ConditionSuspended, Status: "True", ObservedGeneration: 1}
)

// records of a run, in the order in which it passes through them.
func preparing() runstate.Record {
	return runstate.Record{
		Bootstrapping: true, StartedAt: start.UnixMilli(), Operation: runstate.Restart, Phase: runstate.Preparing, Session: session, Epoch: 2,
		Generation: generation, Attempt: me, Readiness: runstate.Unavailable, MainProcess: "{}",
	}
}

func recorded() runstate.Record {
	r := preparing()
	r.WorkloadUID, r.SupervisorUID, r.FenceUID, r.FenceGeneration = "workload", "supervisor", "fence", 3
	return r
}

func ready() runstate.Record {
	r := recorded()
	r.Bootstrapping, r.StartedAt, r.Operation, r.Phase, r.Attempt, r.Readiness = false, 0, "", "", "", runstate.Ready
	return r
}

func stopping(phase runstate.Phase) runstate.Record {
	r := recorded()
	r.Bootstrapping, r.StartedAt, r.Operation, r.Phase, r.Attempt = false, 0, runstate.Stop, phase, ""
	return r
}

// base is a run that stands, ready, with everything seen.
func base() plan.Facts {
	return plan.Facts{
		Now: start.Add(time.Minute), Acknowledged: true, Attempt: plan.Attempt{ID: me}, Sandbox: box(sandboxapi.Running, ready(), isReady),
		WorkloadFence:   plan.Found(plan.Policy{Standing: plan.Stands, UID: "fence", Generation: 3}),
		SupervisorFence: plan.Found(plan.Policy{Standing: plan.Stands, UID: "egress", Generation: 1}),
		Service:         plan.Found(plan.Service{UID: "service", Ownership: plan.OfThisRun, ClusterIP: "10.0.0.1"}),
		Supervisor:      plan.Found(plan.Pod{Name: "os-supervisor-id", UID: "supervisor", Ownership: plan.OfThisRun, Ready: true}),
		Workload:        plan.Found(plan.Pod{Name: "box", UID: "workload", Ownership: plan.OfThisRun, Ready: true}),
	}
}

// stage is where a run can be: base changed.
type stage struct {
	name  string
	facts func() plan.Facts
}

func from(facts func() plan.Facts, changes ...change) func() plan.Facts {
	return func() plan.Facts {
		f := facts()
		for _, c := range changes {
			c(&f)
		}
		return f
	}
}

// change is one thing that is otherwise.
type change func(*plan.Facts)

func sandbox(mode sandboxapi.Mode, r runstate.Record, conditions ...sandboxapi.Condition) change {
	return func(f *plan.Facts) { f.Sandbox = box(mode, r, conditions...) }
}

func edited[T any](k plan.Known[T], edit func(*T)) plan.Known[T] {
	value, ok := k.Value()
	if !ok {
		return k
	}
	edit(&value)
	return plan.Found(value)
}

func object(edit func(*sandboxapi.Object)) change {
	return func(f *plan.Facts) { f.Sandbox = edited(f.Sandbox, edit) }
}

func supervisorPod(edit func(*plan.Pod)) change {
	return func(f *plan.Facts) { f.Supervisor = edited(f.Supervisor, edit) }
}

func workloadPod(edit func(*plan.Pod)) change {
	return func(f *plan.Facts) { f.Workload = edited(f.Workload, edit) }
}

func service(edit func(*plan.Service)) change {
	return func(f *plan.Facts) { f.Service = edited(f.Service, edit) }
}

func fence(edit func(*plan.Policy)) change {
	return func(f *plan.Facts) { f.WorkloadFence = edited(f.WorkloadFence, edit) }
}

func egress(edit func(*plan.Policy)) change {
	return func(f *plan.Facts) { f.SupervisorFence = edited(f.SupervisorFence, edit) }
}

func attempt(edit func(*plan.Attempt)) change { return func(f *plan.Facts) { edit(&f.Attempt) } }

// record edits the Sandbox's record.
func record(edit func(*runstate.Record)) change {
	return object(func(o *sandboxapi.Object) {
		r, err := runstate.Of(o.Annotations)
		if err != nil {
			return
		}
		edit(&r)
		o.Annotations = r.Annotations()
	})
}

func idle(f *plan.Facts) { f.Idle = plan.IdleLimit }

// Everything that is not there.
func noSandbox(f *plan.Facts)    { f.Sandbox = plan.Absent[sandboxapi.Object]() }
func noFence(f *plan.Facts)      { f.WorkloadFence = plan.Absent[plan.Policy]() }
func noEgress(f *plan.Facts)     { f.SupervisorFence = plan.Absent[plan.Policy]() }
func noService(f *plan.Facts)    { f.Service = plan.Absent[plan.Service]() }
func noSupervisor(f *plan.Facts) { f.Supervisor = plan.Absent[plan.Pod]() }
func noWorkload(f *plan.Facts)   { f.Workload = plan.Absent[plan.Pod]() }

var errRead = errors.New("connection refused")

// unread are the looks that failed, and those at which nobody looked.
func unread() map[string]change {
	return map[string]change{
		"Sandbox":         func(f *plan.Facts) { f.Sandbox = plan.Failed[sandboxapi.Object](errRead) },
		"workload fence":  func(f *plan.Facts) { f.WorkloadFence = plan.Failed[plan.Policy](errRead) },
		"egress policy":   func(f *plan.Facts) { f.SupervisorFence = plan.Known[plan.Policy]{} },
		"Service":         func(f *plan.Facts) { f.Service = plan.Failed[plan.Service](nil) },
		"supervisor Pod":  func(f *plan.Facts) { f.Supervisor = plan.Failed[plan.Pod](errRead) },
		"workload Pod":    func(f *plan.Facts) { f.Workload = plan.Known[plan.Pod]{} },
		"supervisor Pod.": func(f *plan.Facts) { f.Supervisor = plan.Known[plan.Pod]{} },
		"workload Pod.":   func(f *plan.Facts) { f.Workload = plan.Failed[plan.Pod](errRead) },
	}
}

func gated(p *plan.Pod)   { p.Gated, p.Ready = true, false }
func unready(p *plan.Pod) { p.Ready = false }

// The stages, in the order of a restart and of a stop.
var (
	fresh      = from(base, sandbox(sandboxapi.Suspended, preparing(), isSuspended), noSupervisor, noWorkload, noService, noFence, noEgress)
	begun      = from(base, sandbox(sandboxapi.Suspended, preparing(), isSuspended), supervisorPod(gated), noWorkload)
	resumed    = from(base, sandbox(sandboxapi.Running, resumedRecord()), supervisorPod(gated), noWorkload)
	admitted   = from(resumed, func(f *plan.Facts) { f.Workload = base().Workload }, workloadPod(gated))
	noted      = from(admitted, sandbox(sandboxapi.Running, recorded()))
	made       = from(noted, attempt(func(a *plan.Attempt) { a.MadeFor = bound }))
	lifted     = from(made, supervisorPod(func(p *plan.Pod) { p.Gated = false }))
	open       = from(lifted, workloadPod(func(p *plan.Pod) { p.Gated = false }))
	released   = from(base, sandbox(sandboxapi.Running, releasedRecord()), supervisorPod(unready))
	completing = from(base, sandbox(sandboxapi.Running, releasedRecord(), isReady))
	releasing  = from(base, sandbox(sandboxapi.Running, stopping(runstate.Releasing)))
	suspending = from(base, sandbox(sandboxapi.Suspended, stopping(runstate.Suspending)), noSupervisor, workloadPod(func(p *plan.Pod) { p.Deleting = true }))
	suspended  = from(base, sandbox(sandboxapi.Suspended, stopping(runstate.Suspending), isSuspended), noSupervisor, noWorkload)
	cleared    = from(suspended, attempt(func(a *plan.Attempt) { a.SecretsGone = true }))
	atRest     = from(base, sandbox(sandboxapi.Suspended, ready().Stopped(), isSuspended), noSupervisor, noWorkload)
	going      = from(base, object(func(o *sandboxapi.Object) { o.Deleting = true }))
	gone       = from(base, noSandbox)
)

func resumedRecord() runstate.Record {
	r := preparing()
	r.SupervisorUID = "supervisor"
	return r
}

func releasedRecord() runstate.Record {
	r := recorded()
	r.Phase = runstate.Released
	return r
}

func stages() []stage {
	return []stage{
		{"fresh", fresh},
		{"begun", begun},
		{"resumed", resumed},
		{"admitted", admitted},
		{"noted", noted},
		{"made", made},
		{"lifted", lifted},
		{"open", open},
		{"released", released},
		{"completing", completing},
		{"running", base},
		{"releasing", releasing},
		{"suspending", suspending},
		{"suspended", suspended},
		{"cleared", cleared},
		{"at rest", atRest},
		{"going", going},
		{"gone", gone},
	}
}

// expect is what a case wants of its step.
type expect struct {
	action plan.Action
	reason string
	undo   bool
}

func (e expect) of(t *testing.T, name string, step plan.Step) {
	t.Helper()
	if step.Action != e.action || string(step.Reason) != e.reason || step.Undo != e.undo {
		t.Errorf("%s: %s, reason %q, undo %t (%s); want %s, %q, %t", name, step.Action, step.Reason, step.Undo, step.Explanation, e.action, e.reason, e.undo)
	}
	if (step.Reason == "") != (step.Explanation == "") {
		t.Errorf("%s: reason %q with explanation %q", name, step.Reason, step.Explanation)
	}
}

func does(a plan.Action) expect                  { return expect{action: a} }
func stopsFor(reason string) expect              { return expect{action: plan.Write, reason: reason} }
func refuses(reason string) expect               { return expect{reason: reason} }
func undoes(reason string) expect                { return expect{reason: reason, undo: true} }
func wants(goal plan.Goal, r plan.Run) plan.Want { return plan.Want{Goal: goal, Ref: ref, Run: r} }
