package plan_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

var (
	seed  = flag.Uint64("seed", 0, "replay one schedule")
	seeds = flag.Uint64("seeds", defaultSeeds, "how many schedules to try")
)

// TestSchedules lets calls, the reconcile loop, the controller and somebody with rights of his own take turns in any order. A failure
// prints the schedule; -seed replays it.
func TestSchedules(t *testing.T) {
	from, to := uint64(1), *seeds
	if *seed != 0 {
		from, to = *seed, *seed
	}
	ends := map[string]int{}
	for s := from; s <= to; s++ {
		ends[schedule(t, s)]++
	}
	if *seed == 0 && (ends["stands"] < int(*seeds)/20 || ends["at rest"] < int(*seeds)/20 || ends["gone"] < int(*seeds)/50) {
		t.Errorf("the schedules end too often alike: %v", ends)
	}
}

// crowd is who is at work in a schedule.
type crowd struct {
	w     *world
	alive []*actor
	epoch int64
	// bold makes most calls of the same run, calm looks of the reconcile loop, with less going wrong.
	bold, calm, meddles, deletes bool
}

// working reports whether the attempt with this name may be at work.
func (c *crowd) working(attempt string) bool {
	return slices.ContainsFunc(c.alive, func(a *actor) bool { return a.name == attempt })
}

func (c *crowd) leave(a *actor) {
	c.alive = slices.DeleteFunc(c.alive, func(b *actor) bool { return a == b })
}

func (c *crowd) act() {
	a := c.alive[c.w.rand.IntN(len(c.alive))]
	if a.act(c.working); a.over {
		c.leave(a)
	}
}

// dies ends one, whose last write may come later.
func (c *crowd) dies() {
	w := c.w
	a := c.alive[w.rand.IntN(len(c.alive))]
	w.say("%s dies", a.name)
	c.leave(a)
	if w.inflight == nil && len(a.queue) > 0 && w.rand.IntN(2) == 0 {
		w.say("%s has one write on its way", a.name)
		w.inflight = a.queue[0]
	}
}

func (w *world) lands() {
	if w.inflight != nil {
		w.say("the write that was on its way comes")
		w.inflight()
		w.inflight = nil
		w.theirsStand()
	}
}

// anyone is a call, or a look of the reconcile loop.
func (c *crowd) anyone() *actor {
	w := c.w
	if w.rand.IntN(3) == 0 && !c.bold || w.rand.IntN(12) == 0 {
		c.epoch++
	}
	goals := []plan.Goal{plan.Provision, plan.Provision, plan.Restart, plan.Restart, plan.Release, plan.Keep, plan.Keep}
	if c.bold {
		goals = []plan.Goal{plan.Provision, plan.Restart, plan.Restart, plan.Restart, plan.Keep}
	}
	if c.calm {
		goals = []plan.Goal{plan.Keep, plan.Keep, plan.Keep, plan.Keep, plan.Keep, plan.Keep, plan.Keep, plan.Restart}
	}
	if c.deletes {
		goals = append(goals, plan.Remove)
	}
	goal := goals[w.rand.IntN(len(goals))]
	r := run(c.epoch)
	if goal == plan.Provision {
		r = run(1)
	}
	if goal == plan.Release && w.rand.IntN(2) == 0 {
		r = plan.Run{}
	}
	a := w.actor(goal, r)
	a.idle = goal == plan.Keep
	return a
}

// turn is one thing that happens.
func (c *crowd) turn() {
	w := c.w
	switch n := w.rand.IntN(40); {
	case n < 17 && len(c.alive) > 0:
		c.act()
	case n < 27:
		w.controller()
	case n < 28 && len(c.alive) > 0:
		c.dies()
	case n < 30:
		w.lands()
	case n < 33 && c.meddles && (!c.calm || w.rand.IntN(6) == 0):
		w.meddle()
	case n < 34 && c.deletes && w.rand.IntN(20) == 0 && !w.gone:
		w.say("the Sandbox is deleted")
		w.deleting = true
		w.change++
	case n < 37 && len(c.alive) < 4:
		c.alive = append(c.alive, c.anyone())
	}
}

// beginning is where a schedule begins: with a new Sandbox, with a run that stands or with one that was stopped.
func beginning(t *testing.T, version sandboxapi.Version, n int) *world {
	switch n {
	case 0, 1:
		return up(t, version)
	case 2:
		return down(t, version)
	}
	return newWorld(t, version)
}

// schedule plays one, and says how it ends.
func schedule(t *testing.T, s uint64) string {
	r := rand.New(rand.NewPCG(s, 7))
	w := beginning(t, versions()[r.IntN(2)], r.IntN(6))
	w.rand = r
	w.say("seed %d, %s", s, w.version)
	w.flaky = r.IntN(3) == 0
	if r.IntN(8) == 0 {
		w.webhook = "a container was added"
	}
	c := &crowd{w: w, epoch: 1, bold: r.IntN(3) == 0, calm: r.IntN(3) == 0, meddles: r.IntN(2) == 0, deletes: r.IntN(4) == 0}
	for range 180 {
		c.turn()
	}
	for i := 0; i < 400 && len(c.alive) > 0; i++ { // whoever is alive comes to an end
		c.act()
		for i%5 == 0 && w.controller() {
		}
	}
	w.lands()
	return w.settles()
}

// settles lets the reconcile loop end what is left, and holds that it then has nothing to do, whatever becomes of the fence.
func (w *world) settles() string {
	w.t.Helper()
	w.flaky = false
	w.foreignGoes()
	if w.deleting {
		w.gone = true
	}
	for range 3 {
		for w.controller() {
		}
		w.keep()
		w.elapsed += plan.ReadyLimit + time.Minute // a run whose Secrets somebody removed does not become ready
	}
	if w.gone {
		if w.supervisor != nil || w.workload != nil || w.service != nil || w.sandboxSecret != nil || w.supervisorSecret != nil {
			w.fail("a Sandbox that is gone left supervisor %+v, workload %+v, service %+v, Secrets %+v %+v", w.supervisor, w.workload, w.service, w.sandboxSecret, w.supervisorSecret)
		}
		return "gone"
	}
	w.settled()
	if w.mode == sandboxapi.Running {
		return "stands"
	}
	before := w.writes
	w.fence = &plan.Policy{Standing: plan.Stands, UID: w.uid("fence"), Generation: 7}
	w.keep()
	if w.writes != before || w.record.Phase != "" {
		w.fail("a sandbox at rest is written to after its fence was made anew")
	}
	return "at rest"
}

// foreignGoes takes away what is somebody else's, and what somebody released.
func (w *world) foreignGoes() {
	if w.supervisor != nil && w.supervisor.foreign {
		w.supervisor = nil
	}
	if w.workload != nil && w.workload.foreign {
		w.workload = nil
	}
	if w.service != nil && w.service.Ownership == plan.Theirs {
		w.service = nil
	}
	for _, at := range []**material{&w.sandboxSecret, &w.supervisorSecret} {
		if !ours(*at) {
			*at = nil
		}
	}
	w.theirs = nil
}

// meddle is somebody with rights of his own.
func (w *world) meddle() {
	deeds := w.deeds()
	d := deeds[w.rand.IntN(len(deeds))]
	if d.can {
		w.say("somebody %s", d.name)
		w.changing(d.do)
	}
}

type deed struct {
	name string
	can  bool
	do   func()
}

func (w *world) deeds() []deed {
	s, p := w.supervisor, w.workload
	lift := func(pod *pod) func() { return func() { pod.gated, pod.lifted = false, somebody } }
	fenced := func(do func()) func() { return func() { do(); w.fenced++ } }
	return append([]deed{
		{"lifts the supervisor's gate", s != nil && s.gated, lift(s)},
		{"lifts the workload's gate", p != nil && p.gated, lift(p)},
		{"deletes the supervisor", s != nil, func() { s.deleting = true }},
		{"deletes the workload", p != nil, func() { p.deleting = true }},
		{"replaces the supervisor", s != nil && !s.foreign, func() {
			w.supervisor = &pod{uid: w.uid("supervisor"), run: s.run, gated: w.rand.IntN(2) == 0, lifted: somebody}
		}},
		{"replaces the workload", p != nil && !p.foreign, func() {
			w.workload = &pod{uid: w.uid("workload"), gated: w.rand.IntN(2) == 0, lifted: somebody, altered: w.webhook}
		}},
		{"has a supervisor of that name", s == nil, func() { w.supervisor = &pod{uid: w.uid("foreign"), foreign: true, gated: w.rand.IntN(2) == 0} }},
		{"has a workload of that name", p == nil, func() { w.workload = &pod{uid: w.uid("foreign"), foreign: true, gated: w.rand.IntN(2) == 0} }},
		{"ends the supervisor", s != nil && !s.gated, func() { s.ended, s.ready = true, false }},
		{"ends the workload", p != nil && !p.gated, func() { p.ended = true }},
		{"makes the supervisor restart", s != nil && !s.gated, func() { s.restarted, s.ready = true, false }},
		{"has the supervisor not ready for a while", s != nil && s.ready, func() { s.ready = false }},
		{"suspends the Sandbox", true, func() { w.mode, w.suspended = sandboxapi.Suspended, false }},
		{"lets the Sandbox run", true, func() { w.mode = sandboxapi.Running }},
		{"forgets the attempt", w.record.Attempt != "", func() { w.record.Attempt = "" }},
		{"forgets the run", w.record.Session != "", func() { w.record.Session, w.record.Epoch = "", 0 }},
	}, w.fenceDeeds(fenced)...)
}

func (w *world) fenceDeeds(fenced func(func()) func()) []deed {
	return []deed{
		{"deletes the fence", w.fence != nil, fenced(func() { w.fence = nil })},
		{"deletes the egress policy", w.egress != nil, fenced(func() { w.egress = nil })},
		{"alters the fence", w.fence != nil, fenced(func() { w.fence.Generation++; w.fence.Standing = plan.Altered })},
		{"touches the fence", w.fence != nil, fenced(func() { w.fence.Generation++ })},
		{"makes the fence anew", w.fence != nil, fenced(func() { w.fence = &plan.Policy{Standing: plan.Stands, UID: w.uid("fence"), Generation: 1} })},
		{"mends the fence", w.fence != nil && w.fence.Standing != plan.Stands, fenced(func() { w.fence.Generation++; w.fence.Standing = plan.Stands })},
		{"has a fence of that name", w.fence == nil, fenced(func() { w.fence = &plan.Policy{Standing: plan.Foreign, UID: w.uid("foreign"), Generation: 1} })},
		{"has a Secret of the sandbox's name", w.sandboxSecret == nil, w.foreign(&w.sandboxSecret)},
		{"has a Secret of the supervisor's name", w.supervisorSecret == nil, w.foreign(&w.supervisorSecret)},
		{"deletes the Service", w.service != nil && w.service.Ownership != plan.Theirs, func() { w.service = nil }},
		{"has a Service of that name", w.service == nil, func() { w.service = &plan.Service{UID: w.uid("foreign"), ClusterIP: "10.0.0.2"} }},
	}
}
