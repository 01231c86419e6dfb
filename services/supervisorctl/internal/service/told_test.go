package service_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/launch"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// TestWhyIsToldAtOnce: the stable code of what keeps a Pod from being ready is the reason of its condition; what never heals makes the
// part unavailable; of a run that was ended it is said why, as long as no other one is begun.
func TestWhyIsToldAtOnce(t *testing.T) {
	const supervisor, workload = 3, 4
	waits := func(cause verdict.Reason, hopeless bool) func(*plan.Facts) {
		return func(f *plan.Facts) {
			f.Workload = edited(f.Workload, func(p *plan.Pod) {
				p.Ready, p.Cause, p.Hopeless, p.Detail = false, cause, hopeless, "as the kubelet says"
			})
		}
	}
	stopped := func(f *plan.Facts) {
		record(f, func(r *runstate.Record) {
			r.StopReason, r.StopExplanation = "pod_image_unusable", "InvalidImageName"
			*r = r.Stopped()
		})
		f.Supervisor, f.Workload = plan.Absent[plan.Pod](), plan.Absent[plan.Pod]()
	}
	for name, tc := range map[string]struct {
		edit         func(*plan.Facts)
		part         int
		availability supervisorv1.Availability
		reason, says string
	}{
		"image":              {waits(verdict.PodImageUnavailable, false), workload, degraded, "PodImageUnavailable", "as the kubelet says"},
		"claim":              {waits(verdict.PodClaimUnbound, false), workload, degraded, "PodClaimUnbound", "as the kubelet says"},
		"image, for good":    {waits(verdict.PodImageUnusable, true), workload, unavailable, "PodImageUnusable", "as the kubelet says"},
		"nothing said":       {waits("", false), workload, degraded, "PodNotReady", ""},
		"ended, supervisor":  {stopped, supervisor, unavailable, "Missing", "the run was ended (pod_image_unusable): InvalidImageName"},
		"ended, workload":    {stopped, workload, unavailable, "Missing", "the run was ended (pod_image_unusable): InvalidImageName"},
		"ended, not legible": {func(f *plan.Facts) { stopped(f); f.Workload = plan.Failed[plan.Pod](nil) }, workload, unknown, "NotReadable", "could not be asked"},
	} {
		facts := standing()
		tc.edit(&facts)
		c := look(t, facts).GetConditions()[tc.part]
		if c.GetAvailability() != tc.availability || c.GetReason() != tc.reason || !strings.Contains(c.GetMessage(), tc.says) {
			t.Errorf("%s: %v", name, c)
		}
	}
}

// TestAReopenedFenceIsReported, and changes nothing but what is said: the fence is there and what it must be.
func TestAReopenedFenceIsReported(t *testing.T) {
	openings := plan.Found([]plan.Opening{{Policy: "web", UID: "1", Opens: "NetworkPolicy web opens egress to anywhere"}, {Policy: "x", UID: "2", Opens: "NetworkPolicy x opens ingress"}})
	for name, tc := range map[string]struct {
		edit         func(*plan.Facts)
		reason, says string
		availability supervisorv1.Availability
	}{
		"none":      {func(*plan.Facts) {}, "Standing", "", available},
		"two":       {func(f *plan.Facts) { f.Openings = openings }, "FenceReopened", "NetworkPolicy web opens egress to anywhere; NetworkPolicy x opens ingress", available},
		"not known": {func(f *plan.Facts) { f.Openings = plan.Failed[[]plan.Opening](nil) }, "Standing", "is not known", available},
		"and altered": {func(f *plan.Facts) {
			f.Openings = openings
			f.WorkloadFence = edited(f.WorkloadFence, func(p *plan.Policy) { p.Standing, p.Difference = plan.Altered, "a rule" })
		}, "Altered", "a rule", unavailable},
		"long": {func(f *plan.Facts) {
			f.Openings = plan.Found([]plan.Opening{{Opens: strings.Repeat("é", 4000)}})
		}, "FenceReopened", "é", available},
	} {
		facts := standing()
		tc.edit(&facts)
		out := look(t, facts)
		c := out.GetConditions()[0]
		if c.GetReason() != tc.reason || !strings.Contains(c.GetMessage(), tc.says) || c.GetAvailability() != tc.availability || len(c.GetMessage()) > 1024 {
			t.Errorf("%s: %v", name, c)
		}
		if out.GetReadiness() != supervisorv1.Readiness_READINESS_READY {
			t.Errorf("%s: %s", name, out.GetReadiness())
		}
	}
}

// TestNobodyLookedForOpenings: a start does not, and then nothing is said of them.
func TestNobodyLookedForOpenings(t *testing.T) {
	facts := standing()
	want := look(t, facts).GetConditions()[0].GetMessage()
	facts.Openings = plan.Known[[]plan.Opening]{}
	if got := look(t, facts).GetConditions()[0].GetMessage(); got != want {
		t.Errorf("%q is said of a fence that nobody looked behind, want %q", got, want)
	}
}

// TestWhenAConditionCameToBe is told where the cluster records it of this very state, and nowhere else.
func TestWhenAConditionCameToBe(t *testing.T) {
	at := time.Unix(1796006999, 0)
	pod := func(edit func(*plan.Pod)) func(*plan.Facts) {
		return func(f *plan.Facts) {
			f.Workload = edited(f.Workload, func(p *plan.Pod) { p.Since = at; edit(p) })
		}
	}
	for name, tc := range map[string]struct {
		edit func(*plan.Facts)
		part int
		told bool
	}{
		"fence": {func(f *plan.Facts) { f.WorkloadFence = edited(f.WorkloadFence, func(p *plan.Policy) { p.Since = at }) }, 0, true},
		"fence, reopened": {func(f *plan.Facts) {
			f.WorkloadFence = edited(f.WorkloadFence, func(p *plan.Policy) { p.Since = at })
			f.Openings = plan.Found([]plan.Opening{{}})
		}, 0, false},
		"fence, altered": {func(f *plan.Facts) {
			f.WorkloadFence = edited(f.WorkloadFence, func(p *plan.Policy) { p.Since, p.Standing = at, plan.Altered })
		}, 0, false},
		"service":     {func(*plan.Facts) {}, 2, false},
		"ready":       {pod(func(*plan.Pod) {}), 4, true},
		"not ready":   {pod(func(p *plan.Pod) { p.Ready = false }), 4, true},
		"never ready": {pod(func(p *plan.Pod) { p.Ready, p.Hopeless = false, true }), 4, true},
		"gated":       {pod(func(p *plan.Pod) { p.Ready, p.Gated = false, true }), 4, true},
		"ended":       {pod(func(p *plan.Pod) { p.Ended = true }), 4, true},
		"going":       {pod(func(p *plan.Pod) { p.Deleting = true }), 4, true},
		"foreign":     {pod(func(p *plan.Pod) { p.Ownership = plan.Theirs }), 4, false},
		"replaced":    {pod(func(p *plan.Pod) { p.UID = "new" }), 4, false},
		"missing":     {func(f *plan.Facts) { f.Workload = plan.Absent[plan.Pod]() }, 4, false},
	} {
		facts := standing()
		tc.edit(&facts)
		c := look(t, facts).GetConditions()[tc.part]
		if told := c.GetTransitionTime(); (told != nil) != tc.told || tc.told && !told.AsTime().Equal(at) {
			t.Errorf("%s: %v", name, c)
		}
	}
}

// TestReplayL05NamesThatAreTooLong are refused by the field and the limit, before anything is looked at: every name that is derived from
// what a request says fits, or the request is refused.
func TestReplayL05NamesThatAreTooLong(t *testing.T) {
	long := strings.Repeat("a", workspace.MaxSandboxID)
	for call, do := range calls {
		s := newSite(t)
		in := valid(t)
		in.ref.SandboxId = long + "a"
		_, _, err := do(t.Context(), s, in)
		if d := refusal(t, err); d.Reason != verdict.RequestInvalid || !strings.Contains(d.Explain(), "sandbox.sandbox_id") || !strings.Contains(d.Explain(), strconv.Itoa(workspace.MaxSandboxID)) || s.conductor.asked() != 0 {
			t.Errorf("%s: %v, %d looks", call, d.Explain(), s.conductor.asked())
		}
		in = valid(t)
		in.ref.Name = strings.Repeat("a", 64)
		_, _, err = do(t.Context(), s, in)
		if d := refusal(t, err); d.Reason != verdict.RequestInvalid || !strings.Contains(d.Explain(), "sandbox.name") || s.conductor.asked() != 0 {
			t.Errorf("%s: %v", call, d.Explain())
		}
	}
	generation := "g" + strings.Repeat("0", launch.MaxGeneration-1)
	for _, name := range []string{
		workspace.BoundaryService(long), workspace.SupervisorPod(long), workspace.SandboxSecret(long, generation), workspace.SupervisorSecret(long, generation),
		workspace.PullSecret(long, generation, 99),
	} {
		if len(name) > 63 {
			t.Errorf("%s has %d characters", name, len(name))
		}
	}
}
