package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const (
	// lag is how long the report of one canary may come after that of the other, when both ended at once.
	lag = 6 * time.Second
	// clearing bounds the removal of what a probe made.
	clearing = 20 * time.Second
	// overdue is how long after its deadline a leftover is removed by another probe.
	overdue = 2 * time.Minute
)

// observe runs both canaries and judges what they say.
func (r *round) observe(ctx context.Context) verdict.Decision {
	e := &evidence{}
	workload := &watched{round: r, plan: r.plan(canary.Workload, "")}
	if err := workload.make(ctx, ""); err != nil {
		return decisionOf(err, StepMade)
	}
	r.sweep(ctx, workload.pod)
	err := workload.await(ctx, func(s stage) bool { return s.running || s.ended })
	if err != nil {
		return decisionOf(err, StepRan)
	}
	r.result.Node = workload.at.node
	if workload.at.ended { // before there was anybody to meet
		e.workload, e.workloadFailed = workload.report()
		e.supervisorFailed, _ = refuse(verdict.ProbePodFailed, StepRan, "the workload canary, Pod %s, ended before the supervisor's was made: %s", workload.pod.Name, workload.at.detail)
		r.result.Workload = e.workload
		return judge(e)
	}
	supervisor := &watched{round: r, plan: r.plan(canary.Supervisor, workload.at.ip)}
	if err := supervisor.make(ctx, workload.at.node); err != nil {
		return decisionOf(err, StepMade)
	}
	e = r.gather(ctx, workload, supervisor)
	r.result.Workload, r.result.Supervisor = e.workload, e.supervisor
	return judge(e)
}

// gather waits for the reports, for as long as another one can change the verdict.
func (r *round) gather(ctx context.Context, workload, supervisor *watched) *evidence {
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	var late <-chan time.Time // when the workload canary's report cannot come any more
	for {
		seen, too := workload.look(ctx), supervisor.look(ctx)
		if seen && too && settled(workload, supervisor) {
			return collect(workload, supervisor)
		}
		if late == nil && supervisor.at.ended {
			late = time.After(lag)
		}
		select {
		case <-tick.C:
		case <-late:
			return collect(workload, supervisor)
		case <-ctx.Done():
			return collect(workload, supervisor)
		}
	}
}

// settled reports whether all there is to know is known. The supervisor canary has still to look at the targets when the workload
// canary has done its part, and nothing to do when that one came to any other end.
func settled(workload, supervisor *watched) bool {
	if workload.at.lost || supervisor.at.lost || workload.at.ended && supervisor.at.ended {
		return true
	}
	if !workload.at.ended {
		return false
	}
	report, _ := workload.report()
	return report == nil || report.End != canary.EndDone
}

// collect reads what there is. That one canary left no report is why the other did not come to its end.
func collect(workload, supervisor *watched) *evidence {
	e := &evidence{}
	e.workload, e.workloadFailed = workload.report()
	e.supervisor, e.supervisorFailed = supervisor.report()
	switch {
	case workload.at.lost:
		e.supervisorFailed = e.workloadFailed
	case supervisor.at.lost || e.supervisor == nil && supervisor.at.ended && !workload.at.ended:
		e.workloadFailed = e.supervisorFailed
	}
	return e
}

// watched is one canary Pod.
type watched struct {
	*round
	plan *canary.Plan
	pod  *corev1.Pod
	at   stage
	// unread is why the newest look, but for one that ended with its context, saw nothing.
	unread error
}

// make asks for the Pod and demands that it is what was asked for.
func (w *watched) make(ctx context.Context, node string) error {
	wanted, err := pod(&w.stock, &w.settings, w.as, w.result.Namespace, node, w.plan)
	if err != nil {
		return fail(verdict.ProbeRefused, StepMade, "%v", err)
	}
	w.made = append(w.made, made{name: wanted.Name})
	if w.pod, err = w.objects.CreatePod(ctx, wanted); err != nil {
		return err
	}
	w.made[len(w.made)-1].uid = string(w.pod.UID)
	if change := altered(w.pod, wanted); change != "" {
		return fail(verdict.ProbePodAltered, StepMade, "admission changed the %s canary: %s", w.plan.Role, change)
	}
	return nil
}

// look reads how far the Pod has come, and reports whether it could. What hinders it may pass.
func (w *watched) look(ctx context.Context) bool {
	found, err := w.objects.Pod(ctx, w.pod.Namespace, w.pod.Name)
	switch {
	case errors.Is(err, cluster.ErrAbsent):
		w.at, w.unread = stage{lost: true, detail: "somebody else removed it"}, nil
	case err == nil:
		w.at, w.unread = stageOf(found, string(w.pod.UID)), nil
	case ctx.Err() == nil:
		w.unread = err
		return false
	default:
		return false
	}
	return true
}

// await looks until enough says so. The error is a setback: it is lost, or ctx ended before.
func (w *watched) await(ctx context.Context, enough func(stage) bool) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		if w.look(ctx) {
			switch {
			case enough(w.at):
				return nil
			case w.at.lost:
				return w.unfinished()
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return w.unfinished()
		}
	}
}

func because(detail string) string {
	if detail == "" {
		return ""
	}
	return ": " + detail
}

// report reads what the Pod, as it was looked at last, left behind; the decision says why there is nothing.
func (w *watched) report() (*canary.Report, verdict.Decision) {
	if !w.at.ended {
		return nil, decisionOf(w.unfinished(), StepRan)
	}
	read, err := canary.DecodeReport(w.at.message, w.plan)
	if err != nil {
		d, _ := refuse(verdict.ProbeReportInvalid, StepReported, "the %s canary left no report of this probe (%v); is probe_image this supervisorctl? %s", w.plan.Role, err, w.at.detail)
		return nil, d
	}
	return read, verdict.Decision{}
}

// unfinished says why the Pod has not ended.
func (w *watched) unfinished() error {
	if w.unread != nil {
		return fail(verdict.ProbeUnreadable, StepRan, "%v", w.unread)
	}
	if w.at.lost {
		return fail(verdict.ProbePodFailed, StepRan, "the %s canary, Pod %s, is lost: %s", w.plan.Role, w.pod.Name, w.at.detail)
	}
	return fail(verdict.ProbePodFailed, StepRan, "the %s canary, Pod %s, was not done in time%s", w.plan.Role, w.pod.Name, because(w.at.detail))
}

// sweep removes the canaries of this gateway whose probe died: those that are older than ours, by the API server's clock, by more than
// they were allowed to be. What it cannot do is told, and hinders nothing.
func (r *round) sweep(ctx context.Context, ours *corev1.Pod) {
	found, err := r.canaries(ctx, r.result.Namespace, map[string]string{workspace.LabelComponent: Component, workspace.LabelGatewayID: r.stock.GatewayID})
	if err != nil {
		r.result.LeftOver = append(r.result.LeftOver, fmt.Sprintf("canaries of former probes were not looked for: %v", err))
		return
	}
	for i := range found {
		p := &found[i]
		allowed := canary.MaxLimit + grace
		if d := p.Spec.ActiveDeadlineSeconds; d != nil && *d > 0 && *d < int64(allowed/time.Second) {
			allowed = time.Duration(*d) * time.Second
		}
		if !isCanary(p) || p.Labels[LabelProbe] == r.id || ours.CreationTimestamp.Sub(p.CreationTimestamp.Time) <= allowed+overdue {
			continue
		}
		if err := r.objects.DeletePod(ctx, p.Namespace, p.Name, string(p.UID)); err != nil {
			r.result.LeftOver = append(r.result.LeftOver, fmt.Sprintf("Pod %s of a former probe: %v", p.Name, err))
		}
	}
}

// clear removes the Pods of this probe, whatever has become of its context.
func (r *round) clear(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearing)
	defer cancel()
	for _, m := range r.made {
		tick := time.NewTicker(r.every)
		err := r.remove(ctx, m)
		for err != nil && ctx.Err() == nil {
			select {
			case <-tick.C:
				err = r.remove(ctx, m)
			case <-ctx.Done():
			}
		}
		tick.Stop()
		if err != nil {
			r.result.LeftOver = append(r.result.LeftOver, fmt.Sprintf("Pod %s: %v", m.name, err))
		}
	}
}

// remove deletes a Pod by its uid. One whose creation was not answered is looked up by its name, which no other probe uses.
func (r *round) remove(ctx context.Context, m made) error {
	if m.uid == "" {
		found, err := r.objects.Pod(ctx, r.result.Namespace, m.name)
		switch {
		case errors.Is(err, cluster.ErrAbsent):
			return nil
		case err != nil:
			return err
		case found.Labels[LabelProbe] != r.id:
			return nil // somebody else's, whatever it is
		}
		m.uid = string(found.UID)
	}
	return r.objects.DeletePod(ctx, r.result.Namespace, m.name, m.uid)
}
