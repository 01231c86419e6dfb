package reconcile

import (
	"container/heap"
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// pace is how often is looked.
type pace struct {
	resync, full time.Duration
	// most replaces full when a watch does not work and full is longer.
	most time.Duration
	// between lies between two looks that nothing calls for.
	between time.Duration
}

// ledger knows what was reported of the objects and of the looks, and decides which sandbox is looked at next. It is pure: the time
// and chance come in. It is not safe for concurrent use.
type ledger struct {
	gateway string
	pace    pace
	// random is in [0, 1).
	random func() float64

	objects [kinds]map[string]*object // by uid
	listed  [kinds]bool
	broken  [kinds]bool
	spaces  map[string]map[string]*entry // by namespace and uid of the Sandbox
	// fences are the policies that have the fence's names, by namespace and name, and opened those that open the fence of a sandbox.
	fences map[[2]string]*object
	opened map[[2]string]*opener
	// heard is what nobody was told yet: whoever changes the ledger takes it.
	heard []news

	hurried, calm queue
	// nextCalm is when the next look may begin that nothing calls for.
	nextCalm time.Time
}

func newLedger(gateway string, p pace, random func() float64) *ledger {
	l := &ledger{gateway: gateway, pace: p, random: random, spaces: map[string]map[string]*entry{}, fences: map[[2]string]*object{}, opened: map[[2]string]*opener{}}
	for k := range kinds {
		l.objects[k] = map[string]*object{}
	}
	return l
}

// put notes an object that was made or changed. One that is reported again as it was is no change.
func (l *ledger) put(o object, now time.Time) {
	if o.uid == "" || o.namespace == "" {
		return
	}
	former := l.objects[o.kind][o.uid]
	if former != nil && former.version == o.version {
		return
	}
	l.objects[o.kind][o.uid] = &o
	c := o.changed(former)
	if former != nil {
		l.detach(former, &o, c, now)
	}
	l.attach(&o, c, now)
}

// drop notes that an object is not reported any more.
func (l *ledger) drop(k kind, uid string, now time.Time) {
	if former := l.objects[k][uid]; former != nil {
		delete(l.objects[k], uid)
		l.detach(former, nil, former.changed(nil), now)
	}
}

// replace notes all objects of a kind: those that are not among them are gone.
func (l *ledger) replace(k kind, all []object, now time.Time) {
	present := make(map[string]bool, len(all))
	for _, o := range all {
		present[o.uid] = true
		l.put(o, now)
	}
	for uid := range l.objects[k] {
		if !present[uid] {
			l.drop(k, uid, now)
		}
	}
	if !l.listed[k] {
		l.listed[k] = true
		l.scheduleAll()
	}
}

// health notes whether a kind's watch works.
func (l *ledger) health(k kind, works bool) {
	if l.broken[k] == works {
		l.broken[k] = !works
		l.scheduleAll()
	}
}

// attach adds an object to what it concerns.
func (l *ledger) attach(o *object, c kindOfChange, now time.Time) {
	switch o.kind {
	case boxes:
		e := l.entry(key{o.namespace, o.uid})
		e.box = o
		e.ours = o.managed && o.gateway == l.gateway && o.id != ""
		e.ref = plan.Ref{GatewayID: l.gateway, SandboxID: o.id, Namespace: o.namespace, Name: o.name, UID: o.uid}
		if e.saw(o.record, o.readable, now) {
			e.released()
			c = slight
		}
		e.stands(now)
		if o.version != e.version {
			e.changedAt(now, c)
		}
		l.schedule(e)
		return
	case policies:
		if !o.foreign {
			l.fences[[2]string{o.namespace, o.name}] = o
		}
	case pods, services:
		if o.owner != "" {
			e := l.entry(key{o.namespace, o.owner})
			e.parts[o.uid] = o
			e.stands(now)
			if e.box == nil && o.supervises(l.gateway) {
				e.ours = true
				e.ref = plan.Ref{GatewayID: l.gateway, SandboxID: o.id, Namespace: o.namespace, Name: o.ownerName, UID: o.owner}
			}
		}
	default:
	}
	l.touch(o, c, now)
}

// detach takes an object out of what it concerned. next is what it has become, nil when it is gone.
func (l *ledger) detach(o, next *object, c kindOfChange, now time.Time) {
	switch owner := l.spaces[o.namespace][o.owner]; {
	case o.kind == boxes && next == nil:
		e := l.spaces[o.namespace][o.uid]
		e.box = nil
		e.changedAt(now, c)
		l.schedule(e)
		return
	case o.kind == policies && !o.foreign:
		if at := [2]string{o.namespace, o.name}; l.fences[at] == o {
			delete(l.fences, at)
		}
	case o.kind == boxes: // attach replaces it
		return
	case owner != nil && (next == nil || next.owner != o.owner):
		delete(owner.parts, o.uid)
		owner.stands(now)
	}
	l.touch(o, c, now)
}

// touch notes a change of everything that a companion concerns: the Sandbox that owns it and, since owners can be edited, the one
// whose pair it says it is of; of a policy, all in its namespace.
func (l *ledger) touch(o *object, c kindOfChange, now time.Time) {
	for uid, e := range l.spaces[o.namespace] {
		if o.kind == policies || uid == o.owner || o.pair != "" && o.pair == workspace.Pair(e.ref.SandboxID) {
			e.changedAt(now, c)
			l.schedule(e)
		}
	}
}

// entry finds or makes one.
func (l *ledger) entry(k key) *entry {
	space := l.spaces[k.namespace]
	if space == nil {
		space = map[string]*entry{}
		l.spaces[k.namespace] = space
	}
	e := space[k.uid]
	if e == nil {
		e = &entry{key: k, parts: map[string]*object{}, index: -1}
		space[k.uid] = e
	}
	return e
}

// schedule puts an entry where it belongs now: into a queue, into none, or out of the ledger.
func (l *ledger) schedule(e *entry) {
	l.hurried.remove(e)
	l.calm.remove(e)
	if e.working {
		return
	}
	if e.box == nil && len(e.parts) == 0 {
		l.reopen(e, nil) // also what opened its fence alone
		space := l.spaces[e.key.namespace]
		if delete(space, e.key.uid); len(space) == 0 {
			delete(l.spaces, e.key.namespace)
		}
		return
	}
	if !e.ours || e.ref.Name == "" || e.ref.SandboxID == "" || !l.ready() {
		return
	}
	most := l.pace.full
	if l.degraded() {
		most = min(most, l.pace.most)
	}
	fence, egress := l.fenceOf(e)
	fallen := e.box != nil && e.readable && e.record.Phase == runstate.Released && e.fallen(fence, egress)
	e.due, e.calm = e.when(e.ending == never && e.suspect(fence, egress), fallen, most)
	if e.calm {
		heap.Push(&l.calm, e)
	} else {
		heap.Push(&l.hurried, e)
	}
}

func (l *ledger) scheduleAll() {
	for _, space := range l.spaces {
		for _, e := range space {
			l.schedule(e)
		}
	}
}

// ready reports whether enough was listed to begin: the Sandboxes, and of the rest what can be.
func (l *ledger) ready() bool {
	for k := range kinds {
		if !l.listed[k] && (k == boxes || !l.broken[k]) {
			return false
		}
	}
	return true
}

func (l *ledger) degraded() bool { return l.broken != [kinds]bool{} }

// fenceOf is the policy that fences the namespace's workloads, nil when there is none, and whether there is one for its supervisors.
func (l *ledger) fenceOf(e *entry) (fence *object, egress bool) {
	supervisors := l.fences[[2]string{e.key.namespace, workspace.SupervisorEgress}]
	return l.fences[[2]string{e.key.namespace, workspace.WorkloadFence}], supervisors != nil && !supervisors.deleting
}

// task is one look to make.
type task struct {
	key   key
	ref   plan.Ref
	stamp uint64
	// record as it was last seen, since when it was like that, and whether it was seen to become so; of a Sandbox whose record can be read.
	record    runstate.Record
	readable  bool
	since     time.Time
	witnessed bool
}

// take is the look that is due, which must be ended with done, or else how long none will be; negative when nothing is known that
// will ever be due.
func (l *ledger) take(now time.Time) (t task, wait time.Duration, ok bool) {
	wait = -1
	if len(l.hurried) > 0 {
		if wait = l.hurried[0].due.Sub(now); wait <= 0 {
			return l.begin(heap.Pop(&l.hurried).(*entry)), 0, true
		}
	}
	if len(l.calm) == 0 {
		return task{}, wait, false
	}
	pause := later(l.calm[0].due, l.nextCalm).Sub(now)
	if pause > 0 {
		if wait < 0 || pause < wait {
			wait = pause
		}
		return task{}, wait, false
	}
	l.nextCalm = now.Add(l.pace.between)
	return l.begin(heap.Pop(&l.calm).(*entry)), 0, true
}

func (l *ledger) begin(e *entry) task {
	e.working = true
	return task{key: e.key, ref: e.ref, stamp: e.stamp, record: e.record, readable: e.readable && e.box != nil, since: e.since, witnessed: e.witnessed}
}

// finding is what a look found.
type finding struct {
	ending ending
	// reason of a refusal.
	reason      verdict.Reason
	explanation string
	// stopped is why the look began a stop; empty when it began none, or one that needs no reason.
	stopped verdict.Reason
	// live is the Sandbox as it was read; nil when it was not, or is gone.
	live *sandboxapi.Object
	// openings are the policies that open its fence; inspected says that they are known.
	openings  []plan.Opening
	inspected bool
	// doomed says that a Pod of the run has less time to be ready than others.
	doomed bool
}

// change is how a sandbox is other than after its last look.
type change struct {
	// from and to are the reasons of the refusals, empty for none.
	from, to verdict.Reason
}

// inspect notes what a look found of the policies that open the fence of a sandbox; what could not be found out changes nothing.
func (l *ledger) inspect(t *task, f *finding) {
	if e := l.spaces[t.key.namespace][t.key.uid]; e != nil && f.inspected {
		l.reopen(e, f.openings)
	}
}

// done ends a look.
func (l *ledger) done(t task, f *finding, now time.Time) change {
	e := l.spaces[t.key.namespace][t.key.uid]
	if e == nil || !e.working {
		return change{}
	}
	e.working = false
	c := change{from: e.reason, to: f.reason}
	if f.live != nil && f.live.UID == t.key.uid {
		record, readable := recordOf(f.live.Annotations)
		e.saw(record, readable, now)
		e.stands(now)
		e.version = f.live.ResourceVersion
	}
	if f.ending != failed && f.ending != busy {
		e.looked = t.stamp
		if e.stamp != e.looked {
			e.changed = now
		}
	}
	if f.ending == settled || f.ending == waiting || f.ending != e.ending {
		e.failures = 0
	}
	if f.ending == busy || f.ending == failed && e.failures < tolerated {
		c.to = e.reason // nothing new
	}
	e.again = l.pace.after(f.ending, e.failures, l.random())
	e.failures++
	e.last, e.ending, e.reason = now, f.ending, c.to
	if f.ending != failed && f.ending != busy {
		e.doomed = f.doomed
	}
	l.schedule(e)
	return c
}

const (
	// firstPause is the first one after a look that found nothing out; longestFailed and longestBusy are the longest.
	firstPause    = time.Second
	longestFailed = time.Minute
	longestBusy   = 5 * time.Second
	// longestRefused is how long a person may have to wait who has put right what no watch reports.
	longestRefused = 5 * time.Minute
	// tolerated failures in a row are nothing to tell: a write of somebody else at the same time is one.
	tolerated = 2
)

// after is the pause after a look, at random: three quarters to all of the time.
func (p pace) after(end ending, failures int, random float64) time.Duration {
	doubled := func(first, longest time.Duration) time.Duration {
		return min(first<<min(failures, 16), longest)
	}
	var pause time.Duration
	switch end {
	case settled:
		pause = p.full
	case refused:
		pause = doubled(p.resync, max(longestRefused, p.resync))
	case failed:
		pause = doubled(firstPause, longestFailed)
	case busy:
		pause = doubled(firstPause, longestBusy)
	default:
		pause = p.resync
	}
	return pause - time.Duration(random*float64(pause)/4)
}
