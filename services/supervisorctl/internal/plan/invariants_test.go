package plan_test

import (
	"fmt"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// look is what an invariant may rest on: the facts in plain values. The booleans say that an object was found.
type look struct {
	*plan.Facts
	want                       plan.Want
	box                        sandboxapi.Object
	record                     runstate.Record
	fence, egress              plan.Policy
	service                    plan.Service
	supervisor, workload       plan.Pod
	hasBox, hasRecord          bool
	hasFence, hasEgress        bool
	hasService                 bool
	hasSupervisor, hasWorkload bool
	ours                       bool // the Sandbox is the one meant
}

func lookAt(want plan.Want, f *plan.Facts) look {
	l := look{Facts: f, want: want}
	l.box, l.hasBox = f.Sandbox.Value()
	l.fence, l.hasFence = f.WorkloadFence.Value()
	l.egress, l.hasEgress = f.SupervisorFence.Value()
	l.service, l.hasService = f.Service.Value()
	l.supervisor, l.hasSupervisor = f.Supervisor.Value()
	l.workload, l.hasWorkload = f.Workload.Value()
	if l.hasBox {
		var err error
		l.record, err = runstate.Of(l.box.Annotations)
		l.hasRecord = err == nil
		labels := l.box.Labels
		l.ours = l.box.UID == want.Ref.UID && labels[workspace.LabelManagedBy] == "openshell" && labels[workspace.LabelGatewayID] == want.Ref.GatewayID && labels[workspace.LabelSandboxID] == want.Ref.SandboxID
	}
	return l
}

// hold asks for the next step and holds what must be true of it, whatever the facts. It answers with the step.
func hold(t *testing.T, want plan.Want, f *plan.Facts) plan.Step {
	t.Helper()
	step, problem := judged(want, f)
	if problem != "" {
		t.Fatal(problem)
	}
	return step
}

// judged is the next step, and which rule it breaks; empty when none.
func judged(want plan.Want, f *plan.Facts) (step plan.Step, problem string) {
	step = plan.Next(want, f)
	l := lookAt(want, f)
	for _, rule := range rules {
		if !rule.holds(l, step) {
			return step, fmt.Sprintf("%s: goal %d: %s %s %q, record %+v\nof record %+v\nfence %+v %+v\nservice %+v\nsupervisor %+v\nworkload %+v\nattempt %+v, idle %s", rule.name,
				want.Goal, step.Action, step.Reason, step.Explanation, step.Record, l.record, f.WorkloadFence, f.SupervisorFence, f.Service, f.Supervisor, f.Workload, f.Attempt, f.Idle)
		}
	}
	return step, ""
}

// rule is an invariant of the package, stated without its code.
type rule struct {
	name  string
	holds func(l look, s plan.Step) bool
}

func implies(a, b bool) bool { return !a || b }

// sound reports whether the workload's fence stands, the set is whole and recorded, and the Sandbox runs, in a start.
func (l look) sound() bool {
	r, s, w := l.record, l.supervisor, l.workload
	return l.ours && l.hasRecord && l.Acknowledged && !l.box.Deleting && l.box.Mode == sandboxapi.Running && r.Phase == runstate.Preparing &&
		l.hasFence && l.fence.Standing == plan.Stands && l.hasEgress && l.egress.Standing == plan.Stands &&
		r.FenceUID == l.fence.UID && r.FenceGeneration == l.fence.Generation &&
		l.hasService && l.service.Ownership == plan.OfThisRun && !l.service.Deleting && l.service.ClusterIP != "" &&
		l.hasSupervisor && s.Ownership == plan.OfThisRun && !s.Deleting && !s.Ended && s.UID != "" && r.SupervisorUID == s.UID &&
		l.hasWorkload && w.Ownership == plan.OfThisRun && !w.Deleting && !w.Ended && w.Altered == "" && w.UID != "" && r.WorkloadUID == w.UID
}

// made reports whether this attempt made the Secrets for the two Pods.
func (l look) made() bool {
	return l.Attempt.MadeFor.Workload == l.workload.UID && l.Attempt.MadeFor.Supervisor == l.supervisor.UID
}

// mine reports whether the run in the record is the wanted one and this attempt is the one that raises it.
func (l look) mine() bool {
	return l.record.Attempt == l.Attempt.ID && l.Attempt.ID != "" && l.names() && (l.want.Goal == plan.Provision || l.want.Goal == plan.Restart)
}

func (l look) names() bool {
	return plan.Run{Generation: l.record.Generation, Session: l.record.Session, Epoch: l.record.Epoch} == l.want.Named(l.record).Run
}

func (l look) healthy() bool {
	return l.hasFence && l.hasEgress && l.fence.Standing == plan.Stands && l.egress.Standing == plan.Stands && l.hasService && l.service.Ownership == plan.OfThisRun &&
		l.hasSupervisor && l.hasWorkload && l.supervisor.UID == l.record.SupervisorUID && l.workload.UID == l.record.WorkloadUID && l.supervisor.Ready && !l.supervisor.Gated && !l.workload.Gated
}

func isCreate(a plan.Action) bool { return a >= plan.CreateWorkloadFence && a <= plan.CreateSupervisor }

func writesRecord(a plan.Action) bool {
	return a == plan.Begin || a == plan.Resume || a == plan.Write || a == plan.Suspend
}

var rules = []rule{
	{"a step has a name, and a refusal a reason", func(_ look, s plan.Step) bool {
		return s.Action.String() != "unknown" && implies(s.Action == plan.Refuse, s.Reason != "") && implies(s.Undo, s.Action == plan.Refuse) && (s.Reason == "") == (s.Explanation == "")
	}},
	{"the workload is released last, into a fence that stands", func(l look, s plan.Step) bool {
		made := l.made()
		return implies(s.Action == plan.UngateWorkload, l.sound() && s.UID == l.workload.UID && l.workload.Gated && !l.supervisor.Gated &&
			implies(l.record.Attempt == l.Attempt.ID, made) &&
			(l.want.Goal == plan.Keep && l.Idle >= plan.IdleLimit || l.names() && (l.record.Attempt == "" || l.record.Attempt == l.Attempt.ID || l.Attempt.MayTake)))
	}},
	{"the supervisor is released after its attempt made the Secrets", func(l look, s plan.Step) bool {
		made := l.made() && l.Attempt.MadeFor == plan.Bound{Workload: l.workload.UID, Supervisor: l.supervisor.UID, Fence: l.fence.UID, FenceGeneration: l.fence.Generation, Address: l.service.ClusterIP}
		return implies(s.Action == plan.UngateSupervisor, l.sound() && l.mine() && made && s.UID == l.supervisor.UID && l.supervisor.Gated && l.workload.Gated)
	}},
	{"Secrets are made by the recorded attempt, for gated Pods", func(l look, s plan.Step) bool {
		return implies(s.Action == plan.MakeSecrets, l.sound() && l.mine() && l.supervisor.Gated && l.workload.Gated && s.Generation == l.record.Generation &&
			s.Afresh == (l.Attempt.Inherited != l.workload.UID && (l.record.Operation == runstate.Restart || l.Attempt.Afresh || l.Attempt.MadeFor != plan.Bound{})))
	}},
	{"a run that is released says which Secrets it has, and what they vouch for", func(l look, s plan.Step) bool {
		released := s.Action == plan.Write && s.Record.Phase == runstate.Released && l.record.Phase == runstate.Preparing
		return implies(released && l.Attempt.MadeFor != plan.Bound{}, s.Record.Secrets == l.Attempt.Secrets && s.Record.FenceEvidence == l.Attempt.Evidence)
	}},
	{"only what is ours is deleted, by its uid, and once", func(l look, s plan.Step) bool {
		p, v := l.supervisor, l.service
		w := l.workload
		return implies(s.Action == plan.DeleteSupervisor, l.hasSupervisor && (p.Ownership != plan.Theirs || p.UID == l.record.SupervisorUID) && !p.Deleting && s.UID == p.UID && s.UID != "") &&
			implies(s.Action == plan.DeleteWorkload, l.hasWorkload && w.Ownership == plan.Theirs && w.UID == l.record.WorkloadUID && !w.Deleting && s.UID == w.UID && s.UID != "") &&
			implies(s.Action == plan.DeleteService, l.hasService && v.Ownership != plan.Theirs && !v.Deleting && s.UID == v.UID && s.UID != "" &&
				implies(l.want.Goal == plan.Provision || l.want.Goal == plan.Restart, v.Ownership == plan.OfAnotherRun && l.record.Phase == runstate.Preparing))
	}},
	{"only what is absent is made", func(l look, s plan.Step) bool {
		return implies(s.Action == plan.CreateWorkloadFence, l.WorkloadFence.Absent()) && implies(s.Action == plan.CreateSupervisorFence, l.SupervisorFence.Absent()) &&
			implies(s.Action == plan.CreateService, l.Service.Absent()) && implies(s.Action == plan.CreateSupervisor, l.Supervisor.Absent()) &&
			implies(isCreate(s.Action), l.ours && l.Acknowledged && !l.box.Deleting && l.record.Phase == runstate.Preparing && l.want.Goal != plan.Keep)
	}},
	{"no new supervisor for a workload that may have read", func(l look, s plan.Step) bool {
		return implies(s.Action == plan.CreateSupervisor, l.Workload.Absent() || l.hasWorkload && (l.workload.Gated || l.workload.Ownership == plan.Theirs))
	}},
	{"only our Sandbox is written to, with a record that reads the same", func(l look, s plan.Step) bool {
		again, err := runstate.Of(s.Record.Annotations())
		return implies(writesRecord(s.Action), l.ours && l.hasRecord && err == nil && again == s.Record) && implies(s.Action == plan.Write, s.Record != l.record)
	}},
	{"a Sandbox that is not known is not acted on", func(l look, s plan.Step) bool {
		return implies(!l.hasBox && !l.Sandbox.Absent(), s.Action == plan.Refuse)
	}},
	{"the Secrets of another Sandbox, or of a Pod that is there, stay", func(l look, s plan.Step) bool {
		away := (l.Supervisor.Absent() || l.hasSupervisor && l.supervisor.Ownership == plan.Theirs) && l.want.Goal != plan.Provision
		return implies(s.Action == plan.DeleteSecrets, away && (l.ours || l.Sandbox.Absent()) && s.Generation != "" && !l.Attempt.SecretsGone)
	}},
	{"readiness is not invented", func(l look, s plan.Step) bool {
		rises := writesRecord(s.Action) && s.Record.Readiness == runstate.Ready && l.record.Readiness != runstate.Ready
		return implies(rises, l.healthy() && l.want.Goal == plan.Keep)
	}},
	{"a run is begun on a Sandbox at rest", func(l look, s plan.Step) bool {
		without := func(k plan.Known[plan.Pod], p plan.Pod, has bool) bool {
			return k.Absent() || has && p.Ownership == plan.Theirs
		}
		return implies(s.Action == plan.Begin, l.record.Phase == "" && l.record.Generation == "" && l.box.Mode == sandboxapi.Suspended && !l.Attempt.Began &&
			without(l.Supervisor, l.supervisor, l.hasSupervisor) && without(l.Workload, l.workload, l.hasWorkload) && l.want.Goal == plan.Restart && s.Record.Attempt == l.Attempt.ID)
	}},
	{"a stop is over when both Pods are gone and the controller says so", func(l look, s plan.Step) bool {
		over := s.Action == plan.Write && l.record.Phase == runstate.Suspending
		said := l.box.Version == sandboxapi.V1alpha1
		for _, c := range l.box.Conditions {
			said = said || c.Type == "Suspended" && c.Status == "True" && c.ObservedGeneration == l.box.Generation
		}
		return implies(over, l.Workload.Absent() && l.box.Mode == sandboxapi.Suspended && said && (l.Supervisor.Absent() || l.supervisor.Ownership == plan.Theirs && l.supervisor.UID != l.record.SupervisorUID) &&
			(l.Attempt.SecretsGone || l.record.Generation == "") && s.Record.Phase == "" && s.Record.Generation == "")
	}},
	{"a release is done when nothing is left", func(l look, s plan.Step) bool {
		without := func(k plan.Known[plan.Pod], p plan.Pod, has bool) bool {
			return k.Absent() || has && p.Ownership == plan.Theirs
		}
		return implies(s.Action == plan.Done && l.want.Goal == plan.Release, without(l.Supervisor, l.supervisor, l.hasSupervisor) && without(l.Workload, l.workload, l.hasWorkload) && l.ours)
	}},
	{"a start is done when its run stands", func(l look, s plan.Step) bool {
		return implies(s.Action == plan.Done && (l.want.Goal == plan.Provision || l.want.Goal == plan.Restart), l.names() && l.ours && !l.box.Deleting &&
			l.hasSupervisor && l.hasWorkload && l.supervisor.UID == l.record.SupervisorUID && l.workload.UID == l.record.WorkloadUID && !l.supervisor.Gated && !l.workload.Gated &&
			l.hasFence && l.hasEgress && l.fence.Standing == plan.Stands && l.egress.Standing == plan.Stands && l.fence.Generation == l.record.FenceGeneration)
	}},
	{"the Sandbox is suspended after its supervisor is gone", func(l look, s plan.Step) bool {
		return implies(s.Action == plan.Suspend, l.record.Stopping() && (l.Supervisor.Absent() || l.hasSupervisor && l.supervisor.Ownership == plan.Theirs))
	}},
	{"a start that is young is left alone", func(l look, s plan.Step) bool {
		return implies(l.want.Goal == plan.Keep && l.ours && l.record.Phase == runstate.Preparing && l.Idle < plan.IdleLimit && !l.box.Deleting, s.Ends())
	}},
	{"the record names who raises, before the workload can come", func(l look, s plan.Step) bool {
		return implies(s.Action == plan.Resume || s.Action == plan.Begin, s.Record.Attempt == l.Attempt.ID && l.Attempt.ID != "") &&
			implies(s.Action == plan.Resume, l.hasSupervisor && l.supervisor.Gated && l.fence.Standing == plan.Stands && l.hasFence)
	}},
}
