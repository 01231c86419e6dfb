package plan_test

import (
	"fmt"
	"slices"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// actor executes steps for one goal, one write at a time, as a call or the reconcile loop does. It may die between any two.
type actor struct {
	w    *world
	want plan.Want
	name string

	attempt  plan.Attempt
	idle     bool
	blocked  int // times that a Secret was in the way
	awaits   int
	named    string        // the attempt in the record that it has seen
	fenced   int           // changes of somebody to the fence that it has seen
	queue    []func() bool // writes of the step under way; false ends the step
	last     plan.Step
	over     bool
	undoing  bool
	undone   plan.Step
	executed []plan.Action
}

var ref = plan.Ref{GatewayID: "gw", SandboxID: "id", Namespace: "team", Name: "box", UID: "sandbox"}

func (w *world) actor(goal plan.Goal, run plan.Run) *actor {
	name := w.uid("attempt")
	return &actor{w: w, want: plan.Want{Goal: goal, Ref: ref, Run: run}, name: name, attempt: plan.Attempt{ID: name}}
}

func run(epoch int64) plan.Run {
	return plan.Run{Generation: generation, Session: session, Epoch: epoch}
}

// act makes one write, or decides. others says whether the attempt with this name may be at work.
func (a *actor) act(others func(attempt string) bool) {
	defer a.w.theirsStand()
	if len(a.queue) > 0 {
		next := a.queue[0]
		a.queue = a.queue[1:]
		if !next() {
			a.queue = nil
		}
		return
	}
	f := a.w.facts()
	f.Attempt = a.attempt
	f.Attempt.MayTake = !others(a.w.record.Attempt)
	if a.idle && f.Attempt.MayTake {
		f.Idle = plan.WatchLimit
	}
	if a.w.rand != nil && a.w.rand.IntN(8) == 0 {
		f.Idle = plan.IdleLimit // also one that misjudges it
	}
	step, problem := judged(a.want, &f)
	if problem != "" {
		a.w.fail("%s", problem)
	}
	a.last, a.fenced, a.named = step, a.w.fenced, a.w.record.Attempt
	a.w.say("%s %v: %s %s %s", a.name, a.want.Goal, step.Action, step.Reason, step.Explanation)
	a.executed = append(a.executed, step.Action)
	a.begin(step, a.w.change)
}

// begin queues the writes of a step. change is the resourceVersion of the Sandbox that was seen.
func (a *actor) begin(step plan.Step, change int) {
	w := a.w
	guarded := func(write func()) func() bool {
		return func() bool {
			if w.gone || w.change != change {
				return false
			}
			a.attempt.Afresh = a.attempt.Afresh || step.Afresh
			if step.Inherits != "" {
				a.attempt.Inherited = step.Inherits
			}
			a.attempt.Began = a.attempt.Began || step.Action == plan.Begin
			write()
			return true
		}
	}
	once := func(write func()) { a.queue = append(a.queue, func() bool { w.writes++; write(); return true }) }
	switch step.Action {
	case plan.Refuse:
		a.refused(step)
	case plan.Done:
		a.over = !a.undoing
		if a.undoing {
			a.last, a.over = a.undone, true
		}
	case plan.Await:
		a.awaited(step)
	case plan.CreateWorkloadFence:
		once(func() { create(&w.fence, plan.Policy{Standing: plan.Stands, UID: w.uid("fence"), Generation: 1}) })
	case plan.CreateSupervisorFence:
		once(func() { create(&w.egress, plan.Policy{Standing: plan.Stands, UID: w.uid("egress"), Generation: 1}) })
	case plan.CreateService:
		once(func() {
			create(&w.service, plan.Service{UID: w.uid("service"), Ownership: plan.OfThisRun, ClusterIP: "10.0.0.1"})
		})
	case plan.CreateSupervisor:
		once(func() { create(&w.supervisor, pod{uid: w.uid("supervisor"), gated: true, run: a.want.Run.Session}) })
	case plan.Begin, plan.Write:
		a.queue = append(a.queue, guarded(func() { w.write(step.Record) }))
	case plan.Resume:
		a.queue = append(a.queue, guarded(func() { w.write(step.Record); w.mode = sandboxapi.Running }))
	case plan.Suspend:
		a.queue = append(a.queue, guarded(func() { w.write(step.Record); w.mode = sandboxapi.Suspended }))
	case plan.MakeSecrets:
		a.makeSecrets(step)
	case plan.UngateSupervisor:
		once(func() { a.ungate(w.supervisor, step.UID) })
	case plan.UngateWorkload:
		once(func() { a.ungate(w.workload, step.UID) })
	case plan.DeleteSupervisor:
		once(func() {
			if w.supervisor != nil && w.supervisor.uid == step.UID {
				w.supervisor.deleting = true
			}
		})
	case plan.DeleteWorkload:
		once(func() {
			if w.workload != nil && w.workload.uid == step.UID {
				w.workload.deleting = true
			}
		})
	case plan.DeleteService:
		once(func() {
			if w.service != nil && w.service.UID == step.UID {
				w.service = nil
			}
		})
	case plan.DeleteSecrets:
		known := append(slices.Clone(w.made[a.name]), w.made[w.record.Secrets]...)
		once(func() { w.remove(&w.sandboxSecret, known) })
		once(func() {
			w.remove(&w.supervisorSecret, known)
			a.attempt.SecretsGone, a.attempt.MadeFor = true, plan.Bound{}
		})
	default:
		w.fail("nobody can %s", step.Action)
	}
}

// refused ends the work; what is to be undone first is.
func (a *actor) refused(step plan.Step) {
	if !step.Undo || a.undoing {
		a.over = true
		return
	}
	a.undoing, a.undone = true, step
	a.want = a.want.Undone(step, a.named)
}

// awaited ends a look of the reconcile loop, and a call that has waited for long.
func (a *actor) awaited(step plan.Step) {
	a.awaits++
	a.attempt.WorkloadOverdue = step.Subject == plan.SubjectWorkload && a.awaits > 20
	a.over = a.want.Goal == plan.Keep && a.w.rand != nil || a.awaits > 40
}

func (a *actor) makeSecrets(step plan.Step) {
	w := a.w
	m := material{attempt: a.name, generation: step.Generation, workload: step.For.Workload, supervisor: step.For.Supervisor}
	for _, at := range []**material{&w.sandboxSecret, &w.supervisorSecret} {
		if len(w.made[a.name]) > 0 {
			a.queue = append(a.queue, func() bool { w.remove(at, w.made[a.name]); return true })
		}
		a.queue = append(a.queue, func() bool {
			w.writes++
			return a.place(at, m, step)
		})
	}
	a.queue = append(a.queue, func() bool {
		a.attempt.MadeFor, a.attempt.Secrets, a.attempt.Evidence, a.attempt.SecretsGone = step.For, a.name, "fence of "+a.name, false
		return true
	})
	a.attempt.Afresh = true
}

// place makes one Secret. One that is in the way is somebody else's, unless something of ours is about to go; that is waited for a while.
func (a *actor) place(at **material, m material, step plan.Step) bool {
	if create(at, m) {
		a.w.made[a.name] = append(a.w.made[a.name], *at)
		return true
	}
	if a.blocked++; !step.Afresh || a.blocked > 8 {
		a.refused(plan.Step{Reason: plan.Collision, Explanation: "a Secret is in the way", Undo: true})
	}
	return false
}

// remove deletes a Secret by its uid.
func (w *world) remove(at **material, known []*material) {
	if w.writes++; *at != nil && slices.Contains(known, *at) {
		*at = nil
	}
}

func create[T any](at **T, value T) bool {
	if *at != nil {
		return false
	}
	*at = &value
	return true
}

// ungate lifts a gate. The fence must stand when a Pod's is lifted, or have been changed by somebody since the actor looked.
func (a *actor) ungate(p *pod, uid string) {
	w := a.w
	if p == nil || p.uid != uid || p.deleting || !p.gated {
		return
	}
	if stands := w.fence != nil && w.fence.Standing == plan.Stands && w.egress != nil && w.egress.Standing == plan.Stands; !stands && a.fenced == w.fenced {
		w.fail("%s releases %s unfenced", a.name, uid)
	}
	if p.foreign {
		w.fail("%s releases somebody else's Pod %s", a.name, uid)
	}
	p.gated, p.lifted = false, a.name
}

// ends lets the actor and the world work until the actor's work is over.
func (a *actor) ends(others func(string) bool) plan.Step {
	for range 200 {
		if a.over {
			return a.last
		}
		a.act(others)
		for len(a.queue) > 0 {
			a.act(others)
		}
		for a.w.controller() {
		}
	}
	a.w.fail("%s comes to no end; it last wanted to %s", a.name, a.last.Action)
	return plan.Step{}
}

func nobody(string) bool { return false }

// String names the actor in messages.
func (a *actor) String() string { return fmt.Sprintf("%s (%d steps)", a.name, len(a.executed)) }
