package reconcile

import (
	"time"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const (
	// gap lies at least between the end of a look and the next one, so that the many events of one change lead to few looks.
	gap = time.Second
	// settling is how long nothing must have changed of a released run before it is looked at, which is when its Pods have come up or failed,
	// and mostSettling how long that may put a look off. One at the first change would see nothing, and so on until the last.
	settling     = gap / 2
	mostSettling = 2 * gap
	// underWay is how long a released run is left alone of which is told only that it gets on, and promptly how soon after the last change it
	// is looked at when its Pods are ready: the controller says the same of the Sandbox in a moment. It may take a gap for it.
	underWay = 5 * gap
	promptly = gap / 4
	// orphanGrace is what the garbage collector has to remove the companions of a Sandbox that is gone, before we do it.
	orphanGrace = 5 * time.Second
	// abandonedAfter is when a start that makes no progress is looked at: just later than the planner may take it for abandoned.
	abandonedAfter = plan.IdleLimit + 100*time.Millisecond
	// endedAfter is the same of a run whose image is not to be had.
	endedAfter = plan.ImageLimit + 100*time.Millisecond
)

// ending is how a look ended. The zero ending is that there was none.
type ending uint8

const (
	never ending = iota
	// settled: nothing is left to do, until something changes.
	settled
	// waiting: the sandbox is on its way.
	waiting
	// refused: a person has to do something, or time.
	refused
	// failed: it could not be found out.
	failed
	// busy: somebody else is at work on it in this process.
	busy
)

var endingNames = [...]string{"never", "settled", "waiting", "refused", "failed", "busy"}

func (e ending) String() string { return endingNames[e] }

// key names an entry: the uid of a Sandbox, within the namespace that it and its companions are in.
type key struct{ namespace, uid string }

// kindOfChange is how much a change may mean. The zero kind may mean anything.
type kindOfChange uint8

const (
	weighty kindOfChange = iota
	// alien: weighty, and no step of a start.
	alien
	// distant: a policy of others.
	distant
	// slight: a Pod or the Sandbox is further on its way to be ready, or back, and nothing else of it is other than before.
	slight
)

// entry is one Sandbox, or one that is gone and has left companions.
type entry struct {
	key  key
	ref  plan.Ref
	ours bool
	// box is the Sandbox; nil when there is none in the cache.
	box *object
	// parts are its Pods and Services, by uid.
	parts map[string]*object

	// stamp counts changes, looked is what it was when the last look that found something out began, and changed is the time of the
	// first change since then.
	stamp, looked uint64
	changed       time.Time
	// latest is the time of the last change.
	latest time.Time
	// distant says that all that has changed since then are policies of others, slight that all of it was somebody getting on, and alien that
	// something of it was no step of a start.
	distant, slight, alien bool
	// told says that both Pods of the run were reported whole, and up since when both are ready; zero when they are not.
	told bool
	up   time.Time

	// record as it was last seen, since when it has been like that, and whether another one was seen before.
	record    runstate.Record
	readable  bool
	since     time.Time
	witnessed bool

	// last is when the last look ended, again how long after that the next one is due when nothing changes, and failures how many in
	// a row found nothing out.
	last     time.Time
	again    time.Duration
	ending   ending
	failures int
	// version is the one of the Sandbox that the last look rested on.
	version string
	// reason of the last look's refusal.
	reason verdict.Reason
	// openers are the policies that open the sandbox's fence, as it was last known.
	openers []*opener
	// doomed says that the last look found a Pod that has [plan.ImageLimit] to be ready.
	doomed bool

	working bool
	// due, calm and index belong to the queues.
	due   time.Time
	calm  bool
	index int
}

// changedAt notes a change.
func (e *entry) changedAt(now time.Time, c kindOfChange) {
	if e.stamp == e.looked {
		e.changed, e.distant, e.slight, e.alien = now, true, true, false
	}
	e.distant, e.slight, e.alien = e.distant && c == distant, e.slight && c == slight, e.alien || c == alien
	e.latest = later(e.latest, now)
	e.stamp++
}

// saw notes a record, whoever saw it, and reports whether that was a run's release.
func (e *entry) saw(record runstate.Record, readable bool, now time.Time) (release bool) {
	if e.since.IsZero() || record != e.record || readable != e.readable {
		release = e.readable && readable && e.record.Phase == runstate.Preparing && record.Phase == runstate.Released
		e.record, e.readable, e.since, e.witnessed = record, readable, now, !e.since.IsZero()
	}
	return release
}

// released takes what has changed before a release for the steps of the start, which are the call's that released the run, and was right
// behind its last reads. What was none of them is found by the look that a run has that gets on.
func (e *entry) released() { e.slight = e.slight || !e.alien }

// stands notes whether both Pods of the run are ready.
func (e *entry) stands(now time.Time) {
	supervisor, workload := e.partOf(pods, e.record.SupervisorUID, workspace.RoleSupervisor), e.partOf(pods, e.record.WorkloadUID, workspace.RoleWorkload)
	e.told = supervisor != nil && supervisor.shape != 0 && workload != nil && workload.shape != 0
	switch ready := e.told && supervisor.ready && workload.ready; {
	case !ready:
		e.up = time.Time{}
	case e.up.IsZero():
		e.up = now
	}
}

// left is when a start is looked at that is left to the call that is at it; false when there is none, or its time has passed.
func (e *entry) left() (time.Time, bool) {
	if e.box == nil || e.box.deleting || !e.readable || e.record.Phase != runstate.Preparing {
		return time.Time{}, false
	}
	at := e.since.Add(abandonedAfter)
	return at, e.last.Before(at)
}

// ends is when a released run is looked at that has less time than others to be ready; false when it has not, or that has passed.
func (e *entry) ends() (time.Time, bool) {
	if e.box == nil || !e.doomed || e.record.Phase != runstate.Released {
		return time.Time{}, false
	}
	at := e.since.Add(endedAfter)
	return at, e.last.Before(at)
}

// settles is until when the changes of a run are gathered that was released and is not ready; zero for any other.
func (e *entry) settles() time.Time {
	if e.box == nil || e.box.deleting || !e.readable || e.record.Phase != runstate.Released {
		return time.Time{}
	}
	first := later(e.since, e.changed)
	at, last := later(e.since, e.latest).Add(settling), first.Add(mostSettling)
	switch {
	case !e.slight, !e.told:
	case e.up.IsZero():
		return first.Add(underWay)
	default:
		at, last = later(e.up, e.latest).Add(promptly), e.up.Add(gap)
	}
	if last.Before(at) {
		return last
	}
	return at
}

// when is the time of the next look, and whether nothing calls for it. What has fallen is not gathered with other changes.
func (e *entry) when(suspect, fallen bool, most time.Duration) (due time.Time, calm bool) {
	earliest := e.last.Add(gap)
	if e.ending == failed || e.ending == busy {
		earliest = e.last.Add(max(e.again, gap))
	}
	if at, ok := e.left(); ok {
		return later(at, earliest), false
	}
	changed := e.stamp != e.looked
	switch {
	case changed && e.box == nil:
		return later(e.changed.Add(orphanGrace), earliest), false
	case changed && fallen && !e.distant:
		return later(e.changed, earliest), false
	case changed && (!e.distant || e.ending == never):
		return later(e.before(later(e.changed, e.settles())), earliest), e.ending == never && !suspect
	case changed && e.ending == settled: // there is nothing to do but to tell
		return later(e.changed, earliest), true
	case e.ending == settled:
		return later(e.last.Add(min(e.again, most)), earliest), true
	}
	return later(e.before(e.last.Add(e.again)), earliest), false
}

// before is a time, or the one before it at which the sandbox is looked at whether anything changes or not.
func (e *entry) before(due time.Time) time.Time {
	if at, ok := e.ends(); ok && at.Before(due) {
		due = at
	}
	if at := e.last.Add(e.again); e.ending != never && at.Before(due) {
		due = at
	}
	return due
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// suspect reports whether the cached metadata alone show that a look may find something to do. It decides what comes first, and
// nothing else. fence is the policy that fences the namespace's workloads; nil when there is none.
func (e *entry) suspect(fence *object, egress bool) bool {
	switch r := &e.record; {
	case e.box == nil, e.box.deleting, !e.readable, r.Phase != "":
		return true
	case r.Generation == "": // stopped, or not ours to watch over
		return e.has(pods, "", workspace.RoleSupervisor)
	default:
		return r.Readiness != runstate.Ready || e.fallen(fence, egress)
	}
}

// fallen reports whether the cached metadata alone show that a run has lost its fence, or has another one, its Service or a Pod.
func (e *entry) fallen(fence *object, egress bool) bool {
	r := &e.record
	switch {
	case fence == nil, !egress, fence.deleting, fence.uid != r.FenceUID, fence.generation != r.FenceGeneration:
		return true
	}
	return !e.has(services, "", "") || !e.has(pods, r.SupervisorUID, workspace.RoleSupervisor) || !e.has(pods, r.WorkloadUID, workspace.RoleWorkload)
}

// has reports whether a part is there that is not going; an empty uid is any.
func (e *entry) has(k kind, uid, role string) bool { return e.partOf(k, uid, role) != nil }

// partOf is a part that is not going; nil when there is none.
func (e *entry) partOf(k kind, uid, role string) *object {
	for _, p := range e.parts {
		if p.kind == k && p.role == role && !p.deleting && (uid == "" || p.uid == uid) {
			return p
		}
	}
	return nil
}
