package conduct

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/fence"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// tracer is the name of the spans' instrumentation.
const tracer = "github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"

// execute carries a step out and puts what was answered into what was seen. A refusal ends the goal; an error asks for a new look.
func (r *round) execute(ctx context.Context, step plan.Step) (plan.Step, error) {
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	ctx, span := r.tracer.Start(ctx, "step "+step.Action.String(), trace.WithAttributes(
		attribute.String(attributeGoal, r.goal.Goal.String()), attribute.String(attributeNamespace, r.goal.Ref.Namespace), attribute.String(attributeSandbox, r.goal.Ref.Name),
	))
	defer span.End()
	began := time.Now()
	refused, err := r.carryOut(ctx, step)
	end(span, r.metrics.stepped(step.Action, refused, err, time.Since(began)), refused.Reason)
	if err == nil && refused.Reason == "" && step.Reason != "" {
		r.began = step
	}
	if err != nil && errors.Is(err, cluster.ErrRefused) {
		refused = refusal(CompanionRefused, "%v", err)
		refused.Undo = r.raising()
		return refused, nil
	}
	return refused, err
}

// Attributes of a step's span.
const (
	attributeGoal      = "portcullis.goal"
	attributeNamespace = "k8s.namespace.name"
	attributeSandbox   = "portcullis.sandbox"
	attributeResult    = "portcullis.result"
	attributeReason    = "portcullis.reason"
)

// end says how a step ended, as the metric does, and why in its stable code. The words are for the log: a collector is not told what a
// cluster says.
func end(span trace.Span, result string, reason verdict.Reason) {
	span.SetAttributes(attribute.String(attributeResult, result))
	if reason != "" {
		span.SetAttributes(attribute.String(attributeReason, string(reason)))
	}
	if result == resultFailed || result == resultRefused {
		span.SetStatus(codes.Error, result)
	}
}

// raising reports whether there is something of the wanted run: a Restart stops another one first.
func (r *round) raising() bool {
	record := r.course().record
	w := r.goal.Named(record).Run // a repeated Restart may call the run otherwise
	mine := record.Phase == runstate.Preparing && record.Generation == w.Generation && record.Session == w.Session && record.Epoch == w.Epoch
	return r.goal.Goal == plan.Provision || r.goal.Goal == plan.Restart && (r.attempt.Began || mine)
}

func (r *round) carryOut(ctx context.Context, step plan.Step) (plan.Step, error) {
	ref, s := r.goal.Ref, &r.seen
	switch step.Action {
	case plan.Await:
		return r.await(ctx, step.Subject)
	case plan.CreateWorkloadFence, plan.CreateSupervisorFence:
		return plan.Step{}, r.createPolicy(ctx, step.Action)
	case plan.CreateService:
		return plan.Step{}, r.createService(ctx)
	case plan.CreateSupervisor:
		return r.createSupervisor(ctx)
	case plan.Begin, plan.Resume, plan.Write, plan.Suspend:
		return plan.Step{}, r.change(ctx, step)
	case plan.MakeSecrets:
		return r.makeSecrets(ctx, step)
	case plan.DeleteSecrets:
		return plan.Step{}, r.deleteSecrets(ctx)
	case plan.UngateSupervisor:
		return plan.Step{}, r.ungate(ctx, &s.supervisor)
	case plan.UngateWorkload:
		return plan.Step{}, r.ungate(ctx, &s.workload)
	case plan.DeleteSupervisor:
		name := workspace.SupervisorPod(ref.SandboxID)
		if err := r.cluster.DeletePod(ctx, ref.Namespace, name, step.UID); err != nil {
			return plan.Step{}, err
		}
		r.did(step.Action, "supervisor Pod")
		r.lookAt(ctx, plan.SubjectSupervisor)
		return plan.Step{}, nil
	case plan.DeleteWorkload:
		if err := r.cluster.DeletePod(ctx, ref.Namespace, s.workload.value.Name, step.UID); err != nil {
			return plan.Step{}, err
		}
		r.did(step.Action, "workload Pod")
		r.lookAt(ctx, plan.SubjectWorkload)
		return plan.Step{}, nil
	case plan.DeleteService:
		if err := r.cluster.DeleteService(ctx, ref.Namespace, workspace.BoundaryService(ref.SandboxID), step.UID); err != nil {
			return plan.Step{}, err
		}
		r.did(step.Action, "boundary Service")
		s.service = got[corev1.Service]{}
		return plan.Step{}, nil
	default:
	}
	return refusal(plan.ObjectUnreadable, "nobody can %s", step.Action), nil
}

// did keeps what is told of: what was made anew for a run that is being raised, and what the reconcile loop took away.
func (r *round) did(action plan.Action, subject string) {
	if r.goal.Goal != r.wanted {
		return // it is undone
	}
	if box := r.seen.box.value; box != nil && r.wanted != plan.Keep {
		if record, err := runstate.Of(box.Annotations); err != nil || record.Phase != runstate.Preparing {
			return // a stop before the run
		}
	}
	r.deeds = append(r.deeds, deed{action, subject})
}

func (r *round) createPolicy(ctx context.Context, which plan.Action) error {
	wanted, err := fence.Render(r.goal.Ref.Namespace, r.settings.SandboxRuntime.BoundaryPort)
	if err != nil {
		return errRender{err}
	}
	policy, at := wanted.Workloads, &r.seen.fence
	if which == plan.CreateSupervisorFence {
		policy, at = wanted.Supervisors, &r.seen.egress
	}
	made, err := r.cluster.CreatePolicy(ctx, policy)
	if err == nil {
		at.value, at.err = made, nil
	}
	return err
}

func (r *round) createService(ctx context.Context) error {
	wanted, err := r.renderer.Service(r.sandbox())
	if err != nil {
		return errRender{err}
	}
	made, err := r.cluster.CreateService(ctx, wanted)
	if err == nil {
		r.seen.service, r.attempt.Service = got[corev1.Service]{value: made}, string(made.UID)
	}
	return err
}

func (r *round) createSupervisor(ctx context.Context) (plan.Step, error) {
	wanted, err := r.renderer.SupervisorPod(r.sandbox())
	if err != nil {
		refused := refusal(CompanionRefused, "the supervisor Pod cannot be rendered: %v", err)
		refused.Undo = true
		return refused, nil
	}
	made, err := r.cluster.CreatePod(ctx, wanted)
	if err == nil {
		r.seen.supervisor, r.attempt.Supervisor = got[corev1.Pod]{value: made}, string(made.UID)
	}
	return plan.Step{}, err
}

// change writes the record, and with it what the step wants of the Sandbox.
func (r *round) change(ctx context.Context, step plan.Step) error {
	box := r.seen.box.value
	from, err := runstate.Of(box.Annotations)
	if err != nil {
		return err
	}
	// A start rests on nothing of the status, which the controller writes while a start goes on. A stop does, and so does readiness.
	raising := r.goal.Goal == plan.Provision || r.goal.Goal == plan.Restart
	change := cluster.Change{
		Annotations:    runstate.Patch(from, step.Record),
		WhateverStatus: raising && (step.Action == plan.Resume || step.Action == plan.Write && !step.Record.Stopping()) && from.Phase == runstate.Preparing,
	}
	switch step.Action {
	case plan.Resume:
		change.Mode = sandboxapi.Running
	case plan.Suspend:
		change.Mode = sandboxapi.Suspended
	case plan.Begin:
		template, err := r.renderer.RestartTemplate(r.sandboxOf(step.Generation), box.Template.Spec.Volumes)
		if err != nil {
			return errRender{err}
		}
		change.Volumes, change.PullSecrets = template.Volumes, template.ImagePullSecrets
	default:
	}
	r.attempt.Afresh, r.attempt.Inherited = r.attempt.Afresh || step.Afresh, cmp.Or(step.Inherits, r.attempt.Inherited)
	sent := time.Now()
	changed, err := r.cluster.ChangeSandbox(ctx, box, change)
	if err == nil || errors.Is(err, cluster.ErrUnsettled) {
		r.wrote(step, sent)
	}
	if err != nil {
		return err
	}
	r.seen.box.value = changed
	return nil
}

// wrote keeps what follows from a write that was made, or may have been.
func (r *round) wrote(step plan.Step, sent time.Time) {
	r.attempt.Began = r.attempt.Began || step.Action == plan.Begin
	if step.Record.Attempt != r.attempt.ID || step.Record.Phase != runstate.Preparing {
		return
	}
	switch {
	case step.Record.WorkloadUID != "" && step.Record.WorkloadUID != r.workload: // whoever watches counts from the first time
		r.end, r.workload = sent.Add(attemptLimit), step.Record.WorkloadUID
	case r.end.IsZero():
		r.end = sent.Add(nameLimit)
	}
}

// ungate lifts our gate from a Pod that was seen, and notes what it is released with.
func (r *round) ungate(ctx context.Context, at *got[corev1.Pod]) error {
	pod := at.value
	index := slices.IndexFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == workspace.SchedulingGate })
	noted, err := imagesOf(pod)
	if err != nil {
		return errRender{err}
	}
	ungated, err := r.cluster.Ungate(ctx, pod, workspace.SchedulingGate, index, map[string]string{annotationImages: noted})
	if err == nil {
		at.value = ungated
	}
	return err
}

// errRender is what cannot be rendered from a Sandbox as it is.
type errRender struct{ error }

func (e errRender) Unwrap() []error { return []error{e.error, cluster.ErrRefused} }
