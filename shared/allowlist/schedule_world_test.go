package allowlist

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The schedule tests couple writers, a broker and readers under one seeded order of events, and hold the protocol's
// invariants against a plain record of what the source held. Everything that decides is the real code.

const (
	tick      = 20 * time.Millisecond
	evil      = "evil" // a name that the source never holds
	faultTime = 100 * time.Second
	calmTime  = 60 * time.Second
)

var worldNames = []string{"a", "b", "c", "d"}

// world is one schedule.
type world struct {
	t      testing.TB
	random *rand.Rand
	now    time.Duration // true time
	trace  []string
	broken string // the first violation
	// Each schedule has its own mix: few or many faults, of some kinds and not of others, on a busy or a quiet source.
	faults, flips int // in 1000 ticks
	kinds         int // bits

	// held is, for each name, the spans of true time in which the source held it; an open span ends at -1.
	held    map[string][][2]time.Duration
	version uint64
	events  []sourceEvent
	frozen  time.Duration // until then the API answers nothing and delivers nothing

	broker  *brokerSim
	writers []*writerSim
	readers []*readerSim
	started int
	// split is what each list of an epoch and revision was seen to say: invariant 4.
	split map[stamp]map[string]bool
	next  []later
}

// later is something that happens at an instant.
type later struct {
	at time.Duration
	do func()
}

// sourceEvent is a watch event: the whole set after it, as our own watch shell would hand it on.
type sourceEvent struct {
	at      time.Duration
	version uint64
	names   []string
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 3)), held: map[string][][2]time.Duration{}, split: map[stamp]map[string]bool{},
		broker: &brokerSim{store: *newStore()}, version: 1,
	}
	w.faults, w.flips, w.kinds = 2<<w.random.IntN(4), 1<<w.random.IntN(4), w.random.IntN(1<<15)
	for _, name := range worldNames[:2] {
		w.held[name] = [][2]time.Duration{{0, -1}}
	}
	for i := range 2 {
		w.readers = append(w.readers, newReaderSim(w, i))
	}
	w.startWriter()
	return w
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%9s ", w.now)+fmt.Sprintf(format, args...))
}

func (w *world) violate(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
		w.note("VIOLATION: %s", w.broken)
	}
}

func (w *world) after(d time.Duration, do func()) {
	w.next = append(w.next, later{w.now + d, do})
}

func (w *world) chance(perMille int) bool { return w.random.IntN(1000) < perMille }

func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.random.Int64N(int64(high-low)))
}

func (w *world) names() (names []string) {
	for _, name := range worldNames {
		if spans := w.held[name]; len(spans) > 0 && spans[len(spans)-1][1] < 0 {
			names = append(names, name)
		}
	}
	return names
}

// flip adds a name to the source, or removes it.
func (w *world) flip(name string) {
	w.version++
	spans := w.held[name]
	if n := len(spans); n > 0 && spans[n-1][1] < 0 {
		spans[n-1][1] = w.now
		w.note("source removes %s", name)
	} else {
		w.held[name] = append(spans, [2]time.Duration{w.now, -1})
		w.note("source adds %s", name)
	}
	w.events = append(w.events, sourceEvent{w.now, w.version, w.names()})
}

// heldWithin reports whether the source held name at some instant from a bound ago until now.
func (w *world) heldWithin(name string, bound time.Duration) bool {
	return slices.ContainsFunc(w.held[name], func(span [2]time.Duration) bool { return span[1] < 0 || span[1] >= w.now-bound })
}

// run plays the schedule and returns the first violation; empty when there is none.
func (w *world) run() string {
	for w.now < faultTime+calmTime && w.broken == "" {
		if w.now == faultTime {
			w.calm()
		}
		if w.now < faultTime {
			w.trouble()
		}
		if w.now < faultTime+5*time.Second && w.chance(w.flips) {
			w.flip(worldNames[w.random.IntN(len(worldNames))])
		}
		w.now += tick
		due := w.next
		w.next = nil
		for _, l := range due {
			if l.at <= w.now {
				l.do()
			} else {
				w.next = append(w.next, l)
			}
		}
		for _, writer := range w.writers {
			writer.step()
		}
		for _, r := range w.readers {
			r.step()
			r.check()
		}
	}
	for _, r := range w.readers {
		if c := r.reader.View().Condition(r.instant()); c.State != Fresh {
			w.violate("invariant 5: reader %d is %s (%s) %s after the last fault", r.id, c.State, c.Reason, calmTime)
		}
		for _, name := range worldNames {
			if granted, held := r.reader.View().Check(name, r.instant()).Allowed(), slices.Contains(w.names(), name); granted != held {
				w.violate("invariant 5: reader %d grants %s: %v; the source holds it: %v", r.id, name, granted, held)
			}
		}
	}
	return w.broken
}

// calm ends every fault and leaves one writer that is elected.
func (w *world) calm() {
	w.note("the faults end")
	w.frozen, w.broker.down, w.broker.noAck = 0, 0, 0
	for _, r := range w.readers {
		r.lag, r.lagGrows, r.loses, r.paused = 0, 0, 0, 0
		r.rebuild()
	}
	for _, x := range w.writers {
		x.paused = 0
	}
	forked := slices.ContainsFunc(w.readers, func(r *readerSim) bool { return r.reader.Marks().Forked })
	if forked || !slices.ContainsFunc(w.writers, func(x *writerSim) bool { return !x.over }) {
		w.startWriter() // only a higher epoch ends a fork
	}
	if w.chance(500) {
		w.after(20*time.Second, w.startWriter) // a rollout, while the source is quiet
	}
}

// trouble starts a fault now and then.
func (w *world) trouble() {
	if !w.chance(w.faults) {
		return
	}
	r := w.readers[w.random.IntN(2)]
	x := w.writers[len(w.writers)-1]
	fault := w.random.IntN(15)
	if w.kinds&(1<<fault) == 0 || fault > 7 && w.now < r.paused {
		return
	}
	switch fault {
	case 0:
		w.frozen = w.now + w.between(time.Second, 50*time.Second)
		w.note("the API hangs until %s", w.frozen)
	case 1:
		w.broker.down = w.now + w.between(time.Second, 25*time.Second)
		w.note("the broker is down until %s", w.broker.down)
	case 2:
		w.broker.noAck = w.now + w.between(time.Second, 5*time.Second)
		w.note("acknowledgements are lost until %s", w.broker.noAck)
	case 3:
		w.note("the broker is wiped")
		w.broker.store = *newStore()
	case 4:
		w.broker.restore(w)
	case 5:
		x.paused = w.now + w.between(time.Second, 30*time.Second)
		w.note("writer %s is paused until %s", x.name, x.paused)
		w.after(w.between(time.Second, 20*time.Second), w.startWriter)
	case 6:
		x.over = true
		w.note("writer %s is killed", x.name)
		w.after(w.between(time.Second, 18*time.Second), w.startWriter)
	case 7:
		w.note("a second leader")
		w.startWriter()
	case 8:
		r.lag, r.lagGrows = w.between(0, 8*time.Second), w.random.IntN(3)
		w.note("reader %d: messages take %s, growing by %d", r.id, r.lag, r.lagGrows)
		w.after(w.between(5*time.Second, 50*time.Second), func() { r.lag, r.lagGrows = 0, 0 })
	case 9:
		r.loses = w.random.IntN(700)
		w.note("reader %d loses %d in 1000 messages", r.id, r.loses)
		w.after(w.between(time.Second, 20*time.Second), func() { r.loses = 0 })
	case 10:
		r.sleep(w.between(2*time.Second, 40*time.Second))
	case 11:
		r.paused = w.now + w.between(time.Second, 20*time.Second)
		w.note("reader %d is paused until %s", r.id, r.paused)
	case 12:
		r.restart()
	case 13:
		w.broker.inject(w, r)
	default:
		w.broker.equivocate(w, r)
	}
}
