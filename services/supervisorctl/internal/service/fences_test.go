package service_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// fences answer for the namespace "sandboxes", and are asked for no other.
type fences struct {
	t       *testing.T
	require bool
	is      verdict.Decision
	at      time.Time
	probed  bool
}

func (f *fences) Admit(namespace string) verdict.Decision {
	if d, _, _ := f.Verdict(namespace); f.require {
		return d
	}
	return verdict.Grant(verdict.Evidence{})
}

func (f *fences) Verdict(namespace string) (verdict.Decision, time.Time, bool) {
	if namespace != "sandboxes" {
		f.t.Errorf("asked for namespace %q", namespace)
	}
	return f.is, f.at, f.probed
}

var (
	enforced = verdict.Grant(verdict.Evidence{})
	isOpen   = verdict.Refuse(verdict.FenceEgressOpen, "workload.egress", "it reached kubernetes")
	doubtful = verdict.Refuse(verdict.ProbePodFailed, "canary.ran", "it is lost")
	never    = verdict.Refuse(verdict.ProbeNotRun, "probe.ended", "no probe has ended yet")
	probedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// TestNoRunIsRaisedBehindAFenceThatIsNotProven where that is required. Nothing is begun then, and runs are ended and looked at as ever.
func TestNoRunIsRaisedBehindAFenceThatIsNotProven(t *testing.T) {
	for name, c := range map[string]struct {
		require bool
		is      verdict.Decision
		code    codes.Code
	}{
		"enforced": {true, enforced, codes.OK}, "open": {true, isOpen, codes.FailedPrecondition}, "in doubt": {true, doubtful, codes.Unavailable},
		"never probed": {true, never, codes.Unavailable}, "zero": {true, verdict.Decision{}, codes.Internal},
		"open, reported": {false, isOpen, codes.OK}, "in doubt, reported": {false, doubtful, codes.OK},
	} {
		for call, do := range calls {
			s := newProbed(t, &fences{t, c.require, c.is, probedAt, true})
			_, _, err := do(t.Context(), s, valid(t))
			want := c.code
			if call != "provision" && call != "restart" {
				want = codes.OK
			}
			if status.Code(err) != want {
				t.Errorf("%s, %s: %v, want %s", name, call, err, want)
			}
			if want == codes.OK != (s.conductor.asked() == 1) {
				t.Errorf("%s, %s: the conductor was asked %d times", name, call, s.conductor.asked())
			}
			if want != codes.OK && c.is.Reason != "" && refusal(t, err).Reason != c.is.Reason {
				t.Errorf("%s, %s: %v", name, call, err)
			}
		}
	}
}

// TestStatusSaysWhetherTheFenceIsEnforced, with the time of the probe. The fence stands, and so it stays available.
func TestStatusSaysWhetherTheFenceIsEnforced(t *testing.T) {
	openings := plan.Found([]plan.Opening{{Policy: "web", UID: "1", Opens: "NetworkPolicy web opens egress to anywhere"}})
	const at = "(2026-03-01T12:00:00Z)"
	for name, c := range map[string]struct {
		fences *fences
		edit   func(*plan.Facts)
		reason string
		says   []string
	}{
		"enforced":                {&fences{is: enforced, at: probedAt, probed: true}, nil, "FenceEnforced", []string{"proved that it is enforced", at}},
		"open":                    {&fences{is: isOpen, at: probedAt, probed: true}, nil, "FenceNotEnforced", []string{"proved that it is not enforced", "fence_egress_open", at}},
		"in doubt":                {&fences{is: doubtful, at: probedAt, probed: true}, nil, "FenceNotProven", []string{"not known: ", "probe_pod_failed", at}},
		"never probed":            {&fences{is: never, probed: true}, nil, "FenceNotProven", []string{"probe_not_run"}},
		"zero":                    {&fences{probed: true}, nil, "FenceNotProven", []string{"not known"}},
		"nobody probes it":        {&fences{is: never}, nil, "Standing", nil},
		"enforced, and reopened":  {&fences{is: enforced, at: probedAt, probed: true}, func(f *plan.Facts) { f.Openings = openings }, "FenceReopened", []string{"is enforced", "web opens"}},
		"open, and reopened":      {&fences{is: isOpen, at: probedAt, probed: true}, func(f *plan.Facts) { f.Openings = openings }, "FenceNotEnforced", []string{"it reached", "web opens"}},
		"in doubt, and reopened":  {&fences{is: doubtful, at: probedAt, probed: true}, func(f *plan.Facts) { f.Openings = openings }, "FenceReopened", []string{"is lost", "web opens"}},
		"openings cannot be read": {&fences{is: enforced, at: probedAt, probed: true}, func(f *plan.Facts) { f.Openings = plan.Failed[[]plan.Opening](nil) }, "FenceEnforced", []string{"is enforced", "another policy opens it is not known"}},
		"altered": {&fences{is: enforced, at: probedAt, probed: true}, func(f *plan.Facts) {
			f.WorkloadFence = edited(f.WorkloadFence, func(p *plan.Policy) { p.Standing, p.Difference = plan.Altered, "spec" })
		}, "Altered", []string{"spec"}},
		"missing": {&fences{is: isOpen, at: probedAt, probed: true}, func(f *plan.Facts) { f.WorkloadFence = plan.Absent[plan.Policy]() }, "Missing", []string{"there is none"}},
		"unread":  {&fences{is: isOpen, at: probedAt, probed: true}, func(f *plan.Facts) { f.WorkloadFence = plan.Known[plan.Policy]{} }, "NotReadable", []string{"could not be asked"}},
	} {
		c.fences.t = t
		s, facts := newProbed(t, c.fences), standing()
		facts.WorkloadFence = edited(facts.WorkloadFence, func(p *plan.Policy) { p.Since = probedAt.Add(-time.Hour) })
		if c.edit != nil {
			c.edit(&facts)
		}
		s.finds(facts)
		for _, call := range slices.Sorted(maps.Keys(calls)) {
			out, _, err := calls[call](t.Context(), s, valid(t))
			if err != nil {
				t.Fatal(err)
			}
			want := available
			switch c.reason {
			case "Altered", "Missing":
				want = unavailable
			case "NotReadable":
				want = unknown
			}
			got := out.GetConditions()[0]
			if got.GetReason() != c.reason || got.GetAvailability() != want {
				t.Errorf("%s, %s: %v", name, call, got)
			}
			for _, say := range c.says {
				if !strings.Contains(got.GetMessage(), say) {
					t.Errorf("%s, %s: %q is not in %v", name, call, say, got)
				}
			}
			// What nobody in the cluster records has no time of the cluster's.
			var since *timestamppb.Timestamp
			if c.reason == "Standing" {
				since = timestamppb.New(probedAt.Add(-time.Hour))
			}
			if !got.GetTransitionTime().AsTime().Equal(since.AsTime()) {
				t.Errorf("%s, %s: %v", name, call, got)
			}
			if other := out.GetConditions()[1]; other.GetReason() != "Standing" {
				t.Errorf("%s, %s: %v", name, call, other)
			}
		}
	}
}
