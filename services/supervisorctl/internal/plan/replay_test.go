package plan_test

import (
	"testing"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// TestReplayL09ReadyIsDerived from the live Pods at every look: a drain, which deletes them or takes their readiness, ends it, whatever was
// published before.
func TestReplayL09ReadyIsDerived(t *testing.T) {
	for name, c := range map[string]struct {
		facts  func() plan.Facts
		reason string
	}{
		"the supervisor is not ready":   {from(base, supervisorPod(unready)), ""},
		"the supervisor is evicted":     {from(base, supervisorPod(func(p *plan.Pod) { p.Deleting = true })), "run_broke"},
		"the supervisor is gone":        {from(base, noSupervisor), "run_broke"},
		"the workload is evicted":       {from(base, workloadPod(func(p *plan.Pod) { p.Deleting = true })), "run_broke"},
		"the workload is gone":          {from(base, noWorkload), "run_broke"},
		"the controller still says so":  {from(base, noWorkload, noSupervisor, object(func(o *sandboxapi.Object) { o.Conditions = []sandboxapi.Condition{isReady} })), "run_broke"},
		"both, and the fence is unread": {from(base, noWorkload, noSupervisor, unread()["workload fence"]), "run_broke"},
		"one, and the other unread":     {from(base, noSupervisor, unread()["workload Pod"]), "run_broke"},
	} {
		f := c.facts()
		step := hold(t, wants(plan.Keep, plan.Run{}), &f)
		if step.Action != plan.Write || step.Record.Readiness != runstate.Unavailable || string(step.Reason) != c.reason {
			t.Errorf("%s: %s %q, readiness %q", name, step.Action, step.Reason, step.Record.Readiness)
		}
	}
}

// TestReplayL10AnEndedWorkload stays to be seen, is not raised again by itself, and gives way to an explicit start, which is a new run.
func TestReplayL10AnEndedWorkload(t *testing.T) {
	ended := workloadPod(func(p *plan.Pod) { p.Ended, p.Ready, p.Detail = true, false, "code 1" })
	f := from(base, ended)()
	does(plan.Done).of(t, "the loop", plan.Next(wants(plan.Keep, plan.Run{}), &f))
	w := up(t, sandboxapi.V1beta1)
	former := w.workload.uid
	w.workload.ended = true
	w.keep()
	if w.workload == nil || w.workload.uid != former {
		w.fail("the loop raised it again, or hid it: %+v", w.workload)
	}
	if step := w.actor(plan.Restart, run(2)).ends(nobody); step.Action != plan.Done || w.workload.uid == former || w.record.Epoch != 2 {
		w.fail("an explicit start: %s %s, workload %+v", step.Action, step.Explanation, w.workload)
	}
	w.whole()
}

// TestReplayL15AnAttemptThatDied holds its run for as long as it could be at work, and no longer: another call takes over, and the loop does
// without one.
func TestReplayL15AnAttemptThatDied(t *testing.T) {
	theirs := record(func(r *runstate.Record) { r.Attempt = other })
	for _, s := range []stage{{"begun", begun}, {"resumed", resumed}, {"admitted", admitted}, {"noted", noted}} {
		f := from(s.facts, theirs)()
		refuses("run_is_taken").of(t, s.name+", it may be at work", plan.Next(wants(plan.Restart, run(2)), &f))
		f.Attempt.MayTake = true
		if step := hold(t, wants(plan.Restart, run(2)), &f); step.Action == plan.Refuse {
			t.Errorf("%s, it cannot be at work: %s", s.name, step.Explanation)
		}
		does(plan.Done).of(t, s.name+", the loop, young", plan.Next(wants(plan.Keep, plan.Run{}), &f))
		f.Idle = plan.IdleLimit
		stopsFor("run_broke").of(t, s.name+", the loop", plan.Next(wants(plan.Keep, plan.Run{}), &f))
		does(plan.Write).of(t, s.name+", a stop", plan.Next(wants(plan.Release, run(2)), &f))
	}
}

// TestReplayL16AStaleSuspendedCondition, of before the object was written to, neither completes a stop nor keeps a run from being ready.
func TestReplayL16AStaleSuspendedCondition(t *testing.T) {
	stale := sandboxapi.Condition{Type: sandboxapi.ConditionSuspended, Status: "True", Reason: "PodTerminated", ObservedGeneration: 1}
	later := object(func(o *sandboxapi.Object) { o.Generation = 2 })
	f := from(suspended, sandbox(sandboxapi.Suspended, stopping(runstate.Suspending), stale), later)()
	if step := hold(t, wants(plan.Release, run(2)), &f); step.Action != plan.Await || step.Subject != plan.SubjectSandbox {
		t.Errorf("a stop is complete by what was said before it: %+v", step)
	}
	now := isReady
	now.ObservedGeneration = 2
	f = from(completing, sandbox(sandboxapi.Running, releasedRecord(), stale, now), later)()
	if step := hold(t, wants(plan.Keep, plan.Run{}), &f); step.Action != plan.Write || step.Record.Readiness != runstate.Ready {
		t.Errorf("a run that is ready is not completed: %+v", step)
	}
	// Controllers of that version left the condition in its place on resume, with the present generation.
	still := isSuspended
	f = from(completing, sandbox(sandboxapi.Running, releasedRecord(), still, isReady))()
	if step := hold(t, wants(plan.Keep, plan.Run{}), &f); step.Action != plan.Write || step.Record.Readiness != runstate.Ready {
		t.Errorf("Ready does not win: %+v", step)
	}
}

// TestReplayL19AWayOutOfEveryState: a stop and a removal go on from wherever a run is, also when nobody else does, and come to their end.
func TestReplayL19AWayOutOfEveryState(t *testing.T) {
	for _, s := range stages() {
		for _, goal := range []plan.Goal{plan.Release, plan.Remove} {
			for name, run := range map[string]plan.Run{"this run": run(2), "any run": {}} {
				f := s.facts()
				step := hold(t, wants(goal, run), &f)
				if _, there := f.Sandbox.Value(); !there && goal == plan.Release {
					continue // there is nothing to stop
				}
				if step.Action == plan.Refuse {
					t.Errorf("%s of %s in stage %s: %s: %s", goal, name, s.name, step.Reason, step.Explanation)
				}
			}
		}
	}
	for name, begin := range goals() {
		for _, goal := range []plan.Goal{plan.Release, plan.Remove} {
			for n := 0; ; n++ {
				w, a := begin(t, sandboxapi.V1beta1)
				if !a.dies(n) {
					break
				}
				if step := w.actor(goal, plan.Run{}).ends(nobody); step.Action != plan.Done {
					w.fail("%s of a %s that died at write %d: %s: %s", goal, name, n, step.Reason, step.Explanation)
				}
				w.stopped()
			}
		}
	}
}

// TestReplayL21ASupervisorThatCannotReachItsGatewayYet is replaced in place until the run's time is over, and one start of it that fails is not
// the end.
func TestReplayL21ASupervisorThatCannotReachItsGatewayYet(t *testing.T) {
	crashing := supervisorPod(because("pod_crashed", "container supervisor ended with code 1: Error", false))
	again := supervisorPod(func(p *plan.Pod) { p.Restarted = true })
	f := from(released, crashing, again)()
	does(plan.Done).of(t, "while it may heal", plan.Next(wants(plan.Keep, plan.Run{}), &f))
	f = from(completing, again)()
	if step := hold(t, wants(plan.Keep, plan.Run{}), &f); step.Action != plan.Write || step.Record.Readiness != runstate.Ready {
		t.Errorf("it is ready at last: %+v", step)
	}
	f = from(released, crashing, again, late)()
	stopsFor("pod_crashed").of(t, "at the end of its time", plan.Next(wants(plan.Keep, plan.Run{}), &f))
}

// TestReplayL23NothingOfTheFormerRunIsUsed: a restart is begun, in the record, when the former run's Pods are gone, and not before.
func TestReplayL23NothingOfTheFormerRunIsUsed(t *testing.T) {
	for _, version := range versions() {
		w := up(t, version)
		former := [2]string{w.supervisor.uid, w.workload.uid}
		a := w.actor(plan.Restart, run(2))
		for range 200 {
			if a.over {
				break
			}
			a.act(nobody)
			if r := w.record; r.Epoch == 2 && r.Operation == runstate.Restart {
				for _, p := range []*pod{w.supervisor, w.workload} {
					if p != nil && (p.uid == former[0] || p.uid == former[1]) {
						w.fail("the run is begun with the former one's Pod %s", p.uid)
					}
				}
			}
			w.controller()
		}
		for len(a.queue) > 0 {
			a.act(nobody)
		}
		for w.controller() {
		}
		if a.last.Action != plan.Done {
			w.fail("%s: %s", a.last.Reason, a.last.Explanation)
		}
		w.whole()
	}
}

// TestReplayL26ANodeThatIsReplaced takes its Pods with it: the run is reported broken and ended, and the next start makes new ones.
func TestReplayL26ANodeThatIsReplaced(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"supervisor": func(w *world) { w.supervisor = nil },
		"workload":   func(w *world) { w.workload.deleting = true },
		"both":       func(w *world) { w.supervisor, w.workload.deleting = nil, true },
	} {
		w := up(t, sandboxapi.V1beta1)
		w.changing(func() { lose(w) })
		w.keep()
		w.stopped()
		if w.record.StopReason != "run_broke" || w.record.StopExplanation == "" {
			w.fail("%s: the record says %q", name, w.record.StopExplanation)
		}
		if step := w.actor(plan.Restart, run(2)).ends(nobody); step.Action != plan.Done {
			w.fail("%s: %s", name, step.Explanation)
		}
		w.whole()
	}
}

// TestReplayP01TheFenceComesFirst, and is seen standing: nothing makes the Sandbox run, makes Secrets or lifts a gate before.
func TestReplayP01TheFenceComesFirst(t *testing.T) {
	for name, broken := range map[string]change{
		"no fence": noFence, "no egress policy": noEgress, "fence not read": unread()["workload fence"], "egress policy not read": unread()["egress policy"],
		"fence altered": fence(func(p *plan.Policy) { p.Standing = plan.Altered }), "fence foreign": fence(func(p *plan.Policy) { p.Standing = plan.Foreign }),
		"egress policy altered": egress(func(p *plan.Policy) { p.Standing = plan.Altered }),
	} {
		for _, s := range []stage{{"begun", begun}, {"resumed", resumed}, {"admitted", admitted}, {"noted", noted}, {"made", made}, {"lifted", lifted}} {
			f := from(s.facts, broken)()
			switch step := hold(t, wants(plan.Restart, run(2)), &f); step.Action {
			case plan.Refuse, plan.CreateWorkloadFence, plan.CreateSupervisorFence:
			default:
				t.Errorf("%s, %s: %s", s.name, name, step.Action)
			}
		}
	}
	// Death between any two writes: what may run then runs behind the fence. The model fails a lift of a gate without it.
	for n := 0; ; n++ {
		w := newWorld(t, sandboxapi.V1beta1)
		a := w.actor(plan.Provision, run(1))
		died := a.dies(n)
		for _, p := range []*pod{w.supervisor, w.workload} {
			if p != nil && !p.gated && (w.fence == nil || w.egress == nil) {
				w.fail("Pod %s may run without a fence after write %d", p.uid, n)
			}
		}
		if !died {
			break
		}
	}
}
