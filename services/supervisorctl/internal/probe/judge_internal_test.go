package probe

import (
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// enforced is what a fence that stands leads to.
func enforced() *evidence {
	shut := canary.Seen{Tries: 9, Streak: canary.Hold, Last: canary.Refused}
	target := func(s canary.Seen, name string) canary.Seen { s.Target = name; return s }
	alive := canary.Seen{Tries: 2, Opens: 2, Last: canary.Opened, Before: true, During: true, After: true}
	return &evidence{
		workload: &canary.Report{
			Role: canary.Workload, End: canary.EndDone, Entered: true, Parted: true,
			Targets: []canary.Seen{target(shut, canary.KubernetesTarget), target(shut, "192.0.2.1:443")},
		},
		supervisor: &canary.Report{
			Role: canary.Supervisor, End: canary.EndDone, Entered: true, Parted: true, Shut: shut,
			Targets: []canary.Seen{target(alive, canary.KubernetesTarget), target(alive, "192.0.2.1:443")},
		},
	}
}

var lost = verdict.Refuse(verdict.ProbePodFailed, StepRan, "it is lost")

func TestVerdicts(t *testing.T) {
	type change = func(*evidence)
	for name, c := range map[string]struct {
		change change
		want   verdict.Reason
	}{
		"enforced":                     {func(*evidence) {}, ""},
		"enforced after a while":       {func(e *evidence) { e.workload.Targets[0].Opens, e.workload.Targets[0].LastOpen = 4, 3200 }, ""},
		"nothing":                      {func(e *evidence) { *e = evidence{} }, verdict.ProbeUndecided},
		"egress open":                  {func(e *evidence) { open(e.workload) }, verdict.FenceEgressOpen},
		"egress open, targets dead":    {func(e *evidence) { open(e.workload); e.supervisor.Targets[0].After = false }, verdict.FenceEgressOpen},
		"egress open, no supervisor":   {func(e *evidence) { open(e.workload); e.supervisor = nil }, verdict.FenceEgressOpen},
		"open, and nothing was opened": {func(e *evidence) { e.workload.End = canary.EndOpen; e.supervisor.Parted = false }, verdict.ProbeDoorUnreached},
		"ingress open":                 {func(e *evidence) { e.supervisor.Shut = canary.Seen{Tries: 90, Opens: 90, Last: canary.Opened} }, verdict.FenceIngressOpen},
		"ingress of somebody else": {func(e *evidence) {
			e.supervisor.Shut.Last, e.supervisor.Shut.Streak = canary.Opened, 0
			e.supervisor.Parted = false
		}, verdict.ProbeDoorUnreached},
		"ingress not decided":           {func(e *evidence) { e.supervisor.Shut = canary.Seen{Tries: 90, Last: canary.Failed} }, verdict.ProbeUndecided},
		"ingress not tried":             {func(e *evidence) { e.supervisor.Shut = canary.Seen{} }, verdict.ProbeUndecided},
		"workload lost":                 {func(e *evidence) { e.workload, e.workloadFailed = nil, lost }, verdict.ProbePodFailed},
		"workload and supervisor lost":  {func(e *evidence) { e.workload, e.supervisor, e.workloadFailed = nil, nil, lost }, verdict.ProbePodFailed},
		"supervisor lost":               {func(e *evidence) { e.supervisor, e.supervisorFailed = nil, lost }, verdict.ProbePodFailed},
		"supervisor lost, no word":      {func(e *evidence) { e.supervisor = nil }, verdict.ProbeUndecided},
		"lost, and granted":             {func(e *evidence) { e.supervisor, e.supervisorFailed = nil, verdict.Grant(verdict.Evidence{}) }, verdict.ProbeUndecided},
		"workload broken":               {func(e *evidence) { e.workload.End, e.supervisor = canary.EndBroken, nil }, verdict.ProbePodFailed},
		"supervisor broken":             {func(e *evidence) { e.supervisor.End = canary.EndBroken }, verdict.ProbePodFailed},
		"target dead before":            {func(e *evidence) { e.supervisor.Targets[1].Before = false }, verdict.ProbeTargetUnreached},
		"target dead after":             {func(e *evidence) { e.supervisor.Targets[1].After = false }, verdict.ProbeTargetUnreached},
		"target away while it is tried": {func(e *evidence) { e.supervisor.Targets[1].During = false }, verdict.ProbeTargetUnreached},
		"target dead, nobody waited":    {func(e *evidence) { dead(e); e.workload, e.workloadFailed = nil, lost }, verdict.ProbeTargetUnreached},
		"not entered":                   {func(e *evidence) { e.supervisor.Entered, e.supervisor.Parted = false, false }, verdict.ProbeDoorUnreached},
		"not entered, nobody waited": {func(e *evidence) {
			e.supervisor.Entered, e.supervisor.Parted = false, false
			e.workload, e.workloadFailed = nil, lost
		}, verdict.ProbeDoorUnreached},
		"entered somebody else":         {func(e *evidence) { e.workload.Entered = false }, verdict.ProbeDoorUnreached},
		"not parted":                    {func(e *evidence) { e.supervisor.Parted = false }, verdict.ProbeDoorUnreached},
		"not parted, workload says":     {func(e *evidence) { e.workload.Parted = false }, verdict.ProbeDoorUnreached},
		"egress not decided":            {func(e *evidence) { e.workload.Targets[1].Last = canary.Failed; e.workload.End = canary.EndLimit }, verdict.ProbeUndecided},
		"blocked too seldom":            {func(e *evidence) { e.workload.Targets[1].Streak = canary.Hold - 1 }, verdict.ProbeUndecided},
		"workload ended at its limit":   {func(e *evidence) { e.workload.End = canary.EndLimit }, verdict.ProbeUndecided},
		"supervisor ended at its limit": {func(e *evidence) { e.supervisor.End = canary.EndLimit }, verdict.ProbeUndecided},
		"no targets":                    {func(e *evidence) { e.workload.Targets, e.supervisor.Targets = nil, nil }, verdict.ProbeUndecided},
	} {
		t.Run(name, func(t *testing.T) {
			e := enforced()
			c.change(e)
			got := judge(e)
			spec, _ := c.want.Spec()
			if c.want == "" {
				spec.Outcome = verdict.Granted
			}
			if got.Reason != c.want || got.Outcome() != spec.Outcome {
				t.Errorf("%s, want %q", got.Explain(), c.want)
			}
		})
	}
}

func open(r *canary.Report) {
	r.End, r.Targets[0].Last, r.Targets[0].Opens, r.Targets[0].Streak = canary.EndOpen, canary.Opened, 3, 0
}

func dead(e *evidence) {
	s := e.supervisor
	s.Targets[0].Before, s.Targets[0].During, s.Targets[0].After, s.Entered, s.Parted, s.Shut = false, false, false, false, false, canary.Seen{}
}

// TestOnlyProofGrants: whatever the reports say, a grant comes with everything that makes one, and a denial with an open way.
func TestOnlyProofGrants(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	flip := func() bool { return rnd.IntN(8) > 0 }
	ends := []canary.End{canary.EndDone, canary.EndDone, canary.EndDone, canary.EndOpen, canary.EndLimit, canary.EndBroken, ""}
	lasts := []canary.Outcome{canary.Refused, canary.TimedOut, canary.Refused, canary.Opened, canary.Failed, ""}
	seen := func(s *canary.Seen) {
		s.Streak, s.Last, s.Before, s.During, s.After = canary.Hold-1+rnd.IntN(8), lasts[rnd.IntN(len(lasts))], flip(), flip(), flip()
	}
	granted, denied := 0, 0
	for range 20_000 {
		e := enforced()
		for _, r := range []*canary.Report{e.workload, e.supervisor} {
			r.End, r.Entered, r.Parted = ends[rnd.IntN(len(ends))], flip(), flip()
			seen(&r.Shut)
			for i := range r.Targets {
				seen(&r.Targets[i])
			}
		}
		if !flip() {
			e.workload, e.workloadFailed = nil, lost
		}
		if !flip() {
			e.supervisor, e.supervisorFailed = nil, lost
		}
		switch d := judge(e); d.Outcome() {
		case verdict.Granted:
			granted++
			if !sound(e) {
				t.Fatalf("granted: %+v %+v", e.workload, e.supervisor)
			}
		case verdict.Denied:
			denied++
			out := e.workload != nil && e.workload.End == canary.EndOpen && these(e.workload.Targets, func(s canary.Seen) bool { return s.Last == canary.Opened }) != ""
			in := e.supervisor != nil && e.supervisor.Shut.Last == canary.Opened && e.supervisor.Parted
			if !out && !in {
				t.Fatalf("denied: %s %+v %+v", d.Explain(), e.workload, e.supervisor)
			}
		case verdict.Unknown:
			if _, registered := d.Reason.Spec(); !registered || d.Explanation == "" {
				t.Fatalf("no reason: %s", d.Explain())
			}
		}
	}
	if granted < 1 || denied < 100 {
		t.Errorf("%d grants and %d denials: the reports are too much alike", granted, denied)
	}
}
