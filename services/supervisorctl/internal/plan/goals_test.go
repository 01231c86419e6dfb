package plan_test

import (
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// goalCase is one answer of one goal.
type goalCase struct {
	name  string
	facts func() plan.Facts
	want  expect
}

func each(t *testing.T, want plan.Want, cases []goalCase) {
	t.Helper()
	for _, c := range cases {
		f := c.facts()
		c.want.of(t, c.name, plan.Next(want, &f))
	}
}

func label(key, value string) change {
	return object(func(o *sandboxapi.Object) {
		labels := map[string]string{}
		for k, v := range o.Labels {
			labels[k] = v
		}
		labels[key] = value
		o.Labels = labels
	})
}

func annotation(key, value string) change {
	return object(func(o *sandboxapi.Object) {
		annotations := map[string]string{}
		for k, v := range o.Annotations {
			annotations[k] = v
		}
		annotations[key] = value
		o.Annotations = annotations
	})
}

var (
	deleting   = object(func(o *sandboxapi.Object) { o.Deleting = true })
	unreadable = annotation(workspace.AnnotationBootstrapPhase, "odd")
	alpha      = object(func(o *sandboxapi.Object) { o.Version, o.Conditions = sandboxapi.V1alpha1, nil })
	replaced   = object(func(o *sandboxapi.Object) { o.UID = "new" })
)

// TestTheSandboxIsTheOneMeant: what every goal asks of the Sandbox, and who may do without.
func TestTheSandboxIsTheOneMeant(t *testing.T) {
	for _, c := range []struct {
		name         string
		do           change
		want         expect
		keep, remove expect
	}{
		{"not read", func(f *plan.Facts) { f.Sandbox = plan.Known[sandboxapi.Object]{} }, refuses("run_object_unreadable"), refuses("run_object_unreadable"), refuses("run_object_unreadable")},
		{"absent", noSandbox, refuses("run_sandbox_absent"), does(plan.DeleteSupervisor), does(plan.DeleteSupervisor)},
		{"another uid", replaced, refuses("run_sandbox_replaced"), does(plan.DeleteSupervisor), does(plan.DeleteSupervisor)},
		{"not managed", label(workspace.LabelManagedBy, "helm"), refuses("run_sandbox_foreign"), does(plan.Done), refuses("run_sandbox_foreign")},
		{"another gateway's", label(workspace.LabelGatewayID, "gw2"), refuses("run_sandbox_foreign"), does(plan.Done), refuses("run_sandbox_foreign")},
		{"out of its place", func(f *plan.Facts) { f.Misplaced = "the workspace lives elsewhere" }, refuses("run_sandbox_foreign"), does(plan.Done), refuses("run_sandbox_foreign")},
		{"another id", label(workspace.LabelSandboxID, "id2"), refuses("run_sandbox_foreign"), does(plan.Done), refuses("run_sandbox_foreign")},
		{"without a mode", object(func(o *sandboxapi.Object) { o.Mode = 0 }), refuses("run_object_unreadable"), refuses("run_object_unreadable"), refuses("run_object_unreadable")},
		{"without a version", object(func(o *sandboxapi.Object) { o.Version = "v9" }), refuses("run_object_unreadable"), refuses("run_object_unreadable"), refuses("run_object_unreadable")},
		{"record unreadable", unreadable, refuses("run_record_invalid"), refuses("run_record_invalid"), does(plan.DeleteSupervisor)},
	} {
		for name, from := range map[string]func() plan.Facts{"running": base, "released": released, "releasing": releasing} {
			f := from()
			c.do(&f)
			for goal, want := range map[plan.Goal]expect{plan.Provision: c.want, plan.Restart: c.want, plan.Release: c.want, plan.Keep: c.keep, plan.Remove: c.remove} {
				want.of(t, name+", "+c.name, plan.Next(wants(goal, run(2)), &f))
			}
		}
	}
	f := base()
	for _, goal := range []plan.Goal{plan.Provision, plan.Restart, plan.Release, plan.Remove, plan.Keep} {
		refuses("run_sandbox_replaced").of(t, "without a uid", plan.Next(plan.Want{Goal: goal, Ref: plan.Ref{GatewayID: "gw", SandboxID: "id", Namespace: "team", Name: "box"}, Run: run(2)}, &f))
	}
}

func TestProvision(t *testing.T) {
	created := func(f func() plan.Facts, more ...change) func() plan.Facts {
		return from(from(f, record(func(r *runstate.Record) { r.Operation = runstate.Create })), more...)
	}
	lifecycles := runstate.Record{Bootstrapping: true, StartedAt: 1, Operation: runstate.Create, Phase: runstate.Preparing, Generation: generation}
	each(t, wants(plan.Provision, run(2)), []goalCase{
		{"as lifecycle left it", from(fresh, sandbox(sandboxapi.Suspended, lifecycles)), does(plan.CreateWorkloadFence)},
		{"of another generation", created(fresh, record(func(r *runstate.Record) { r.Generation = "g2" })), refuses("run_is_another")},
		{"of another session", created(fresh, record(func(r *runstate.Record) { r.Session = "s2" })), refuses("run_is_another")},
		{"of another epoch", created(fresh, record(func(r *runstate.Record) { r.Epoch = 3 })), refuses("run_is_another")},
		{"of a restart", fresh, refuses("run_is_another")},
		{"being deleted", created(fresh, deleting), refuses("run_sandbox_deleting")},
		{"taken", created(fresh, record(func(r *runstate.Record) { r.Attempt = other })), refuses("run_is_taken")},
		{"an attempt without a name", created(fresh, attempt(func(a *plan.Attempt) { a.ID = "" })), refuses("run_is_taken")},
		{"released", released, does(plan.Done)},
		{"running", base, does(plan.Done)},
		{"running, not ready", from(base, supervisorPod(unready)), does(plan.Done)},
		{"running, fence altered", from(base, fence(func(p *plan.Policy) { p.Standing = plan.Altered })), undoes("fence_altered")},
		{"running, fence replaced", from(base, fence(func(p *plan.Policy) { p.UID = "new" })), undoes("fence_altered")},
		{"released, fence changed", from(released, fence(func(p *plan.Policy) { p.Generation++ })), undoes("fence_altered")},
		{"released, supervisor gone", from(released, noSupervisor), undoes("run_broke")},
		{"stopping", releasing, refuses("run_is_another")},
		{"suspended by somebody", from(base, object(func(o *sandboxapi.Object) { o.Mode = sandboxapi.Suspended })), refuses("run_is_another")},
		{"at rest", atRest, refuses("run_is_another")},
	})
	for name, r := range map[string]plan.Run{"none": {}, "no generation": {Session: session, Epoch: 2}, "no session": {Generation: generation, Epoch: 2}, "no epoch": {Generation: generation, Session: session}, "epoch below one": {Generation: generation, Session: session, Epoch: -1}} {
		for _, goal := range []plan.Goal{plan.Provision, plan.Restart} {
			f := created(fresh)()
			refuses("run_is_another").of(t, name, plan.Next(wants(goal, r), &f))
			f = atRest()
			refuses("run_is_another").of(t, name, plan.Next(wants(goal, r), &f))
		}
	}
}

func TestRestart(t *testing.T) {
	each(t, wants(plan.Restart, run(2)), []goalCase{
		{"at rest", atRest, does(plan.Begin)},
		{"at rest, v1alpha1", from(atRest, alpha), does(plan.Begin)},
		{"at rest, not said to be suspended", from(atRest, object(func(o *sandboxapi.Object) { o.Conditions = nil })), does(plan.Await)},
		{"at rest, before 1970", from(atRest, func(f *plan.Facts) { f.Now = time.Time{} }), refuses("run_record_invalid")},
		{"at rest, a supervisor left", from(atRest, func(f *plan.Facts) { f.Supervisor = base().Supervisor }), does(plan.Write)},
		{"at rest, a workload left", from(atRest, func(f *plan.Facts) { f.Workload = base().Workload }), does(plan.Write)},
		{"at rest, set running", from(atRest, object(func(o *sandboxapi.Object) { o.Mode = sandboxapi.Running })), does(plan.Write)},
		{"being deleted", from(atRest, deleting), refuses("run_sandbox_deleting")},
		{"the run stands", base, does(plan.Done)},
		{"the run is released", released, does(plan.Done)},
		{"the run broke", from(base, noSupervisor), does(plan.Write)},
		{"the run's fence is altered", from(base, fence(func(p *plan.Policy) { p.Standing = plan.Altered })), does(plan.Write)},
		{"the run cannot be seen", from(base, func(f *plan.Facts) { f.Service = plan.Known[plan.Service]{} }), refuses("run_object_unreadable")},
		{"the run is suspended", from(base, object(func(o *sandboxapi.Object) { o.Mode = sandboxapi.Suspended })), does(plan.Write)},
		{"a former epoch runs", from(base, record(func(r *runstate.Record) { r.Epoch = 1 })), does(plan.Write)},
		{"it runs under another generation's name", from(base, record(func(r *runstate.Record) { r.Generation = "g2" })), does(plan.Done)},
		{"another session's run under the generation's name", from(base, record(func(r *runstate.Record) { r.Session = "s2" })), does(plan.Write)},
		{"another session runs", from(base, record(func(r *runstate.Record) { r.Session = "s2" })), does(plan.Write)},
		{"a stock driver's run", from(base, record(func(r *runstate.Record) { r.Epoch, r.Session = 0, "" })), does(plan.Write)},
		{"a former epoch is being raised", from(made, record(func(r *runstate.Record) { r.Epoch = 1 })), does(plan.Write)},
		{"a later epoch runs", from(base, record(func(r *runstate.Record) { r.Epoch = 3 })), refuses("run_is_another")},
		{"a later epoch of another session runs", from(base, record(func(r *runstate.Record) { r.Epoch, r.Session = 3, "s2" })), refuses("run_is_another")},
		{"a later epoch is being stopped", from(releasing, record(func(r *runstate.Record) { r.Epoch = 3 })), refuses("run_is_another")},
		{"a create is not finished", from(made, record(func(r *runstate.Record) { r.Operation, r.Epoch = runstate.Create, 1 })), refuses("run_is_another")},
		{"taken", from(made, record(func(r *runstate.Record) { r.Attempt = other })), refuses("run_is_taken")},
		{"being stopped", releasing, does(plan.DeleteSupervisor)},
		{"suspending", suspending, does(plan.Await)},
		{"what it began was stopped", from(atRest, attempt(func(a *plan.Attempt) { a.Began = true })), refuses("run_is_another")},
		{"what it began is being stopped", from(releasing, attempt(func(a *plan.Attempt) { a.Began = true })), refuses("run_is_another")},
		{"what it began goes on", from(made, attempt(func(a *plan.Attempt) { a.Began = true })), does(plan.UngateSupervisor)},
	})
}

func TestRelease(t *testing.T) {
	sleeps := func(status, reason string) change {
		return object(func(o *sandboxapi.Object) {
			o.Conditions = []sandboxapi.Condition{{Type: sandboxapi.ConditionSuspended, Status: status, Reason: reason, ObservedGeneration: 1}}
		})
	}
	stale := object(func(o *sandboxapi.Object) { o.Generation = 2 })
	cases := []goalCase{
		{"being raised", made, does(plan.Write)},
		{"running", base, does(plan.Write)},
		{"not raised by us", from(base, record(func(r *runstate.Record) { *r = runstate.Record{} })), does(plan.Write)},
		{"running, nothing can be seen but the Sandbox", func() plan.Facts { return plan.Facts{Sandbox: base().Sandbox} }, does(plan.Write)},
		{"releasing", releasing, does(plan.DeleteSupervisor)},
		{"releasing, supervisor going", from(releasing, supervisorPod(func(p *plan.Pod) { p.Deleting = true })), does(plan.Await)},
		{"releasing, supervisor gone", from(releasing, noSupervisor), does(plan.Suspend)},
		{"releasing, supervisor somebody else's", from(releasing, supervisorPod(func(p *plan.Pod) { p.Ownership, p.UID = plan.Theirs, "x" })), does(plan.Suspend)},
		{"releasing, supervisor robbed of its labels", from(releasing, supervisorPod(func(p *plan.Pod) { p.Ownership = plan.Theirs })), does(plan.DeleteSupervisor)},
		{"releasing, already suspended", from(releasing, noSupervisor, object(func(o *sandboxapi.Object) { o.Mode = sandboxapi.Suspended })), does(plan.Suspend)},
		{"suspending, a supervisor came", from(suspending, func(f *plan.Facts) { f.Supervisor = base().Supervisor }), does(plan.DeleteSupervisor)},
		{"suspending, set running again", from(suspending, object(func(o *sandboxapi.Object) { o.Mode = sandboxapi.Running })), does(plan.Suspend)},
		{"suspending, workload going", suspending, does(plan.Await)},
		{"suspending, workload somebody else's", from(suspending, workloadPod(func(p *plan.Pod) { p.Ownership, p.UID = plan.Theirs, "x" })), refuses("companion_collision")},
		{"suspending, workload robbed of its owner", from(suspending, workloadPod(func(p *plan.Pod) { p.Ownership, p.Deleting = plan.Theirs, false })), does(plan.DeleteWorkload)},
		{"suspending, workload robbed of its owner, and said not to be owned", from(suspending, sleeps("False", sandboxapi.ReasonPodNotOwned),
			workloadPod(func(p *plan.Pod) { p.Ownership, p.Deleting = plan.Theirs, false })), does(plan.DeleteWorkload)},
		{"suspending, workload robbed of its owner, going", from(suspending, workloadPod(func(p *plan.Pod) { p.Ownership = plan.Theirs })), does(plan.Await)},
		{"suspending, Pod not owned", from(suspending, noWorkload, sleeps("False", sandboxapi.ReasonPodNotOwned)), refuses("companion_collision")},
		{"suspended", suspended, does(plan.DeleteSecrets)},
		{"Pod gone, not said to be suspended", from(suspended, object(func(o *sandboxapi.Object) { o.Conditions = nil })), does(plan.Await)},
		{"Pod gone, said to be terminating", from(suspended, sleeps("False", "PodTerminating")), does(plan.Await)},
		{"Pod gone, suspended in a former generation", from(suspended, stale), does(plan.Await)},
		{"said to be suspended, the Pod still there", from(suspended, func(f *plan.Facts) { f.Workload = base().Workload }), does(plan.Await)},
		{"Pod gone, v1alpha1", from(suspended, alpha), does(plan.DeleteSecrets)},
		{"Secrets gone", cleared, does(plan.Write)},
		{"no generation, no Secrets", from(suspended, record(func(r *runstate.Record) { r.Generation = "" })), does(plan.Write)},
		{"at rest", atRest, does(plan.Done)},
		{"at rest, v1alpha1", from(atRest, alpha), does(plan.Done)},
		{"at rest, not said to be suspended", from(atRest, object(func(o *sandboxapi.Object) { o.Conditions = nil })), does(plan.Await)},
		{"at rest, suspended in a former generation", from(atRest, stale), does(plan.Await)},
		{"at rest, Pod not owned", from(atRest, sleeps("False", sandboxapi.ReasonPodNotOwned)), refuses("companion_collision")},
		{"at rest, somebody else's Pod under the name", from(atRest, func(f *plan.Facts) { f.Workload = plan.Found(plan.Pod{UID: "x"}) }), does(plan.Done)},
		{"being deleted", going, does(plan.DeleteSupervisor)},
		{"being deleted, supervisor gone", from(going, noSupervisor), does(plan.Await)},
		{"being deleted, both gone", from(going, noSupervisor, noWorkload), does(plan.DeleteSecrets)},
	}
	each(t, wants(plan.Release, plan.Run{}), cases)
	each(t, wants(plan.Release, run(2)), cases)
	for name, r := range map[string]plan.Run{"generation": {Generation: "g2"}, "session": {Session: "s2"}, "epoch": {Epoch: 1}} {
		f := base()
		refuses("run_is_another").of(t, name, plan.Next(wants(plan.Release, r), &f))
		refuses("run_is_another").of(t, name, plan.Next(wants(plan.Remove, r), &f))
		record(func(r *runstate.Record) { r.Generation, r.Session, r.Epoch = "", "", 0 })(&f)
		does(plan.Write).of(t, name+" open", plan.Next(wants(plan.Release, r), &f))
	}
	// Session and epoch name a run, whatever its generation is called (contract 2.6); one of them alone does not.
	for name, c := range map[string]struct {
		run  plan.Run
		want expect
	}{
		"session and epoch": {plan.Run{Session: session, Epoch: 2}, does(plan.Write)},
		"session and epoch, the generation called otherwise": {plan.Run{Generation: "g2", Session: session, Epoch: 2}, does(plan.Write)},
		"session alone, the generation called otherwise":     {plan.Run{Generation: "g2", Session: session}, refuses("run_is_another")},
		"epoch alone, the generation called otherwise":       {plan.Run{Generation: "g2", Epoch: 2}, refuses("run_is_another")},
		"another session of the generation":                  {plan.Run{Generation: generation, Session: "s2", Epoch: 2}, refuses("run_is_another")},
		"another epoch of the generation":                    {plan.Run{Generation: generation, Session: session, Epoch: 3}, refuses("run_is_another")},
	} {
		for _, goal := range []plan.Goal{plan.Release, plan.Remove} {
			f := base()
			c.want.of(t, goal.String()+", "+name, plan.Next(wants(goal, c.run), &f))
		}
	}
	f := cleared()
	if step := plan.Next(wants(plan.Release, plan.Run{Generation: "g2", Session: session, Epoch: 2}), &f); step.Action != plan.Write || step.Record.Generation != "" {
		t.Errorf("a stop by another name of the generation ends with %+v", step)
	}
	f = suspended()
	if step := plan.Next(wants(plan.Release, plan.Run{Generation: "g2", Session: session, Epoch: 2}), &f); step.Action != plan.DeleteSecrets || step.Generation != generation {
		t.Errorf("a stop by another name of the generation deletes the Secrets of %+v", step)
	}
	f = cleared()
	if step := plan.Next(wants(plan.Release, plan.Run{}), &f); step.Record != (runstate.Record{Readiness: runstate.Unavailable, MainProcess: "{}"}) {
		t.Errorf("a stop leaves %+v", step.Record)
	}
}

func TestRemove(t *testing.T) {
	swept := attempt(func(a *plan.Attempt) { a.SecretsGone = true })
	each(t, wants(plan.Remove, run(2)), []goalCase{
		{"running", base, does(plan.Write)},
		{"releasing", releasing, does(plan.DeleteSupervisor)},
		{"at rest", atRest, does(plan.DeleteSecrets)},
		{"at rest, Secrets gone", from(atRest, swept), does(plan.DeleteService)},
		{"at rest, all gone", from(atRest, swept, noService), does(plan.Done)},
		{"Service going", from(atRest, swept, service(func(s *plan.Service) { s.Deleting = true })), does(plan.Done)},
		{"Service somebody else's", from(atRest, swept, service(func(s *plan.Service) { s.Ownership = plan.Theirs })), does(plan.Done)},
		{"Pod not owned", from(suspending, workloadPod(func(p *plan.Pod) { p.Ownership, p.UID = plan.Theirs, "x" })), does(plan.DeleteSecrets)},
		{"being deleted", going, does(plan.DeleteSupervisor)},
		{"being deleted, supervisor going", from(going, supervisorPod(func(p *plan.Pod) { p.Deleting = true })), does(plan.Await)},
		{"being deleted, workload there", from(going, noSupervisor), does(plan.Await)},
		{"being deleted, all but Service gone", from(going, noSupervisor, noWorkload, swept), does(plan.DeleteService)},
		{"gone", gone, does(plan.DeleteSupervisor)},
		{"gone, supervisor somebody else's", from(gone, supervisorPod(func(p *plan.Pod) { p.Ownership = plan.Theirs })), does(plan.Await)},
		{"gone, Pods gone", from(gone, noSupervisor, noWorkload), does(plan.DeleteSecrets)},
		{"gone, all gone", from(gone, noSupervisor, noWorkload, noService, swept), does(plan.Done)},
		{"replaced, Pods gone", from(base, replaced, noSupervisor, noWorkload), does(plan.DeleteService)},
		{"record unreadable, supervisor gone", from(base, unreadable, noSupervisor), does(plan.DeleteSecrets)},
		{"record unreadable, all gone", from(base, unreadable, noSupervisor, noService, swept), does(plan.Done)},
	})
	f := from(gone, noSupervisor, noService)()
	want := plan.Want{Goal: plan.Remove, Ref: plan.Ref{GatewayID: "gw", SandboxID: "id", Namespace: "team", Name: "box"}}
	does(plan.Await).of(t, "gone, no uid", plan.Next(want, &f))
}
