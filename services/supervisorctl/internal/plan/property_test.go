package plan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// changes are all that a case may break, one at a time.
func changes() []change {
	all := []change{
		noSandbox, noFence, noEgress, noService, noSupervisor, noWorkload, deleting, unreadable, alpha, replaced, idle, takenOver,
		label(workspace.LabelGatewayID, "gw2"),
		object(func(o *sandboxapi.Object) { o.Mode = sandboxapi.Suspended }), object(func(o *sandboxapi.Object) { o.Mode = sandboxapi.Running }),
		object(func(o *sandboxapi.Object) { o.Conditions = nil }), object(func(o *sandboxapi.Object) { o.Generation++ }),
		record(func(r *runstate.Record) { r.Attempt = other }), record(func(r *runstate.Record) { r.Attempt = "" }), record(func(r *runstate.Record) { r.Epoch = 1 }),
		record(func(r *runstate.Record) { r.Epoch = 3 }), record(func(r *runstate.Record) { r.WorkloadUID = "" }), record(func(r *runstate.Record) { r.SupervisorUID = "old" }),
		record(func(r *runstate.Record) { r.Generation = "" }), record(func(r *runstate.Record) { r.Operation = runstate.Create }),
		record(func(r *runstate.Record) { r.Readiness = runstate.Unavailable }), record(func(r *runstate.Record) { r.Session, r.Epoch = "", 0 }),
		fence(func(p *plan.Policy) { p.UID = "new" }), fence(func(p *plan.Policy) { p.Generation++ }), fence(func(p *plan.Policy) { p.Standing = plan.Altered }),
		egress(func(p *plan.Policy) { p.Standing = plan.Foreign }),
		service(func(s *plan.Service) { s.Ownership = plan.Theirs }), service(func(s *plan.Service) { s.Deleting = true }), service(func(s *plan.Service) { s.ClusterIP = "" }),
		supervisorPod(gated), supervisorPod(unready), supervisorPod(func(p *plan.Pod) { p.Gated = false }), supervisorPod(func(p *plan.Pod) { p.Ownership = plan.Theirs }),
		supervisorPod(func(p *plan.Pod) { p.Ownership = plan.OfAnotherRun }), supervisorPod(func(p *plan.Pod) { p.Deleting = true }),
		supervisorPod(func(p *plan.Pod) { p.Ended = true }), supervisorPod(func(p *plan.Pod) { p.UID = "new" }), supervisorPod(func(p *plan.Pod) { p.UID = "" }),
		workloadPod(gated), workloadPod(func(p *plan.Pod) { p.Gated = false }), workloadPod(func(p *plan.Pod) { p.Ownership = plan.Theirs }),
		workloadPod(func(p *plan.Pod) { p.Altered = "hostPID" }), workloadPod(func(p *plan.Pod) { p.Deleting = true }), workloadPod(func(p *plan.Pod) { p.UID = "new" }),
		attempt(func(a *plan.Attempt) { a.MayTake = true }), attempt(func(a *plan.Attempt) { a.MadeFor = bound }), attempt(func(a *plan.Attempt) { a.SecretsGone = true }),
		attempt(func(a *plan.Attempt) { a.ID = "" }), attempt(func(a *plan.Attempt) { a.WorkloadOverdue = true }), func(f *plan.Facts) { f.Acknowledged = false },
	}
	for _, c := range unread() {
		all = append(all, c)
	}
	return all
}

// TestEveryPairOfChanges holds the invariants for every goal in every stage, with every two things otherwise.
func TestEveryPairOfChanges(t *testing.T) {
	all, seen := changes(), map[string]bool{}
	for k, s := range stages() {
		for i, one := range all {
			for j, two := range all[i:] {
				if j > 0 && (i+j+k)%share != 0 {
					continue
				}
				f := s.facts()
				one(&f)
				two(&f)
				for goal := plan.Provision; goal <= plan.Keep; goal++ {
					seen[fmt.Sprint(goal, hold(t, wants(goal, run(2)), &f).Action)] = true
				}
			}
		}
	}
	if len(seen) < 50 {
		t.Errorf("only %d kinds of answers", len(seen))
	}
}

// dice make a choice below n. A fuzzer's are bytes.
type dice func(n int) int

func pick[T any](d dice, from ...T) T { return from[d(len(from))] }

func known[T any](d dice, value T) plan.Known[T] {
	return pick(d, plan.Found(value), plan.Found(value), plan.Found(value), plan.Found(value), plan.Absent[T](), plan.Absent[T](), plan.Failed[T](errRead), plan.Known[T]{})
}

func flip(d dice) bool { return d(2) == 0 }

// anyFacts are facts of any kind, the likely ones more often.
func anyFacts(d dice) plan.Facts {
	uid := func(of string) string { return pick(d, of, of, of, "new", "") }
	aPod := func(of string) plan.Pod {
		return plan.Pod{
			Name: of, UID: uid(of), Ownership: pick(d, plan.OfThisRun, plan.OfThisRun, plan.OfThisRun, plan.OfAnotherRun, plan.Theirs), Deleting: d(8) == 0, Gated: flip(d),
			Ended: d(8) == 0, Ready: flip(d), Doomed: d(8) == 0, Restarted: d(4) == 0, Altered: pick(d, "", "", "", "hostPID"), Detail: pick(d, "", "because"),
		}
	}
	aPolicy := func(of string) plan.Policy {
		return plan.Policy{Standing: pick(d, plan.Stands, plan.Stands, plan.Stands, plan.Stands, plan.Altered, plan.Foreign), UID: uid(of), Generation: pick(d, int64(3), 3, 3, 4, 0)}
	}
	r := runstate.Record{
		Bootstrapping: flip(d), StartedAt: pick(d, start.UnixMilli(), 0), Operation: pick(d, runstate.Create, runstate.Restart, runstate.Restart, runstate.Stop, ""),
		Phase:   pick(d, runstate.Preparing, runstate.Preparing, runstate.Released, runstate.Releasing, runstate.Suspending, ""),
		Session: pick(d, session, session, session, ""), Generation: pick(d, generation, generation, generation, "", "g2"), Epoch: pick(d, int64(2), 2, 2, 0, 1, 3),
		Attempt: pick(d, me, me, me, other, ""), Readiness: pick(d, runstate.Ready, runstate.Unavailable, ""),
		WorkloadUID: uid("workload"), SupervisorUID: uid("supervisor"), FenceUID: pick(d, "fence", "fence", "fence", "", "new"), FenceGeneration: pick(d, int64(3), 3, 3, 0, 4), MainProcess: "{}",
	}
	o, _ := box(pick(d, sandboxapi.Running, sandboxapi.Running, sandboxapi.Suspended, sandboxapi.Suspended, 0), r).Value()
	o.UID, o.Version, o.Deleting, o.Generation = pick(d, "sandbox", "sandbox", "sandbox", "sandbox", "new"), pick(d, sandboxapi.V1beta1, sandboxapi.V1beta1, sandboxapi.V1alpha1, ""), d(8) == 0, pick(d, int64(1), 1, 1, 2)
	for _, c := range []sandboxapi.Condition{isReady, isSuspended, {Type: sandboxapi.ConditionSuspended, Status: "False", Reason: sandboxapi.ReasonPodNotOwned, ObservedGeneration: 1}} {
		if flip(d) {
			o.Conditions = append(o.Conditions, c)
		}
	}
	return plan.Facts{
		Now: pick(d, start.Add(time.Minute), start.Add(time.Hour), start.Add(-time.Hour), time.Time{}), Acknowledged: d(8) > 0, Sandbox: known(d, o),
		WorkloadFence: known(d, aPolicy("fence")), SupervisorFence: known(d, aPolicy("egress")),
		Service: known(d, plan.Service{
			UID: uid("service"), Ownership: pick(d, plan.OfThisRun, plan.OfThisRun, plan.OfThisRun, plan.OfAnotherRun, plan.Theirs), Deleting: d(8) == 0, ClusterIP: pick(d, "10.0.0.1", "10.0.0.1", "10.0.0.1", ""),
		}),
		Supervisor: known(d, aPod("supervisor")), Workload: known(d, aPod("workload")),
		Attempt: plan.Attempt{
			ID: pick(d, me, me, me, ""), MayTake: flip(d), Began: flip(d), Afresh: flip(d), SecretsGone: flip(d), WorkloadOverdue: flip(d), Inherited: pick(d, "", "", "workload", "old"), Refusal: pick(d, "", "quota"),
			MadeFor: pick(d, bound, bound, plan.Bound{}, plan.Bound{Workload: "new", Supervisor: "supervisor"}, plan.Bound{Workload: "workload", Supervisor: "new"}),
		},
		Idle: pick(d, 0, plan.IdleLimit-1, plan.IdleLimit, plan.WatchLimit, plan.ReadyLimit+1, -1), Witnessed: flip(d),
	}
}

func anyWant(d dice) plan.Want {
	w := wants(plan.Goal(d(7)), plan.Run{Generation: pick(d, generation, generation, generation, "", "g2"), Session: pick(d, session, session, session, ""), Epoch: pick(d, int64(2), 2, 2, 0, -1)})
	w.Ref.UID = pick(d, "sandbox", "sandbox", "sandbox", "sandbox", "")
	return w
}

// TestAnyFacts holds the invariants for facts of any kind.
func TestAnyFacts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 / share {
		f, want := anyFacts(r.IntN), anyWant(r.IntN)
		step := hold(t, want, &f)
		if again := plan.Next(want, &f); again != step {
			t.Fatalf("the same facts led to %+v and to %+v", step, again)
		}
	}
}

// FuzzNext holds the invariants for facts that a fuzzer chooses.
func FuzzNext(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a run that stands, then another"))
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		seed := make([]byte, 90)
		for i := range seed {
			seed[i] = byte(r.IntN(256))
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := func(n int) int {
			if len(data) == 0 {
				return 0
			}
			b := int(data[0])
			data = data[1:]
			return b % n
		}
		want := anyWant(d)
		facts := anyFacts(d)
		hold(t, want, &facts)
	})
}
