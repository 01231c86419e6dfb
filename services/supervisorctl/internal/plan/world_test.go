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

const generation, session = "g0000000000000007", "5f0c7a52-8d0a-4a33-9d4e-1b8f6a3f0c11"

// material is one of a run's two Secrets: whose attempt made it, for which generation, for which Pods.
type material struct{ attempt, generation, workload, supervisor string }

// ours reports whether there is a Secret, and it is not somebody else's.
func ours(m *material) bool { return m != nil && m.attempt != somebody }

// somebody is who lifts a gate and is none of us.
const somebody = "somebody"

// pod is a Pod of the model. read is the material that it mounted when its gate was lifted, lifted is by whom.
type pod struct {
	uid, run, lifted       string
	gated, deleting, ready bool
	ended, restarted       bool
	foreign                bool
	altered                string
	read                   *material
}

// world is one Sandbox with its companions, as an API server keeps them, with the controller and the garbage collector.
type world struct {
	t    *testing.T
	rand *rand.Rand
	log  []string

	version                         sandboxapi.Version
	deleting, gone                  bool
	record                          runstate.Record
	mode                            sandboxapi.Mode
	suspended, reportedReady        bool
	change                          int // resourceVersion
	uids                            int
	fence, egress                   *plan.Policy
	service                         *plan.Service
	supervisor, workload            *pod
	sandboxSecret, supervisorSecret *material
	// theirs are the Secrets of somebody else.
	theirs []*material
	// webhook is what it changes of every workload Pod.
	webhook string
	// flaky is that one object cannot be read now and then.
	flaky bool
	// made are the Secrets of which an attempt of that name heard that it made them.
	made map[string][]*material
	// writes counts the requests that changed something, fenced the changes of somebody to the fence.
	writes, fenced int
	// elapsed since start.
	elapsed time.Duration
	// inflight is the last write of one that died.
	inflight func() bool
}

// newWorld has a Sandbox as lifecycle makes it.
func newWorld(t *testing.T, version sandboxapi.Version) *world {
	return &world{t: t, version: version, made: map[string][]*material{}, mode: sandboxapi.Suspended, record: runstate.Record{
		Bootstrapping: true, StartedAt: start.UnixMilli(), Operation: runstate.Create, Phase: runstate.Preparing, Generation: generation, MainProcess: "{}",
	}}
}

var start = time.UnixMilli(1796006999405)

func (w *world) say(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

func (w *world) uid(what string) string {
	w.uids++
	return fmt.Sprintf("%s-%d", what, w.uids)
}

func (w *world) write(record runstate.Record) {
	w.record = record
	w.change++
	w.writes++
}

// facts is a look at everything, of which one object may not be seen.
func (w *world) facts() plan.Facts {
	f := plan.Facts{Now: start.Add(w.elapsed), Acknowledged: true}
	if w.gone {
		f.Sandbox = plan.Absent[sandboxapi.Object]()
	} else {
		f.Sandbox = plan.Found(w.object())
	}
	f.WorkloadFence, f.SupervisorFence, f.Service = seen(w.fence), seen(w.egress), seen(w.service)
	f.Supervisor, f.Workload = w.pod(w.supervisor), w.pod(w.workload)
	if w.flaky {
		for _, part := range []string{"Sandbox", "workload fence", "egress policy", "Service", "supervisor Pod", "workload Pod"} {
			if w.rand.IntN(60) == 0 {
				unread()[part](&f)
			}
		}
	}
	return f
}

// theirsStand holds that nobody of ours deleted a Secret of somebody else.
func (w *world) theirsStand() {
	for _, m := range w.theirs {
		if w.sandboxSecret != m && w.supervisorSecret != m {
			w.fail("a Secret of somebody else was deleted")
		}
	}
}

// foreign puts a Secret of somebody else under one of our names.
func (w *world) foreign(at **material) func() {
	return func() {
		*at = &material{attempt: somebody}
		w.theirs = append(w.theirs, *at)
	}
}

func (w *world) object() sandboxapi.Object {
	o := sandboxapi.Object{
		Sandbox: sandboxapi.Sandbox{
			Namespace: "team", Name: "box", UID: "sandbox", Annotations: w.record.Annotations(),
			Labels: map[string]string{workspace.LabelManagedBy: workspace.ManagedByOpenShell, workspace.LabelGatewayID: "gw", workspace.LabelSandboxID: "id"},
		},
		Version: w.version, Generation: 1, ResourceVersion: fmt.Sprint(w.change), Mode: w.mode,
	}
	o.Deleting = w.deleting
	if w.mode == sandboxapi.Suspended && w.workload != nil && w.workload.foreign && w.version == sandboxapi.V1beta1 {
		o.Conditions = append(o.Conditions, sandboxapi.Condition{Type: sandboxapi.ConditionSuspended, Status: "False", Reason: sandboxapi.ReasonPodNotOwned, ObservedGeneration: 1})
	} else if w.suspended {
		o.Conditions = append(o.Conditions, sandboxapi.Condition{Type: sandboxapi.ConditionSuspended, Status: "True", ObservedGeneration: 1})
	}
	if w.reportedReady {
		o.Conditions = append(o.Conditions, sandboxapi.Condition{Type: sandboxapi.ConditionReady, Status: "True", ObservedGeneration: 1})
	}
	return o
}

func seen[T any](value *T) plan.Known[T] {
	if value == nil {
		return plan.Absent[T]()
	}
	return plan.Found(*value)
}

func (w *world) pod(p *pod) plan.Known[plan.Pod] {
	if p == nil {
		return plan.Absent[plan.Pod]()
	}
	ownership := plan.OfThisRun
	switch {
	case p.foreign:
		ownership = plan.Theirs
	case p.run != w.record.Session && p.run != "" && w.record.Session != "":
		ownership = plan.OfAnotherRun
	}
	return plan.Found(plan.Pod{
		Name: "pod", UID: p.uid, Ownership: ownership, Deleting: p.deleting, Gated: p.gated, Ready: p.ready, Ended: p.ended, Restarted: p.restarted, Altered: p.altered,
	})
}

// event is something that the cluster does by itself, when it can.
type event struct {
	can bool
	do  func()
}

// controller is one thing that happens by itself; false when nothing does. Which one, if several can, is anybody's guess.
func (w *world) controller() bool {
	var able []func()
	for _, e := range w.events() {
		if e.can {
			able = append(able, e.do)
		}
	}
	if len(able) == 0 {
		return false
	}
	do := able[0]
	if w.rand != nil {
		do = able[w.rand.IntN(len(able))]
	}
	w.changing(do)
	return true
}

// changing is a change that is none of ours: of the Sandbox too when it is about it.
func (w *world) changing(do func()) {
	type state struct {
		record                                   runstate.Record
		mode                                     sandboxapi.Mode
		suspended, reportedReady, deleting, gone bool
	}
	look := func() state {
		return state{w.record, w.mode, w.suspended, w.reportedReady, w.deleting, w.gone}
	}
	before := look()
	if do(); look() != before {
		w.change++
	}
}

func (w *world) events() []event {
	s, p := w.supervisor, w.workload
	own := func(pod *pod) bool { return pod != nil && !pod.foreign }
	runs := func(pod *pod) bool { return own(pod) && !pod.gated && !pod.ended && !pod.deleting }
	up := !w.gone && !w.deleting
	return []event{
		{s != nil && s.deleting, func() { w.supervisor = nil }},
		{p != nil && p.deleting, func() { w.workload = nil }},
		{w.deleting && !w.gone, func() { w.gone = true }},
		{w.gone && own(s) && !s.deleting, func() { s.deleting = true }},
		{w.gone && w.service != nil && w.service.Ownership != plan.Theirs, func() { w.service = nil }},
		{(w.gone || w.mode == sandboxapi.Suspended && !w.deleting) && own(p) && !p.deleting, func() { p.deleting = true }},
		{up && w.mode == sandboxapi.Running && p == nil, func() { w.workload, w.suspended = &pod{uid: w.uid("workload"), gated: true, altered: w.webhook}, false }},
		{up && w.mode == sandboxapi.Suspended && p == nil && !w.suspended && w.version == sandboxapi.V1beta1, func() { w.suspended = true }},
		{up && w.mode == sandboxapi.Running && w.suspended, func() { w.suspended = false }},
		{runs(s) && s.read == nil && ours(w.supervisorSecret), func() { read := *w.supervisorSecret; s.read = &read; w.check() }},
		{runs(p) && p.read == nil && ours(w.sandboxSecret), func() { read := *w.sandboxSecret; p.read = &read; w.check() }},
		{runs(s) && runs(p) && s.read != nil && p.read != nil && *s.read == *p.read && !s.ready, func() { s.ready = true }},
		{runs(s) && runs(p) && s.ready && !w.reportedReady, func() { w.reportedReady = true }},
		{!runs(p) && w.reportedReady, func() { w.reportedReady = false }},
		{w.orphan(w.supervisorSecret, func(m material) string { return m.supervisor }), func() { w.supervisorSecret = nil }},
		{w.orphan(w.sandboxSecret, func(m material) string { return m.workload }), func() { w.sandboxSecret = nil }},
	}
}

// orphan reports whether a Secret's owner is gone.
func (w *world) orphan(m *material, owner func(material) string) bool {
	return ours(m) && !(w.supervisor != nil && w.supervisor.uid == owner(*m) || w.workload != nil && w.workload.uid == owner(*m))
}

// check holds what must be true of the Pods that read Secrets. Nobody answers for a Pod whose gate somebody lifted.
func (w *world) check() {
	w.t.Helper()
	s, p := w.supervisor, w.workload
	if p == nil || p.read == nil || p.lifted == somebody {
		return
	}
	if p.read.workload != p.uid {
		w.fail("the workload has Secrets of another Pod: %+v for %s", *p.read, p.uid)
	}
	if s == nil || s.foreign || s.lifted == somebody || s.uid != w.record.SupervisorUID || p.uid != w.record.WorkloadUID {
		return // a stop has begun meanwhile, or somebody made another Pod
	}
	switch {
	case s.gated:
		w.fail("the workload runs before its supervisor")
	case p.read.supervisor != s.uid:
		w.fail("the workload has Secrets made for other Pods: %+v for %s and %s", *p.read, p.uid, s.uid)
	case s.read != nil && *s.read != *p.read:
		w.fail("the Pods have Secrets of two attempts: %+v and %+v", *s.read, *p.read)
	}
}
