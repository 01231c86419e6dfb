package probe

import (
	"fmt"
	"strings"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Steps are where a verdict was reached, as decisions name them.
const (
	StepFence      = "fence.stands"
	StepMade       = "canary.made"
	StepRan        = "canary.ran"
	StepReported   = "canary.reported"
	StepEgress     = "workload.egress"
	StepIngress    = "workload.ingress"
	StepTargets    = "targets.alive"
	StepDoor       = "door.entered"
	StepRound      = "probe.ended"
	stepUnexplored = "probe.judged"
)

// evidence is what the two canaries left behind. A nil report is none, for which the refusal beside it says why.
type evidence struct {
	workload, supervisor             *canary.Report
	workloadFailed, supervisorFailed verdict.Decision
}

// rule refuses when what it is about is so.
type rule func(*evidence) (verdict.Decision, bool)

// judge is the verdict. What is proven open comes before what could not be found out, and a grant is what no rule objects to.
func judge(e *evidence) verdict.Decision {
	for _, r := range []rule{egressOpen, ingressOpen, reportMissing, broken, targetsDead, doorShut, undecided} {
		if d, refused := r(e); refused {
			return doubting(d)
		}
	}
	if !sound(e) {
		return verdict.Refuse(verdict.ProbeUndecided, stepUnexplored, "the reports do not say what a fence that stands leads to")
	}
	return verdict.Grant(verdict.Evidence{})
}

// doubting is d, unless it grants or says nothing, which no rule may.
func doubting(d verdict.Decision) verdict.Decision {
	if d.Granted() || d.Reason == "" {
		return verdict.Refuse(verdict.ProbeUndecided, stepUnexplored, "nothing says why there is no answer")
	}
	return d
}

// sound is what must hold for a grant, said a second time and without regard to how refusals are told apart.
func sound(e *evidence) bool {
	w, s := e.workload, e.supervisor
	ok := w != nil && s != nil && w.End == canary.EndDone && s.End == canary.EndDone &&
		w.Entered && s.Entered && w.Parted && s.Parted && s.Shut.Held() && len(w.Targets) > 0 && len(w.Targets) == len(s.Targets)
	for i := 0; ok && i < len(w.Targets); i++ {
		ok = w.Targets[i].Held() && s.Targets[i].Before && s.Targets[i].During && s.Targets[i].After
	}
	return ok
}

func refuse(reason verdict.Reason, step, format string, args ...any) (verdict.Decision, bool) {
	return verdict.Refuse(reason, step, fmt.Sprintf(format, args...)), true
}

// egressOpen needs nothing of the supervisor canary: what the workload canary reached is alive.
func egressOpen(e *evidence) (verdict.Decision, bool) {
	if e.workload == nil || e.workload.End != canary.EndOpen {
		return verdict.Decision{}, false
	}
	if open := these(e.workload.Targets, func(s canary.Seen) bool { return s.Last == canary.Opened }); open != "" {
		return refuse(verdict.FenceEgressOpen, StepEgress, "the workload canary reached %s", open)
	}
	return verdict.Decision{}, false
}

// ingressOpen needs that the canaries took leave of each other, so that it was the workload canary which answered.
func ingressOpen(e *evidence) (verdict.Decision, bool) {
	if s := e.supervisor; s != nil && s.Entered && s.Parted && s.Shut.Last == canary.Opened && !s.Shut.Held() {
		return refuse(verdict.FenceIngressOpen, StepIngress, "the supervisor canary reached the workload canary at a port that is not the boundary's, %d times of %d", s.Shut.Opens, s.Shut.Tries)
	}
	return verdict.Decision{}, false
}

// reportMissing lets a missing report of the workload canary pass where the supervisor canary says what kept the two from meeting.
func reportMissing(e *evidence) (verdict.Decision, bool) {
	switch {
	case e.workload != nil && e.workload.End == canary.EndBroken:
		return verdict.Decision{}, false
	case e.supervisor == nil && e.workload != nil:
		return e.supervisorFailed, true
	case e.supervisor == nil:
		return e.workloadFailed, true
	case e.workload == nil && e.supervisor.Parted:
		return e.workloadFailed, true
	}
	return verdict.Decision{}, false
}

func broken(e *evidence) (verdict.Decision, bool) {
	for _, r := range []*canary.Report{e.workload, e.supervisor} {
		if r != nil && r.End == canary.EndBroken {
			return refuse(verdict.ProbePodFailed, StepRan, "the %s canary could not do its work: %.200q", r.Role, r.Trouble)
		}
	}
	return verdict.Decision{}, false
}

func targetsDead(e *evidence) (verdict.Decision, bool) {
	if e.supervisor == nil {
		return verdict.Decision{}, true
	}
	if dead := these(e.supervisor.Targets, func(s canary.Seen) bool { return !s.Before }); dead != "" {
		return refuse(verdict.ProbeTargetUnreached, StepTargets, "the supervisor canary, which may go everywhere, did not reach %s", dead)
	}
	if dead := these(e.supervisor.Targets, func(s canary.Seen) bool { return !s.During }); dead != "" && e.supervisor.Parted {
		return refuse(verdict.ProbeTargetUnreached, StepTargets, "the supervisor canary reached every target before the workload canary's tries, and while that one tried not always %s", dead)
	}
	if dead := these(e.supervisor.Targets, func(s canary.Seen) bool { return !s.After }); dead != "" && e.supervisor.Parted {
		return refuse(verdict.ProbeTargetUnreached, StepTargets, "the supervisor canary reached every target before the workload canary's tries and with them, and after them not %s", dead)
	}
	return verdict.Decision{}, false
}

func doorShut(e *evidence) (verdict.Decision, bool) {
	switch s, w := e.supervisor, e.workload; {
	case !s.Entered:
		return refuse(verdict.ProbeDoorUnreached, StepDoor, "the supervisor canary did not reach the workload canary at the boundary port, so that one may have had no network")
	case w != nil && !w.Entered:
		return refuse(verdict.ProbeDoorUnreached, StepDoor, "somebody answered the supervisor canary at the boundary port, and it was not the workload canary")
	}
	return verdict.Decision{}, false
}

func undecided(e *evidence) (verdict.Decision, bool) {
	w, s := e.workload, e.supervisor
	if w == nil {
		return e.workloadFailed, true
	}
	if loose := these(w.Targets, func(s canary.Seen) bool { return !s.Held() }); loose != "" {
		return refuse(verdict.ProbeUndecided, StepEgress, "the workload canary was not blocked %d times in a row on the way to %s", canary.Hold, loose)
	}
	if !s.Parted || !w.Parted {
		return refuse(verdict.ProbeDoorUnreached, StepDoor, "the canaries did not take leave of each other, so one may have been without a network before the end")
	}
	if !s.Shut.Held() {
		return refuse(verdict.ProbeUndecided, StepIngress, "the supervisor canary was not blocked %d times in a row at the port that must be shut (last: %.40s)", canary.Hold, s.Shut.Last)
	}
	return verdict.Decision{}, false
}

// these names the targets for which is holds, each with the outcome of its last try.
func these(targets []canary.Seen, is func(canary.Seen) bool) string {
	var named []string
	for _, s := range targets {
		if is(s) {
			named = append(named, fmt.Sprintf("%s (last: %.40s)", s.Target, s.Last))
		}
	}
	return strings.Join(named, ", ")
}
