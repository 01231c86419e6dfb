package plan_test

import (
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// TestKeep has the rows of contract 7.13, with the faults of 14.2 corrected.
func TestKeep(t *testing.T) {
	fence2 := fence(func(p *plan.Policy) { p.Generation++ })
	each(t, wants(plan.Keep, plan.Run{}), []goalCase{
		{"a stop under way", releasing, does(plan.DeleteSupervisor)},
		{"a stop further on", suspended, does(plan.DeleteSecrets)},
		{"a start under way", made, does(plan.Done)},
		{"a start under way, almost idle", from(made, func(f *plan.Facts) { f.Idle = plan.IdleLimit - 1 }), does(plan.Done)},
		{"a start before its Secrets, abandoned", from(made, idle, takenOver), stopsFor("run_broke")},
		{"a start before anything, abandoned", from(fresh, idle), stopsFor("run_broke")},
		{"a start after its supervisor, abandoned", from(lifted, idle, takenOver), does(plan.UngateWorkload)},
		{"a start after its gates, abandoned", from(open, idle, takenOver), does(plan.Write)},
		{"a start after its supervisor, fence changed", from(lifted, idle, takenOver, fence2), stopsFor("fence_altered")},
		{"a start after its supervisor, not acknowledged any more", from(lifted, idle, takenOver, func(f *plan.Facts) { f.Acknowledged = false }), stopsFor("fence_not_acknowledged")},
		{"a start after its supervisor, workload replaced", from(lifted, idle, takenOver, workloadPod(func(p *plan.Pod) { p.UID = "new" })), stopsFor("run_broke")},
		{"a start after its supervisor, fence gone", from(lifted, idle, takenOver, noFence), stopsFor("run_broke")},
		{"released, young", released, does(plan.Done)},
		{"released, at its limit", from(released, func(f *plan.Facts) { f.Now = start.Add(plan.ReadyLimit) }), does(plan.Done)},
		{"released, too old", from(released, late), stopsFor("run_not_ready")},
		{"released, too old by the record's clock, just seen", from(released, late, func(f *plan.Facts) { f.Idle = 0 }), does(plan.Done)},
		{"released, too old by the record's clock, not seen for long", from(released, late, func(f *plan.Facts) { f.Idle = plan.WatchLimit - 1 }), does(plan.Done)},
		{"released, too old by the record's clock, and not by our own", from(released, late, func(f *plan.Facts) { f.Witnessed = true }), does(plan.Done)},
		{"released, at our own clock's limit", from(released, func(f *plan.Facts) { f.Idle, f.Witnessed = plan.ReadyLimit, true }), does(plan.Done)},
		{"released, too old by our own clock", from(released, func(f *plan.Facts) { f.Idle, f.Witnessed = plan.ReadyLimit+1, true }), stopsFor("run_not_ready")},
		{"released, without a start", from(released, late, record(func(r *runstate.Record) { r.StartedAt = 0 })), stopsFor("run_not_ready")},
		{"released, without a start, just seen", from(released, record(func(r *runstate.Record) { r.StartedAt = 0 })), does(plan.Done)},
		{"released in another's future, unchanged for long", from(released, func(f *plan.Facts) { f.Now, f.Idle = start.Add(-time.Hour), plan.ReadyLimit+1 }), stopsFor("run_not_ready")},
		{"released, ready", completing, does(plan.Write)},
		{"released, ready, late", from(completing, func(f *plan.Facts) { f.Now = start.Add(time.Hour) }), does(plan.Write)},
		{"released, supervisor ready, Sandbox not", from(completing, object(func(o *sandboxapi.Object) { o.Conditions = nil })), does(plan.Done)},
		{"released, Sandbox ready in a former generation", from(completing, object(func(o *sandboxapi.Object) { o.Generation = 2 })), does(plan.Done)},
		{"released, Sandbox ready, supervisor not", from(completing, supervisorPod(unready)), does(plan.Done)},
		{"released, ready, suspended by somebody", from(completing, object(func(o *sandboxapi.Object) { o.Mode = sandboxapi.Suspended })), stopsFor("run_broke")},
		{"released, suspended by somebody, workload gone", from(released, object(func(o *sandboxapi.Object) { o.Mode = sandboxapi.Suspended }), noWorkload), stopsFor("run_broke")},
		{"released, supervisor restarted", from(released, supervisorPod(func(p *plan.Pod) { p.Restarted = true })), does(plan.Done)},
		{"released, workload ended", from(released, workloadPod(func(p *plan.Pod) { p.Ended = true })), stopsFor("run_broke")},
		{"released, fence changed", from(released, fence2), stopsFor("fence_altered")},
		{"released and ready, fence changed", from(completing, fence2), stopsFor("fence_altered")},
		{"running", base, does(plan.Done)},
		{"running, restarted before it was ready", from(base, supervisorPod(func(p *plan.Pod) { p.Restarted = true })), does(plan.Done)},
		{"running, supervisor restarted", from(base, supervisorPod(func(p *plan.Pod) { p.Restarted, p.Ready = true, false })), stopsFor("run_broke")},
		{"running, workload ended", from(base, workloadPod(func(p *plan.Pod) { p.Ended = true })), does(plan.Done)},
		{"running, supervisor degraded", from(base, supervisorPod(unready)), does(plan.Write)},
		{"running, supervisor still degraded", from(base, supervisorPod(unready), record(func(r *runstate.Record) { r.Readiness = runstate.Unavailable })), does(plan.Done)},
		{"running, supervisor ready again", from(base, record(func(r *runstate.Record) { r.Readiness = runstate.Unavailable })), does(plan.Write)},
		{"running, not raised by us", from(base, record(func(r *runstate.Record) { *r = runstate.Record{} }), noFence), does(plan.Done)},
		{"running, raised by a stock driver", from(base, record(func(r *runstate.Record) { r.Epoch, r.Session = 0, "" })), does(plan.Done)},
		{"suspended by somebody", from(base, object(func(o *sandboxapi.Object) { o.Mode = sandboxapi.Suspended })), stopsFor("run_broke")},
		{"at rest", atRest, does(plan.Done)},
		{"at rest, not reported as suspended", from(atRest, object(func(o *sandboxapi.Object) { o.Generation++ })), does(plan.Done)},
		{"at rest, fence changed", from(atRest, fence2), does(plan.Done)},
		{"at rest, fence gone", from(atRest, noFence, noEgress, noService), does(plan.Done)},
		{"at rest, v1alpha1", from(atRest, alpha), does(plan.Done)},
		{"at rest, after a stock driver's stop", from(atRest, sandbox(sandboxapi.Suspended, runstate.Record{Readiness: runstate.Unavailable})), does(plan.Done)},
		{"at rest, a supervisor left", from(atRest, func(f *plan.Facts) { f.Supervisor = base().Supervisor }), does(plan.Write)},
		{"being deleted", going, does(plan.DeleteSupervisor)},
		{"being deleted, Pods gone", from(going, noSupervisor, noWorkload), does(plan.DeleteService)},
		{"being deleted, all gone", from(going, noSupervisor, noWorkload, noService), does(plan.Done)},
		{"gone", gone, does(plan.DeleteSupervisor)},
		{"gone, supervisor somebody else's", from(gone, supervisorPod(func(p *plan.Pod) { p.Ownership = plan.Theirs }), noWorkload), does(plan.DeleteService)},
		{"gone, all gone", from(gone, noSupervisor, noWorkload, noService), does(plan.Done)},
		{"another one's Pods and Service", from(gone, func(f *plan.Facts) {
			f.Supervisor, f.Workload, f.Service = plan.Found(plan.Pod{UID: "x"}), plan.Found(plan.Pod{UID: "y"}), plan.Found(plan.Service{UID: "z"})
		}), does(plan.Done)},
	})
}

// TestAvailability holds the table of availability for each part of a run, and its order: Unavailable, Degraded, Unknown, Available.
func TestAvailability(t *testing.T) {
	lost := []struct {
		part, name string
		do         change
	}{
		{"workload fence", "missing", noFence},
		{"workload fence", "altered", fence(func(p *plan.Policy) { p.Standing = plan.Altered })},
		{"workload fence", "foreign", fence(func(p *plan.Policy) { p.Standing = plan.Foreign })},
		{"workload fence", "made anew", fence(func(p *plan.Policy) { p.UID = "new" })},
		{"workload fence", "changed", fence(func(p *plan.Policy) { p.Generation++ })},
		{"egress policy", "missing", noEgress},
		{"egress policy", "altered", egress(func(p *plan.Policy) { p.Standing = plan.Altered })},
		{"Service", "missing", noService},
		{"Service", "going", service(func(s *plan.Service) { s.Deleting = true })},
		{"Service", "altered", service(func(s *plan.Service) { s.Ownership = plan.OfAnotherRun })},
		{"Service", "foreign", service(func(s *plan.Service) { s.Ownership = plan.Theirs })},
		{"supervisor Pod", "missing", noSupervisor},
		{"supervisor Pod", "going", supervisorPod(func(p *plan.Pod) { p.Deleting = true })},
		{"supervisor Pod", "ended", supervisorPod(func(p *plan.Pod) { p.Ended, p.Ready = true, false })},
		{"supervisor Pod", "made anew", supervisorPod(func(p *plan.Pod) { p.UID = "new" })},
		{"supervisor Pod", "gated", supervisorPod(gated)},
		{"supervisor Pod", "robbed of its labels", supervisorPod(func(p *plan.Pod) { p.Ownership = plan.Theirs })},
		{"supervisor Pod", "not recorded", record(func(r *runstate.Record) { r.SupervisorUID = "" })},
		{"workload Pod", "missing", noWorkload},
		{"workload Pod", "going", workloadPod(func(p *plan.Pod) { p.Deleting = true })},
		{"workload Pod", "made anew", workloadPod(func(p *plan.Pod) { p.UID = "new" })},
		{"workload Pod", "gated", workloadPod(gated)},
		{"workload Pod", "robbed of its owner", workloadPod(func(p *plan.Pod) { p.Ownership = plan.Theirs })},
		{"workload Pod", "not recorded", record(func(r *runstate.Record) { r.WorkloadUID = "" })},
	}
	for stage, facts := range map[string]func() plan.Facts{"running": base, "released and ready": completing} {
		for _, readiness := range []runstate.Readiness{runstate.Ready, runstate.Unavailable, ""} {
			name, published := stage+", "+string(readiness), record(func(r *runstate.Record) { r.Readiness = readiness })
			for _, l := range lost {
				unavailable(t, name+": "+l.part+" "+l.name, from(facts, published, l.do))
				for part, do := range unread() {
					if part != "Sandbox" && part != l.part && part != l.part+"." {
						unavailable(t, name+": "+l.part+" "+l.name+", unread "+part, from(facts, published, do, l.do))
					}
				}
			}
			for part, do := range unread() {
				unknown(t, name+": unread "+part, from(facts, published, do))
			}
		}
	}
	for part, do := range unread() {
		if part == "Sandbox" || part == "supervisor Pod" || part == "supervisor Pod." {
			continue
		}
		f := from(base, do, supervisorPod(unready))()
		if step := plan.Next(wants(plan.Keep, plan.Run{}), &f); step.Action != plan.Write || step.Record.Readiness != runstate.Unavailable || step.Record.Phase != "" {
			t.Errorf("degraded, unread %s: %s %+v", part, step.Action, step.Record)
		}
	}
}

// unavailable wants the run to be stopped, and its readiness withdrawn.
func unavailable(t *testing.T, name string, facts func() plan.Facts) {
	t.Helper()
	f := facts()
	step := plan.Next(wants(plan.Keep, plan.Run{}), &f)
	if r := step.Record; step.Action != plan.Write || step.Reason == "" || r.Phase != runstate.Releasing || r.Readiness != runstate.Unavailable || r.Generation != generation {
		t.Errorf("%s: %s %s %+v", name, step.Action, step.Reason, r)
	}
}

// unknown wants nothing to be done, so that what was published last stays.
func unknown(t *testing.T, name string, facts func() plan.Facts) {
	t.Helper()
	f := facts()
	refuses("run_object_unreadable").of(t, name, plan.Next(wants(plan.Keep, plan.Run{}), &f))
}

// TestUnreadIsNotAbsent: what could not be read, in every stage and for every goal, leads to a refusal that may be repeated or to
// the very step that its being well would lead to.
func TestUnreadIsNotAbsent(t *testing.T) {
	refused := 0
	for _, s := range stages() {
		for _, goal := range []plan.Goal{plan.Provision, plan.Restart, plan.Release, plan.Remove, plan.Keep} {
			for _, late := range []bool{false, true} {
				for part, do := range unread() {
					seen, blind := s.facts(), s.facts()
					if late {
						idle(&seen)
						idle(&blind)
					}
					do(&blind)
					with, without := plan.Next(wants(goal, run(2)), &seen), plan.Next(wants(goal, run(2)), &blind)
					switch {
					case without.Reason == plan.ObjectUnreadable && !without.Undo && without.Action == plan.Refuse:
						refused++
					case part == "Sandbox" || without != with:
						t.Errorf("%s, goal %d, unread %s: %s %s %q; seen: %s", s.name, goal, part, without.Action, without.Reason, without.Explanation, with.Action)
					}
				}
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d refusals", refused)
	}
}

// TestNothingIsRefused: zero values lead to no step.
func TestNothingIsRefused(t *testing.T) {
	for goal := plan.Goal(0); goal < 8; goal++ {
		for name, f := range map[string]*plan.Facts{"nil": nil, "zero": {}, "a zero Sandbox": {Sandbox: plan.Found(sandboxapi.Object{})}} {
			for _, want := range []plan.Want{{Goal: goal}, wants(goal, run(2))} {
				if step := plan.Next(want, f); step.Action != plan.Refuse || step.Reason == "" || step.Explanation == "" || !step.Ends() {
					t.Errorf("goal %d, %s: %s", goal, name, step.Action)
				}
			}
		}
	}
	f := base()
	if step := plan.Next(wants(0, run(2)), &f); step.Action != plan.Refuse {
		t.Errorf("no goal: %s", step.Action)
	}
}

// TestNothingIsDoneWithoutAUID: an object that was read without its uid is not deleted or released without one.
func TestNothingIsDoneWithoutAUID(t *testing.T) {
	nameless := func(p *plan.Pod) { p.UID = "" }
	for name, c := range map[string]struct {
		goal  plan.Goal
		facts func() plan.Facts
	}{
		"supervisor to delete":  {plan.Release, from(releasing, supervisorPod(nameless))},
		"Service to delete":     {plan.Remove, from(atRest, attempt(func(a *plan.Attempt) { a.SecretsGone = true }), service(func(s *plan.Service) { s.UID = "" }))},
		"supervisor to raise":   {plan.Restart, from(made, supervisorPod(nameless), record(func(r *runstate.Record) { r.SupervisorUID = "" }))},
		"workload to raise":     {plan.Restart, from(made, workloadPod(nameless), record(func(r *runstate.Record) { r.WorkloadUID = "" }))},
		"both, no Secrets made": {plan.Restart, from(noted, supervisorPod(nameless), workloadPod(nameless), record(func(r *runstate.Record) { r.WorkloadUID, r.SupervisorUID = "", "" }))},
		"supervisor to replace": {plan.Restart, from(begun, supervisorPod(nameless), supervisorPod(func(p *plan.Pod) { p.Ownership = plan.OfAnotherRun }))},
	} {
		f := c.facts()
		refuses("run_object_unreadable").of(t, name, plan.Next(wants(c.goal, run(2)), &f))
	}
}

func TestNames(t *testing.T) {
	for a := plan.Refuse; a <= plan.DeleteSecrets; a++ {
		if a.String() == "unknown" || a.String() == "" {
			t.Errorf("action %d has no name", a)
		}
	}
	if got := (plan.DeleteSecrets + 1).String(); got != "unknown" {
		t.Errorf("%q", got)
	}
	names := map[string]bool{}
	for s := plan.Subject(0); s <= plan.SubjectWorkload+1; s++ {
		names[s.String()] = true
	}
	if len(names) != 4 {
		t.Errorf("%v", names)
	}
	want := wants(plan.Restart, run(2))
	released := wants(plan.Release, run(2))
	released.Attempt = "a"
	if got := want.Undone(plan.Step{}, "a"); got != released {
		t.Errorf("%+v", got)
	}
}
