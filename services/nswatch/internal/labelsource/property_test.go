package labelsource

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// history is the cluster as a plain log of changes.
type history struct {
	rng *rand.Rand
	log []change
	rv  uint64
}

// happen changes a random namespace, or only the version, as other resources do.
func (h *history) happen() {
	h.rv += 1 + h.rng.Uint64N(3)
	if h.rng.IntN(4) == 0 {
		return
	}
	name := fmt.Sprintf("n%d", h.rng.IntN(6))
	e := change{order: h.rv, form: upsert, namespace: allowlist.Candidate{
		Name: name, UID: fmt.Sprintf("u%d", h.rng.IntN(3)), Terminating: h.rng.IntN(5) == 0,
	}}
	if h.rng.IntN(3) == 0 {
		// What a delete event shows of its object is not true (bug corpus W07).
		e.form = removal
	}
	h.log = append(h.log, e)
}

// at is the naive answer: the state at a version.
func (h *history) at(version uint64) map[string]allowlist.Candidate {
	state := map[string]allowlist.Candidate{}
	for _, e := range h.log {
		switch {
		case e.order > version:
		case e.form == upsert:
			state[e.namespace.Name] = e.namespace
		default:
			delete(state, e.namespace.Name)
		}
	}
	return state
}

// list is the listing of a version.
func (h *history) list(version uint64) listing {
	l := listing{order: version}
	state := h.at(version)
	for _, name := range slices.Sorted(maps.Keys(state)) {
		l.namespaces, l.orders = append(l.namespaces, state[name]), append(l.orders, version)
	}
	return l
}

// walk is one random interleaving.
type walk struct {
	*testing.T
	*history
	core *core
	at   time.Duration

	listing  bool
	asked    uint64 // version of the cluster when the list was asked for
	watching bool
	position uint64
	// proven is the last list that was taken: when it was asked for, and what the cluster had come to then.
	provenAt    time.Duration
	provenOrder uint64

	reported uint64
	told     allowlist.List
	steps    []string
}

func (w *walk) note(format string, args ...any) {
	w.steps = append(w.steps, fmt.Sprintf("%s ", w.at)+fmt.Sprintf(format, args...))
}

func (w *walk) plan() {
	p := w.core.next(w.at)
	if p.list != nil {
		w.listing, w.asked = true, w.rv
		w.note("list asked for at %d", w.rv)
	}
	if p.behind {
		w.watching = false
		w.note("watch given up")
	}
	if p.watch != nil {
		w.watching, w.position = true, p.watch.from
		w.note("watch from %d", p.watch.from)
	}
	if p.wake <= w.at && !w.listing {
		w.fail("it wakes at %s, which is not later than %s, and waits for nothing", p.wake, w.at)
	}
}

// step lets one thing happen.
func (w *walk) step(faults bool) {
	w.at += time.Duration(w.rng.IntN(400)) * time.Millisecond
	switch k := w.rng.IntN(10); {
	case k < 3:
		w.happen()
	case k < 5 && w.listing:
		w.listReturns(faults)
	case k < 8 && w.watching:
		w.watchTells(faults)
	case k == 8:
		w.core.wish()
	}
	before := w.core.order
	w.plan()
	w.check(before)
	if w.rng.IntN(3) == 0 { // what several steps brought is told together
		w.tell()
	}
}

func (w *walk) listReturns(faults bool) {
	w.listing = false
	switch k := w.rng.IntN(8); {
	case faults && k == 0:
		w.note("list fails")
		w.core.listFailed(w.at, failure{kind: kindTimeout, err: errLate})
	case faults && k == 1 && w.core.known && w.core.list.floor > 1:
		old := 1 + w.rng.Uint64N(w.core.list.floor-1)
		w.note("list of the older version %d", old)
		if _, f := w.core.listed(w.at, w.list(old)); f == nil {
			w.fail("an older list was taken")
		}
	default:
		version := w.asked + w.rng.Uint64N(w.rv-w.asked+1)
		w.note("list of %d", version)
		if _, f := w.core.listed(w.at, w.list(version)); f != nil {
			w.fail("list refused: %v", f.err)
		}
		w.provenAt, w.provenOrder = w.core.list.began, w.asked
	}
}

func (w *walk) watchTells(faults bool) {
	id := w.core.watch.id
	if faults && w.rng.IntN(6) == 0 {
		k := watchKinds[w.rng.IntN(len(watchKinds))]
		w.note("watch ends: %s", k)
		w.watching = false
		w.core.watchEnded(w.at, id, failure{kind: k, err: errors.New(string(k))})
		return
	}
	for _, e := range w.log {
		if e.order > w.position {
			w.note("event %s %d %s", e.form, e.order, e.namespace.Name)
			w.position = e.order
			if e.form == removal {
				e.namespace.UID, e.namespace.Terminating = "something else", false
			}
			w.core.event(w.at, id, e)
			return
		}
	}
	w.position = max(w.position, w.rv)
	w.note("bookmark %d", w.position)
	w.core.event(w.at, id, change{form: bookmark, order: w.position})
}

// check holds the core against the naive answer.
func (w *walk) check(before uint64) {
	if w.core.order < before {
		w.fail("the order went from %d back to %d", before, w.core.order)
	}
	if w.core.known {
		want := w.list(w.core.order).namespaces
		if !slices.Equal(want, w.core.namespaces) {
			w.fail("at %d the core has\n%+v, the cluster had\n%+v", w.core.order, w.core.namespaces, want)
		}
	}
}

func plainly(c []allowlist.Candidate) allowlist.List {
	list, _ := allowlist.Select(c, allowlist.Refusals{})
	return list
}

// tell takes all reports: after that the publisher has the list of the core, whatever failed meanwhile (rule W6).
func (w *walk) tell() {
	for {
		switch in := w.core.report(plainly).(type) {
		case allowlist.Listed:
			if in.Order < w.reported {
				w.fail("order %d is reported after %d", in.Order, w.reported)
			}
			w.reported, w.told = in.Order, in.List
			if !in.List.Equal(plainly(w.list(in.Order).namespaces)) {
				w.fail("the list reported for %d is not that of the cluster", in.Order)
			}
			w.proven(in.Kind, in.ProvenAt)
		case allowlist.Proved:
			w.proven(in.Kind, in.At)
		case nil:
			if w.core.known && !w.told.Equal(plainly(w.core.namespaces)) {
				w.fail("nothing more is reported, and the publisher has another list")
			}
			return
		}
	}
}

// proven holds a proof against what the cluster was when the list was asked for.
func (w *walk) proven(kind allowlist.ProofKind, at time.Duration) {
	if kind == allowlist.ProofList && (at != w.provenAt || w.core.order < w.provenOrder) {
		w.fail("order %d is proven for %s, and the cluster was at %d when a list was asked for at %s", w.core.order, at, w.provenOrder, w.provenAt)
	}
	if !w.told.Equal(plainly(w.core.namespaces)) {
		w.fail("a proof for a list that was not reported")
	}
}

func (w *walk) fail(format string, args ...any) {
	w.Helper()
	w.Fatalf("%s\nafter\n%s", fmt.Sprintf(format, args...), strings.Join(w.steps, "\n"))
}

func TestPropertyTheSetIsThatOfTheClusterAtItsOrder(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			w := &walk{T: t, history: &history{rng: rng, rv: 10}, core: newDesk(t).core, at: time.Minute}
			w.core.begin(w.at)
			w.plan()
			for range 250 {
				w.step(true)
			}
			for range 20 {
				w.happen()
			}
			target := w.rv
			for range 400 {
				w.step(false)
			}
			if w.core.order < target {
				w.fail("without faults the core is still at %d, the cluster was at %d long ago", w.core.order, target)
			}
		})
	}
}
