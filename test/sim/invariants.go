package sim

import (
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Invariant is one of the sentences that hold at every instant. The zero value is none.
type Invariant int

// The invariants, numbered as in the protocol; the sixth is what rule W2 says about the bucket.
const (
	NoStaleGrant Invariant = iota + 1
	NoResurrection
	NoWidening
	NoSplit
	Liveness
	Fencing
)

// String names the invariant in a test's output.
func (i Invariant) String() string {
	return [...]string{"none", "no stale grant", "no resurrection", "no widening", "no split", "liveness", "fencing"}[i]
}

// Violation is one breach of an Invariant.
type Violation struct {
	Invariant Invariant
	At        time.Duration
	What      string
}

// String is a line for people.
func (v Violation) String() string {
	return fmt.Sprintf("%s is broken at %s: %s", v.Invariant, v.At, v.What)
}

// never are names that are never in the source. The attacker's are among them.
var never = []string{"never-listed", forged}

// place is where in the order of lists an answer was given.
type place struct{ epoch, revision uint64 }

func (p place) before(other place) bool {
	return p.epoch < other.epoch || p.epoch == other.epoch && p.revision < other.revision
}

// judge asks every reader about every name after every event, and compares the answers with the truth.
type judge struct {
	w     *World
	names []string
	// answers are those of the last look, by reader and name; fresh says which readers were Fresh.
	answers [][]allowlist.Answer
	fresh   []bool
	// goodSince is since when every reader has been Fresh and right about every name; zero when one is not.
	goodSince time.Duration
}

func newJudge(w *World) *judge { return &judge{w: w} }

// prepare waits for the world to be whole.
func (j *judge) prepare() {
	j.names = append(append(j.names, j.w.source.names...), never...)
	j.fresh = make([]bool, len(j.w.readers))
	for range j.w.readers {
		j.answers = append(j.answers, make([]allowlist.Answer, len(j.names)))
	}
}

// broken adds a violation.
func (j *judge) broken(i Invariant, format string, args ...any) {
	v := Violation{Invariant: i, At: j.w.now, What: fmt.Sprintf(format, args...)}
	j.w.result.Violations = append(j.w.result.Violations, v)
	j.w.note("VIOLATION: %s", v)
}

// look is one look at everything.
func (j *judge) look() {
	if j.names == nil {
		j.prepare()
	}
	good := true
	for i, r := range j.w.readers {
		good = j.question(i, r) && good
	}
	for i := range j.fresh {
		for k := i + 1; k < len(j.fresh); k++ {
			j.compare(i, k)
		}
	}
	switch {
	case !good:
		j.goodSince = 0
	case j.goodSince == 0:
		j.goodSince = j.w.now
	}
	j.late(good)
}

// question asks one reader about every name, and reports whether it is Fresh and right about all of them.
func (j *judge) question(i int, r *reader) (good bool) {
	j.fresh[i] = false
	if !r.answers() {
		return false
	}
	now := r.now()
	j.fresh[i] = r.machine.View().Condition(now).State == allowlist.Fresh
	good = j.fresh[i]
	for k, name := range j.names {
		a := r.ask(name, now)
		j.answers[i][k] = a
		j.w.result.Checks++
		uid, held := j.w.source.uids[name]
		good = good && a.Allowed() == held && a.UID == uid
		if a.Allowed() {
			j.granted(r, a)
		} else if at := (place{a.Epoch, a.Revision}); r.refused[name].before(at) {
			r.refused[name] = at
		}
	}
	return good
}

// granted judges a yes.
func (j *judge) granted(r *reader, a allowlist.Answer) {
	w := j.w
	w.result.Yeses++
	if at := (place{a.Epoch, a.Revision}); at.before(r.refused[a.Namespace]) {
		j.broken(NoResurrection, "%s says yes to %s from epoch %d and revision %d, after a no at %v", r.name, a.Namespace, a.Epoch, a.Revision, r.refused[a.Namespace])
	}
	if !w.source.heldSince(a.Namespace, a.UID, 0) {
		j.broken(NoWidening, "%s says yes to %s with uid %q, which was never in the source", r.name, a.Namespace, a.UID)
		return
	}
	age := r.proofs.oldest(w.now, w.admitted()+r.napped(0), &w.settings, r.napped)
	switch {
	case age < 0:
		j.broken(NoStaleGrant, "%s says yes to %s, and every beat that it could rest on has run out", r.name, a.Namespace)
	case !w.source.heldSince(a.Namespace, a.UID, w.now-age):
		j.broken(NoStaleGrant, "%s says yes to %s with uid %q, which has not been in the source for %s", r.name, a.Namespace, a.UID, age)
	}
}

// compare judges the answers of two readers that are Fresh at the same list.
func (j *judge) compare(i, k int) {
	if !j.fresh[i] || !j.fresh[k] {
		return
	}
	for n, a := range j.answers[i] {
		b := j.answers[k][n]
		if a.Epoch != b.Epoch || a.Revision != b.Revision {
			return
		}
		if a.Allowed() && b.Allowed() && a.UID != b.UID || a.Allowed() && b.Reason == verdict.NotListed || b.Allowed() && a.Reason == verdict.NotListed {
			j.broken(NoSplit, "at epoch %d and revision %d %s says %s to %s, and %s says %s", a.Epoch, a.Revision,
				j.w.readers[i].name, said(a), a.Namespace, j.w.readers[k].name, said(b))
		}
	}
}

func said(a allowlist.Answer) string {
	if a.Allowed() {
		return "yes, uid " + a.UID
	}
	return string(a.Reason)
}

// late judges how long it takes until all is well.
func (j *judge) late(good bool) {
	w := j.w
	if good || w.now < w.weather.calm+w.liveness() {
		return
	}
	var states []string
	for _, r := range w.readers {
		c := r.machine.View().Condition(r.now())
		states = append(states, fmt.Sprintf("%s is %s (%s)", r.name, c.State, c.Reason))
	}
	j.broken(Liveness, "%s after the last fault not every reader is Fresh and right: %v; the source holds %v", w.now-w.weather.calm, states, w.source.show())
}

// admitted is the largest error of a beat's issue that the package comment of shared/allowlist admits against a broker
// that delays on purpose: what rule R4 lets pass at a start. What the quickest beat may creep after that is left out,
// because a schedule is too short for it to count. Where nothing delays, it is an honest transit.
func (w *World) admitted() time.Duration {
	if w.weather.prompt {
		return honest
	}
	return w.settings.MaxClockSkew.Std() + 2*w.weather.worstWall + honest
}

// liveness is the bound of the fifth invariant: a lease that must run out, a write in doubt, a missed deadline that
// asks for another consumer, and a look at the keys, which takes longer to come than beats are on trial.
func (w *World) liveness() time.Duration {
	return leaseLife + leaseRetry + patience + w.settings.MaxStaleness.Std() + 5*w.settings.HeartbeatInterval.Std()
}

// replaced judges a write that was stored: rule W2 fences off every earlier writer, and beats come after the fence.
// Sequences that were given twice can make any compare-and-set succeed; the readers are then the ones who keep the
// order.
func (j *judge) replaced(b *broker, before, m *message) {
	if b.forgot {
		return
	}
	if before != nil && before.stamp != nil && before.stamp.after(m.stamp) {
		j.broken(Fencing, "%s took the place of %s", m.show(), before.show())
	}
	if m.stamp.heartbeat && !b.fenced[m.stamp.epoch] {
		j.broken(Fencing, "%s was stored, and no snapshot of its epoch was", m.show())
	}
}
