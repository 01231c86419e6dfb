package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

func versions() []sandboxapi.Version { return sandboxapi.Versions() }

// up raises the run of epoch 1, and lets it become ready.
func up(t *testing.T, version sandboxapi.Version) *world {
	t.Helper()
	w := newWorld(t, version)
	if step := w.actor(plan.Provision, run(1)).ends(nobody); step.Action != plan.Done {
		w.fail("provision ends with %s: %s", step.Reason, step.Explanation)
	}
	w.keep()
	if w.record.Readiness != runstate.Ready || w.record.Phase != "" {
		w.fail("the run does not become ready: %+v", w.record)
	}
	return w
}

// down is up, stopped.
func down(t *testing.T, version sandboxapi.Version) *world {
	t.Helper()
	w := up(t, version)
	if step := w.actor(plan.Release, run(1)).ends(nobody); step.Action != plan.Done {
		w.fail("release ends with %s: %s", step.Reason, step.Explanation)
	}
	w.stopped()
	return w
}

// keep lets the reconcile loop look until it has nothing to do.
func (w *world) keep() {
	w.t.Helper()
	for range 20 {
		a := w.actor(plan.Keep, plan.Run{})
		a.idle = true
		before := w.writes
		if step := a.ends(nobody); step.Action == plan.Refuse {
			w.fail("the reconcile loop is refused: %s: %s", step.Reason, step.Explanation)
		}
		if w.writes == before {
			return
		}
	}
	w.fail("the reconcile loop never settles")
}

// stopped holds that a stop was complete.
func (w *world) stopped() {
	w.t.Helper()
	record := w.record
	record.StopReason, record.StopExplanation = "", ""
	if w.supervisor != nil || w.workload != nil || ours(w.sandboxSecret) || ours(w.supervisorSecret) || w.mode != sandboxapi.Suspended ||
		record != (runstate.Record{Readiness: runstate.Unavailable, MainProcess: "{}"}) {
		w.fail("a stop left supervisor %+v, workload %+v, Secrets %+v %+v, mode %s, record %+v",
			w.supervisor, w.workload, w.sandboxSecret, w.supervisorSecret, w.mode, w.record)
	}
}

// whole holds that a run stands, with Secrets of one attempt in both Pods.
func (w *world) whole() {
	w.t.Helper()
	s, p := w.supervisor, w.workload
	if s == nil || p == nil || s.gated || p.gated || s.read == nil || p.read == nil || *s.read != *p.read || w.record.SupervisorUID != s.uid || w.record.WorkloadUID != p.uid {
		w.fail("the run is not whole: supervisor %+v, workload %+v, record %+v", s, p, w.record)
	}
}

func TestProvisionGoesInTheContractsOrder(t *testing.T) {
	for _, version := range versions() {
		w := newWorld(t, version)
		a := w.actor(plan.Provision, run(1))
		if step := a.ends(nobody); step.Action != plan.Done {
			w.fail("%s %s", step.Reason, step.Explanation)
		}
		want := []plan.Action{
			plan.CreateWorkloadFence, plan.CreateSupervisorFence, plan.CreateService, plan.CreateSupervisor, plan.Resume,
			plan.Write, plan.MakeSecrets, plan.UngateSupervisor, plan.UngateWorkload, plan.Write, plan.Done,
		}
		if diff := cmp.Diff(want, a.executed); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
		w.whole()
	}
}

func TestReleaseGoesInTheContractsOrder(t *testing.T) {
	w := up(t, sandboxapi.V1beta1)
	a := w.actor(plan.Release, run(1))
	a.ends(nobody)
	want := []plan.Action{plan.Write, plan.DeleteSupervisor, plan.Suspend, plan.DeleteSecrets, plan.Write, plan.Done}
	if diff := cmp.Diff(want, a.executed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAgainWritesNothing: every goal that is reached is reached again without a write.
func TestAgainWritesNothing(t *testing.T) {
	for _, version := range versions() {
		for name, c := range map[string]struct {
			world *world
			goal  plan.Goal
			run   plan.Run
		}{
			"provision":  {up(t, version), plan.Provision, run(1)},
			"release":    {down(t, version), plan.Release, run(1)},
			"keep, up":   {up(t, version), plan.Keep, plan.Run{}},
			"keep, down": {down(t, version), plan.Keep, plan.Run{}},
		} {
			before := c.world.writes
			if step := c.world.actor(c.goal, c.run).ends(nobody); step.Action != plan.Done || c.world.writes != before {
				t.Errorf("%s, %s: %s after %d writes", version, name, step.Action, c.world.writes-before)
			}
		}
	}
	w := down(t, sandboxapi.V1beta1)
	for range 2 {
		if step := w.actor(plan.Restart, run(2)).ends(nobody); step.Action != plan.Done || w.record.Epoch != 2 {
			w.fail("restart: %s %s", step.Reason, step.Explanation)
		}
		w.whole()
	}
	for range 2 {
		if step := w.actor(plan.Remove, plan.Run{}).ends(nobody); step.Action != plan.Done || w.service != nil {
			w.fail("remove: %s %s", step.Reason, step.Explanation)
		}
		w.stopped()
	}
}

// goals are the calls from where they are made.
func goals() map[string]func(*testing.T, sandboxapi.Version) (*world, *actor) {
	return map[string]func(*testing.T, sandboxapi.Version) (*world, *actor){
		"provision": func(t *testing.T, v sandboxapi.Version) (*world, *actor) {
			w := newWorld(t, v)
			return w, w.actor(plan.Provision, run(1))
		},
		"restart": func(t *testing.T, v sandboxapi.Version) (*world, *actor) {
			w := down(t, v)
			return w, w.actor(plan.Restart, run(2))
		},
		"restart of a run that stands": func(t *testing.T, v sandboxapi.Version) (*world, *actor) {
			w := up(t, v)
			return w, w.actor(plan.Restart, run(2))
		},
		"release": func(t *testing.T, v sandboxapi.Version) (*world, *actor) {
			w := up(t, v)
			return w, w.actor(plan.Release, run(1))
		},
		"remove": func(t *testing.T, v sandboxapi.Version) (*world, *actor) {
			w := up(t, v)
			return w, w.actor(plan.Remove, run(1))
		},
	}
}

// half reports whether a start has made a Secret of which nobody knows the uid any more, and whose Pod stays. No other may go on with it.
func (w *world) half(goal plan.Goal) bool {
	return (goal == plan.Provision || goal == plan.Restart) && ours(w.sandboxSecret) && w.supervisor != nil && w.supervisor.gated
}

// TestDeathAfterEveryWrite kills a call after each of its writes. The same call, or the reconcile loop alone, then completes it or
// undoes it.
func TestDeathAfterEveryWrite(t *testing.T) {
	for name, begin := range goals() {
		for _, version := range versions() {
			for n := 0; ; n++ {
				w, a := begin(t, version)
				if died := a.dies(n); !died {
					if n < 3 {
						t.Fatalf("%s has only %d writes", name, n)
					}
					break
				}
				half := w.half(a.want.Goal)
				again := w.actor(a.want.Goal, a.want.Run)
				switch step := again.ends(nobody); {
				case half && step.Reason == plan.Collision:
					w.stopped()
				case half || step.Action != plan.Done:
					w.fail("%s again after death at write %d: %s %s", name, n, step.Reason, step.Explanation)
				default:
					w.reached(a.want.Goal)
				}

				w, a = begin(t, version)
				a.dies(n)
				w.keep()
				w.settled()
			}
		}
	}
}

// dies lets the actor make n writes and kills it; false when it was over before.
func (a *actor) dies(n int) bool {
	before := a.w.writes
	for range 400 {
		if a.over {
			return false
		}
		if a.w.writes-before >= n {
			for a.w.controller() {
			}
			return true
		}
		a.act(nobody)
		if len(a.queue) == 0 {
			for a.w.controller() {
			}
		}
	}
	a.w.fail("%s comes to no end", a.name)
	return false
}

func (w *world) reached(goal plan.Goal) {
	w.t.Helper()
	switch goal {
	case plan.Provision, plan.Restart:
		w.whole()
	default:
		w.stopped()
	}
}

// settled holds that a run stands whole, or that nothing of it is left.
func (w *world) settled() {
	w.t.Helper()
	if w.record.Phase != "" || w.record.Bootstrapping {
		w.fail("the sandbox is not settled: %+v", w.record)
	}
	switch {
	case w.mode == sandboxapi.Running && w.record.Generation == "": // somebody set a Sandbox at rest running: nothing reads Secrets
		if w.workload != nil && w.workload.read != nil {
			w.fail("a workload runs without a record: %+v", *w.workload)
		}
	case w.mode == sandboxapi.Running:
		w.whole()
		if w.fence == nil || w.fence.Standing != plan.Stands || w.egress == nil || w.fence.UID != w.record.FenceUID || w.fence.Generation != w.record.FenceGeneration {
			w.fail("a run is left behind fence %+v, egress %+v, record %+v", w.fence, w.egress, w.record)
		}
	default:
		w.stopped()
	}
}
