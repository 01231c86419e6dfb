package plan_test

import (
	"testing"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// breach makes a run that is being raised one that cannot go on, or that needs something first.
type breach struct {
	name string
	do   change
	want expect
	// gated is the answer while the supervisor's gate is on, where it is another.
	gated *expect
}

func also(e expect) *expect { return &e }

// breaches are in the order in which a raise looks; each is what a run in the stage lifted is broken by.
func breaches() []breach {
	return []breach{
		{"another attempt", record(func(r *runstate.Record) { r.Attempt = other }), refuses("run_is_taken"), nil},
		{"not acknowledged", func(f *plan.Facts) { f.Acknowledged = false }, undoes("fence_not_acknowledged"), nil},
		{"fence gone", noFence, undoes("run_broke"), also(does(plan.CreateWorkloadFence))},
		{"fence altered", fence(func(p *plan.Policy) { p.Standing = plan.Altered }), undoes("fence_altered"), nil},
		{"egress policy foreign", egress(func(p *plan.Policy) { p.Standing = plan.Foreign }), undoes("companion_collision"), nil},
		{"Service gone", noService, undoes("run_broke"), also(does(plan.CreateService))},
		{"Service foreign", service(func(s *plan.Service) { s.Ownership = plan.Theirs }), undoes("companion_collision"), nil},
		{"supervisor foreign", supervisorPod(func(p *plan.Pod) { p.Ownership = plan.Theirs }), undoes("companion_collision"), nil},
		{"supervisor ended", supervisorPod(func(p *plan.Pod) { p.Ended = true }), undoes("run_broke"), nil},
		{"suspended by somebody", object(func(o *sandboxapi.Object) { o.Mode = sandboxapi.Suspended }), undoes("run_broke"), also(does(plan.Resume))},
		{"workload gone", noWorkload, undoes("run_broke"), also(does(plan.Await))},
		{"workload altered", workloadPod(func(p *plan.Pod) { p.Altered = "hostPID" }), undoes("workload_altered"), nil},
		{"workload replaced", workloadPod(func(p *plan.Pod) { p.UID = "new" }), undoes("run_broke"), also(does(plan.Write))},
		{"fence replaced", fence(func(p *plan.Policy) { p.UID = "new" }), undoes("fence_altered"), also(does(plan.Write))},
	}
}

func TestEachBreachOfARaise(t *testing.T) {
	for _, b := range breaches() {
		for name, from := range map[string]func() plan.Facts{"lifted": lifted, "made": made} {
			f, want := from(), b.want
			if name == "made" && b.gated != nil {
				want = *b.gated
			}
			b.do(&f)
			want.of(t, name+", "+b.name, plan.Next(wants(plan.Restart, run(2)), &f))
		}
	}
}

// TestTheEarlierBreachAnswers fails when the parts of a raise change places.
func TestTheEarlierBreachAnswers(t *testing.T) {
	all := breaches()
	for i, first := range all {
		for _, second := range all[i+1:] {
			for name, from := range map[string]func() plan.Facts{"lifted": lifted, "made": made} {
				if name == "made" && first.name == "fence gone" && second.name == "egress policy foreign" {
					continue // nothing is made beside a policy that is known to be wrong
				}
				alone, both := from(), from()
				first.do(&alone)
				second.do(&both)
				first.do(&both)
				want, got := plan.Next(wants(plan.Restart, run(2)), &alone), plan.Next(wants(plan.Restart, run(2)), &both)
				want.Record, got.Record = runstate.Record{}, runstate.Record{}
				if got != want {
					t.Errorf("%s: %s and %s: %s %s %q, want %s %s", name, first.name, second.name, got.Action, got.Reason, got.Explanation, want.Action, want.Reason)
				}
			}
		}
	}
}

// TestRaising has one case for each thing that a raise can find in each of its stages.
func TestRaising(t *testing.T) {
	create := record(func(r *runstate.Record) { r.Operation = runstate.Create })
	for _, c := range []struct {
		name  string
		facts func() plan.Facts
		want  expect
	}{
		{"nothing", fresh, does(plan.CreateWorkloadFence)},
		{"egress policy missing", from(begun, noEgress), does(plan.CreateSupervisorFence)},
		{"Service missing", from(begun, noService), does(plan.CreateService)},
		{"Service being deleted", from(begun, service(func(s *plan.Service) { s.Deleting = true })), undoes("run_broke")},
		{"Service of another run", from(begun, service(func(s *plan.Service) { s.Ownership = plan.OfAnotherRun })), does(plan.DeleteService)},
		{"Service that this attempt made, not as asked for", from(begun, service(func(s *plan.Service) { s.Ownership = plan.OfAnotherRun }),
			attempt(func(a *plan.Attempt) { a.Service = "service" })), undoes("companion_altered")},
		{"Service of another run, after the release", from(lifted, service(func(s *plan.Service) { s.Ownership = plan.OfAnotherRun })), undoes("run_broke")},
		{"Service without an address", from(begun, service(func(s *plan.Service) { s.ClusterIP = "" })), undoes("service_without_address")},
		{"no supervisor", from(begun, noSupervisor), does(plan.CreateSupervisor)},
		{"no supervisor, workload gated", from(noted, noSupervisor), does(plan.CreateSupervisor)},
		{"no supervisor, workload open", from(open, noSupervisor), undoes("run_broke")},
		{"no supervisor, workload somebody else's", from(open, noSupervisor, workloadPod(func(p *plan.Pod) { p.Ownership = plan.Theirs })), does(plan.CreateSupervisor)},
		{"supervisor going, gated", from(made, supervisorPod(func(p *plan.Pod) { p.Deleting = true })), does(plan.Await)},
		{"supervisor going, open", from(lifted, supervisorPod(func(p *plan.Pod) { p.Deleting = true })), undoes("run_broke")},
		{"supervisor of another run", from(begun, supervisorPod(func(p *plan.Pod) { p.Ownership = plan.OfAnotherRun })), does(plan.DeleteSupervisor)},
		{"supervisor that this attempt made, not as asked for", from(begun, supervisorPod(func(p *plan.Pod) { p.Ownership = plan.OfAnotherRun }),
			attempt(func(a *plan.Attempt) { a.Supervisor = "supervisor" })), undoes("companion_altered")},
		{"supervisor of another run, open", from(begun, supervisorPod(func(p *plan.Pod) { p.Ownership, p.Gated = plan.OfAnotherRun, false })), does(plan.DeleteSupervisor)},
		{"supervisor changed after its release", from(lifted, supervisorPod(func(p *plan.Pod) { p.Ownership = plan.OfAnotherRun })), undoes("run_broke")},
		{"supervisor's gate lifted, not recorded", from(admitted, supervisorPod(func(p *plan.Pod) { p.Gated = false })), undoes("gate_lifted")},
		{"supervisor's gate lifted, Secrets not made", from(noted, supervisorPod(func(p *plan.Pod) { p.Gated = false })), undoes("gate_lifted")},
		{"supervisor's gate lifted, Secrets made for others", from(lifted, attempt(func(a *plan.Attempt) { a.MadeFor.Workload = "old" })), undoes("gate_lifted")},
		{"supervisor's gate lifted by the former attempt", from(lifted, takenOver), does(plan.UngateWorkload)},
		{"ready to run", begun, does(plan.Resume)},
		{"no workload yet", resumed, does(plan.Await)},
		{"workload going", from(noted, workloadPod(func(p *plan.Pod) { p.Deleting = true })), does(plan.Await)},
		{"workload overdue", from(resumed, attempt(func(a *plan.Attempt) { a.WorkloadOverdue = true })), undoes("workload_missing")},
		{"workload refused", from(resumed, attempt(func(a *plan.Attempt) { a.WorkloadOverdue, a.Refusal = true, "quota" })), undoes("workload_refused")},
		{"workload foreign", from(admitted, workloadPod(func(p *plan.Pod) { p.Ownership = plan.Theirs })), undoes("companion_collision")},
		{"workload foreign and going", from(admitted, workloadPod(func(p *plan.Pod) { p.Ownership, p.Deleting = plan.Theirs, true })), undoes("companion_collision")},
		{"workload of another run", from(admitted, workloadPod(func(p *plan.Pod) { p.Ownership = plan.OfAnotherRun })), undoes("workload_altered")},
		{"workload altered", from(admitted, workloadPod(func(p *plan.Pod) { p.Altered = "hostPID" })), undoes("workload_altered")},
		{"workload's gate lifted", from(made, workloadPod(func(p *plan.Pod) { p.Gated = false })), undoes("gate_lifted")},
		{"workload ended", from(open, workloadPod(func(p *plan.Pod) { p.Ended = true })), undoes("run_broke")},
		{"workload seen", admitted, does(plan.Write)},
		{"fence changed before Secrets", from(noted, fence(func(p *plan.Policy) { p.Generation++ })), does(plan.Write)},
		{"fence changed after the release", from(lifted, fence(func(p *plan.Policy) { p.Generation++ })), undoes("fence_altered")},
		{"recorded", noted, does(plan.MakeSecrets)},
		{"Secrets for another workload", from(made, attempt(func(a *plan.Attempt) { a.MadeFor.Workload = "old" })), does(plan.MakeSecrets)},
		{"Secrets for another supervisor", from(made, attempt(func(a *plan.Attempt) { a.MadeFor.Supervisor = "old" })), does(plan.MakeSecrets)},
		{"Secrets for another address", from(made, attempt(func(a *plan.Attempt) { a.MadeFor.Address = "10.0.0.9" })), does(plan.MakeSecrets)},
		{"Secrets for another fence", from(made, attempt(func(a *plan.Attempt) { a.MadeFor.Fence = "old" })), does(plan.MakeSecrets)},
		{"Secrets for a fence before it changed", from(made, attempt(func(a *plan.Attempt) { a.MadeFor.FenceGeneration = 2 })), does(plan.MakeSecrets)},
		{"Secrets made", made, does(plan.UngateSupervisor)},
		{"supervisor open", lifted, does(plan.UngateWorkload)},
		{"both open", open, does(plan.Write)},
		{"taken over, gated", from(made, takenOver), does(plan.DeleteSupervisor)},
		{"name lost from the record", from(made, record(func(r *runstate.Record) { r.Attempt = "" })), does(plan.DeleteSupervisor)},
		{"taken over before its supervisor was recorded", from(begun, takenOver), does(plan.Resume)},
	} {
		f := c.facts()
		c.want.of(t, "restart, "+c.name, plan.Next(wants(plan.Restart, run(2)), &f))
		// Session and epoch tell runs apart: the same call may name the generation otherwise (contract 2.6).
		renamed := run(2)
		renamed.Generation = "another"
		c.want.of(t, "restart under another generation's name, "+c.name, plan.Next(wants(plan.Restart, renamed), &f))
		create(&f)
		c.want.of(t, "provision, "+c.name, plan.Next(wants(plan.Provision, run(2)), &f))
	}
}

// takenOver is the record of another attempt, at which nobody is any more.
func takenOver(f *plan.Facts) {
	record(func(r *runstate.Record) { r.Attempt = other })(f)
	attempt(func(a *plan.Attempt) { a.MayTake, a.MadeFor = true, plan.Bound{} })(f)
}

// TestWhatARaiseWrites looks at the records and the marks of a raise's writes.
func TestWhatARaiseWrites(t *testing.T) {
	for _, c := range []struct {
		name   string
		facts  func() plan.Facts
		record func() runstate.Record
		afresh bool
		uid    string
	}{
		{"begin", atRest, func() runstate.Record { r := preparing(); r.StartedAt += 60000; return r }, true, ""},
		{"resume", begun, resumedRecord, false, ""},
		{"resume, taken over", from(begun, takenOver), resumedRecord, true, ""},
		{"resume, recorded before", from(begun, record(func(r *runstate.Record) { r.WorkloadUID = "old" })), resumedRecord, false, ""},
		{"note", admitted, recorded, false, ""},
		{"note, taken over", from(admitted, takenOver, supervisorPod(func(p *plan.Pod) { p.UID = "new" })), func() runstate.Record { r := recorded(); r.SupervisorUID = "new"; return r }, true, ""},
		{"release", open, releasedRecord, false, ""},
		{"Secrets of a restart", noted, none, true, ""},
		{"Secrets of a create", from(noted, record(func(r *runstate.Record) { r.Operation = runstate.Create })), none, false, ""},
		{"Secrets of a create, begun before", from(noted, record(func(r *runstate.Record) { r.Operation = runstate.Create }), attempt(func(a *plan.Attempt) { a.Afresh = true })), none, true, ""},
		{"Secrets of a create, made before", from(noted, record(func(r *runstate.Record) { r.Operation = runstate.Create }), attempt(func(a *plan.Attempt) { a.MadeFor.Workload = "old" })), none, true, ""},
		{"supervisor's gate", made, none, false, "supervisor"},
		{"workload's gate", lifted, none, false, "workload"},
		{"supervisor of the former", from(made, takenOver), none, false, "supervisor"},
	} {
		f := c.facts()
		goal := plan.Restart
		if o, _ := f.Sandbox.Value(); o.Annotations["openshell.ai/sandbox-runtime-bootstrap-operation"] == "create" {
			goal = plan.Provision
		}
		step := plan.Next(wants(goal, run(2)), &f)
		if step.Record != c.record() || step.Afresh != c.afresh || step.UID != c.uid {
			t.Errorf("%s: %s %q afresh %t, uid %q, record %+v, want %+v", c.name, step.Action, step.Explanation, step.Afresh, step.UID, step.Record, c.record())
		}
		if step.Action == plan.MakeSecrets && step.For != bound {
			t.Errorf("%s: Secrets for %+v", c.name, step.For)
		}
		if (step.Action == plan.MakeSecrets || step.Action == plan.Begin) && step.Generation != generation {
			t.Errorf("%s: Secrets of generation %q", c.name, step.Generation)
		}
	}
}

func none() runstate.Record { return runstate.Record{} }
