package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

func late(f *plan.Facts) { f.Now, f.Idle = start.Add(plan.ReadyLimit+1), plan.WatchLimit }

// because makes a Pod not ready for a cause.
func because(cause verdict.Reason, detail string, hopeless bool) func(*plan.Pod) {
	return func(p *plan.Pod) { p.Ready, p.Cause, p.Detail, p.Hopeless = false, cause, detail, hopeless }
}

// TestWhyARunIsNotReady: what was said last reaches whoever reads the record, the log and the Events, and what never heals is not
// waited for.
func TestWhyARunIsNotReady(t *testing.T) {
	pulls := because(verdict.PodImageUnavailable, "container agent waits: ImagePullBackOff", false)
	doomed := func(p *plan.Pod) {
		because(verdict.PodImageUnavailable, "container agent waits: not found", false)(p)
		p.Doomed = true
	}
	idleFor := func(d time.Duration) change { return func(f *plan.Facts) { f.Idle = d } }
	says := object(func(o *sandboxapi.Object) {
		o.Conditions = []sandboxapi.Condition{{Type: sandboxapi.ConditionReady, Status: "False", Message: "no endpoint", ObservedGeneration: 1}}
	})
	for name, c := range map[string]struct {
		facts  func() plan.Facts
		reason string // empty for a run that is waited for
		says   []string
	}{
		"young, image":           {from(released, workloadPod(pulls)), "", nil},
		"young, no such image":   {from(released, workloadPod(doomed), idleFor(plan.ImageLimit-1)), "", nil},
		"no such image":          {from(released, workloadPod(doomed), idleFor(plan.ImageLimit)), "pod_image_unavailable", []string{"the workload Pod is not ready: container agent waits: not found", "30s"}},
		"no such supervisor":     {from(released, workloadPod(because(verdict.PodNotStarted, "odd", false)), supervisorPod(doomed), idleFor(plan.ImageLimit)), "pod_image_unavailable", []string{"the supervisor Pod is not ready"}},
		"away, as long":          {from(released, workloadPod(pulls), idleFor(plan.ImageLimit)), "", nil},
		"ready, once doomed":     {from(completing, workloadPod(func(p *plan.Pod) { p.Doomed = true }), idleFor(plan.ImageLimit)), "", nil},
		"young, claim":           {from(released, workloadPod(because(verdict.PodClaimUnbound, "unbound", false))), "", nil},
		"young, crashing":        {from(released, supervisorPod(because(verdict.PodCrashed, "code 1", false))), "", nil},
		"young, hopeless":        {from(released, workloadPod(because(verdict.PodImageUnusable, "InvalidImageName", true))), "pod_image_unusable", []string{"workload Pod can never be ready: InvalidImageName"}},
		"young, hopeless, other": {from(released, supervisorPod(because("", "odd", true))), "run_not_ready", []string{"supervisor Pod can never be ready: odd"}},
		"ready, once hopeless":   {from(completing, workloadPod(func(p *plan.Pod) { p.Hopeless = true })), "", nil},
		"late, nothing said":     {from(released, late), "run_not_ready", []string{"5m0s", "the supervisor Pod is not ready: nothing says why"}},
		"late, image": {
			from(released, late, workloadPod(pulls)), "pod_image_unavailable",
			[]string{"not ready within 5m0s", "the workload Pod is not ready: container agent waits: ImagePullBackOff; the supervisor Pod is not ready"},
		},
		"late, supervisor alone":  {from(released, late, supervisorPod(because(verdict.PodUnschedulable, "no node", false))), "pod_unschedulable", []string{"supervisor Pod is not ready: no node"}},
		"late, the Sandbox alone": {from(completing, late, says), "run_not_ready", []string{"the controller says of the Sandbox: no endpoint"}},
		"late, a long text": {from(completing, late, object(func(o *sandboxapi.Object) {
			o.Conditions = []sandboxapi.Condition{{Type: sandboxapi.ConditionReady, Status: "False", Message: strings.Repeat("é", 2000), ObservedGeneration: 1}}
		})), "run_not_ready", []string{"ééé"}},
		"Service gone":          {from(base, noService), "run_broke", []string{"the boundary Service is gone"}},
		"Service going":         {from(base, service(func(s *plan.Service) { s.Deleting = true })), "run_broke", []string{"the boundary Service is being deleted"}},
		"Service altered":       {from(base, service(func(s *plan.Service) { s.Ownership, s.Detail = plan.OfAnotherRun, "its port is 1" })), "run_broke", []string{"the boundary Service was replaced or altered: its port is 1"}},
		"suspended by somebody": {from(base, object(func(o *sandboxapi.Object) { o.Mode = sandboxapi.Suspended })), "run_broke", []string{"somebody suspended the Sandbox"}},
		"workload ended":        {from(released, workloadPod(func(p *plan.Pod) { p.Ended, p.Cause, p.Detail = true, verdict.PodCrashed, "code 3" })), "pod_crashed", []string{"code 3"}},
		"supervisor ended":      {from(released, supervisorPod(func(p *plan.Pod) { p.Ended, p.Cause, p.Detail = true, verdict.PodCrashed, "code 4" })), "pod_crashed", []string{"code 4"}},
	} {
		f := c.facts()
		step := hold(t, wants(plan.Keep, plan.Run{}), &f)
		if c.reason == "" {
			if step.Reason != "" || step.Action != plan.Done && step.Action != plan.Write {
				t.Errorf("%s: %s, %s: %s", name, step.Action, step.Reason, step.Explanation)
			}
			continue
		}
		if step.Action != plan.Write || string(step.Reason) != c.reason || step.Record.Phase != runstate.Releasing {
			t.Errorf("%s: %s, %s: %s", name, step.Action, step.Reason, step.Explanation)
		}
		for _, say := range c.says {
			if !strings.Contains(step.Explanation, say) {
				t.Errorf("%s: it does not say %q: %s", name, say, step.Explanation)
			}
		}
		r := step.Record
		if r.StopReason != c.reason || r.StopExplanation == "" || len(r.StopExplanation) > 1024 || !strings.HasPrefix(step.Explanation, r.StopExplanation) {
			t.Errorf("%s: the record says %q: %q", name, r.StopReason, r.StopExplanation)
		}
	}
}

// TestWhyStaysUntilTheNextRun: the record of a stop keeps why the run was ended, a stop that somebody asked for has no reason, and a new
// run none of the former.
func TestWhyStaysUntilTheNextRun(t *testing.T) {
	ended := func(r runstate.Record) runstate.Record {
		r.StopReason, r.StopExplanation = "run_broke", "the Service is gone"
		return r
	}
	rest := from(atRest, sandbox(sandboxapi.Suspended, ended(ready()).Stopped(), isSuspended))
	f := rest()
	if step := hold(t, wants(plan.Keep, plan.Run{}), &f); step.Action != plan.Done {
		t.Errorf("%+v", step)
	}
	if step := hold(t, wants(plan.Restart, run(3)), &f); step.Action != plan.Begin || step.Record.StopReason != "" || step.Record.StopExplanation != "" {
		t.Errorf("%+v", step)
	}
	f = from(cleared, sandbox(sandboxapi.Suspended, ended(stopping(runstate.Suspending)), isSuspended))()
	if step := hold(t, wants(plan.Keep, plan.Run{}), &f); step.Action != plan.Write || step.Record.StopReason != "run_broke" || step.Reason != "" {
		t.Errorf("%+v", step)
	}
	f = base()
	if step := hold(t, wants(plan.Release, run(2)), &f); step.Action != plan.Write || step.Record.StopReason != "" {
		t.Errorf("%+v", step)
	}
	refused := plan.Step{Reason: plan.WorkloadRefused, Explanation: "exceeded quota"}
	if step := hold(t, wants(plan.Restart, run(2)).Undone(refused, ""), &f); step.Action != plan.Write || step.Record.StopReason != "workload_refused" || step.Record.StopExplanation != "exceeded quota" {
		t.Errorf("%+v", step)
	}
	if step := hold(t, wants(plan.Restart, run(2)).Undone(refused, "a former one"), &f); step.Action != plan.Refuse || step.Reason != plan.IsAnother {
		t.Errorf("of another attempt: %+v", step)
	}
}

// TestOnlyACreateWaitsForAnAttachment: the main process of a later run is the same, and begins at once (contract 2.5).
func TestOnlyACreateWaitsForAnAttachment(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"it waits":          {`{"version":1,"command":["/bin/run","<a>"],"tty":true,"await_main_process_attachment":true}`, `{"version":1,"command":["/bin/run","<a>"],"tty":true}`},
		"it waits, encoded": {"base64url:eyJ2ZXJzaW9uIjoxLCJjb21tYW5kIjpbImEiXSwidHR5IjpmYWxzZSwiYXdhaXRfbWFpbl9wcm9jZXNzX2F0dGFjaG1lbnQiOnRydWV9", `{"version":1,"command":["a"],"tty":false}`},
		"it does not":       {`{ "version":1, "command":["a"], "tty":false }`, `{ "version":1, "command":["a"], "tty":false }`},
		"nobody can read":   {`{"version":2,"await_main_process_attachment":true}`, `{"version":2,"await_main_process_attachment":true}`},
	} {
		kept := func(r runstate.Record) runstate.Record { r.MainProcess = c.spec; return r }
		f := from(atRest, sandbox(sandboxapi.Suspended, kept(ready().Stopped()), isSuspended))()
		if step := hold(t, wants(plan.Restart, run(2)), &f); step.Action != plan.Begin || step.Record.MainProcess != c.want {
			t.Errorf("%s: %s writes %s", name, step.Action, step.Record.MainProcess)
		}
		f = from(admitted, sandbox(sandboxapi.Running, kept(resumedRecord())))() // the same run goes on as it was begun
		if step := hold(t, wants(plan.Restart, run(2)), &f); step.Action != plan.Write || step.Record.MainProcess != c.spec {
			t.Errorf("%s: %s writes %s", name, step.Action, step.Record.MainProcess)
		}
	}
}

// TestOpeningWordsAreBounded, however many policies there are and whatever they open.
func TestOpeningWordsAreBounded(t *testing.T) {
	var all []plan.Opening
	for range 1000 {
		all = append(all, plan.Opening{Policy: "web", Opens: strings.Repeat("é", 5000)})
	}
	words := plan.OpeningWords(all)
	if len(words) > 1024 || !strings.HasSuffix(words, "; and 996 more") || strings.Count(words, "...") != 4 {
		t.Errorf("%d bytes: %s", len(words), words)
	}
	if words := plan.OpeningWords([]plan.Opening{{Opens: "a"}, {Opens: "b"}}); words != "a; b" {
		t.Errorf("%s", words)
	}
}

// TestTheRecordNamesTheSecrets of a run whose attempt made them, and says nothing of those that nobody knows.
func TestTheRecordNamesTheSecrets(t *testing.T) {
	opened := from(open, attempt(func(a *plan.Attempt) { a.Secrets = "s=u" }))
	f := opened()
	if step := hold(t, wants(plan.Restart, run(2)), &f); step.Action != plan.Write || step.Record.Phase != runstate.Released || step.Record.Secrets != "s=u" {
		t.Errorf("%+v", step)
	}
	f = from(opened, idle, takenOver)()
	f.Attempt = plan.Attempt{ID: "the loop"}
	if step := hold(t, wants(plan.Keep, plan.Run{}), &f); step.Action != plan.Write || step.Record.Secrets != "" {
		t.Errorf("%+v", step)
	}
}

// TestATakeOverIsAfresh: what another attempt may have made is trusted in nothing, and waited for unless its owner is the workload Pod that
// the take-over goes on with.
func TestATakeOverIsAfresh(t *testing.T) {
	theirs := record(func(r *runstate.Record) { r.Attempt = other })
	for name, c := range map[string]struct {
		facts    func() plan.Facts
		afresh   bool
		inherits string
	}{
		"the first attempt":             {admitted, false, ""},
		"another one had not come here": {from(admitted, theirs, takenOver, supervisorPod(func(p *plan.Pod) { p.UID = "new" })), true, ""},
		"another one had":               {from(noted, theirs, takenOver, supervisorPod(func(p *plan.Pod) { p.UID = "new" })), true, "workload"},
		"with a workload that is gone":  {from(noted, theirs, takenOver, supervisorPod(func(p *plan.Pod) { p.UID = "new" }), workloadPod(func(p *plan.Pod) { p.UID = "new" })), true, ""},
	} {
		f := c.facts()
		f.Attempt.MayTake = true
		if step := hold(t, wants(plan.Restart, run(2)), &f); step.Action != plan.Write || step.Afresh != c.afresh || step.Inherits != c.inherits {
			t.Errorf("%s: %s afresh %t, inherits %q", name, step.Action, step.Afresh, step.Inherits)
		}
	}
}

// TestWhatIsOnlyReported decides nothing.
func TestWhatIsOnlyReported(t *testing.T) {
	for _, s := range stages() {
		for goal := plan.Provision; goal <= plan.Keep; goal++ {
			f := s.facts()
			before := plan.Next(wants(goal, run(2)), &f)
			f.Openings = plan.Found([]plan.Opening{{Policy: "open", UID: "o", Opens: "all"}})
			workloadPod(func(p *plan.Pod) { p.Since = start.Add(time.Hour) })(&f)
			if after := plan.Next(wants(goal, run(2)), &f); after != before {
				t.Errorf("%s, %s: %+v became %+v", s.name, goal, before, after)
			}
		}
	}
}

// TestAnAlteredPodEndsItsRun: whoever takes a Pod out of the fence's reach while it runs.
func TestAnAlteredPodEndsItsRun(t *testing.T) {
	altered := func(p *plan.Pod) { p.Altered = "its label role is gone" }
	for name, facts := range map[string]func() plan.Facts{"running": base, "released": released, "ready": completing} {
		f := from(facts, workloadPod(altered))()
		stopsFor("workload_altered").of(t, name+", workload", plan.Next(wants(plan.Keep, plan.Run{}), &f))
		f = from(facts, supervisorPod(altered))()
		stopsFor("run_broke").of(t, name+", supervisor", plan.Next(wants(plan.Keep, plan.Run{}), &f))
	}
}

// TestARecordThatSomebodyChanged is told as such: it was this attempt that lifted the gate.
func TestARecordThatSomebodyChanged(t *testing.T) {
	f := from(lifted, record(func(r *runstate.Record) { r.SupervisorUID = "other" }))()
	undoes("run_broke").of(t, "supervisor uid edited", plan.Next(wants(plan.Restart, run(2)), &f))
}
