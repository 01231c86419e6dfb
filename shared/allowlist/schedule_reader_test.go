package allowlist

import (
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// readerSim is a process around a Reader: what shared/allowkv will be, in short.
type readerSim struct {
	w      *world
	id     int
	reader *Reader
	clock  clockwork
	at     time.Duration // true time of clock

	queue    []queued
	lag      time.Duration // every message takes this much longer
	lagGrows int           // how many times nine tenths of the time that passes
	loses    int           // in 1000
	paused   time.Duration
	built    int // generation of the consumer

	refused stamp                    // the newest list that was answered no from
	forked  uint64                   // epoch in which nothing may be granted any more
	quick   map[uint64]time.Duration // the quickest beat of each epoch
}

type queued struct {
	at time.Duration
	m  Record
}

func newReaderSim(w *world, id int) *readerSim {
	r := &readerSim{w: w, id: id, reader: testReader(w.t, Marks{}), quick: map[uint64]time.Duration{}}
	r.clock = *newClockwork(w.between(time.Hour, 100*time.Hour))
	r.clock.step(w.between(-5*time.Second, 5*time.Second))
	return r
}

// instant is the reader's clocks now.
func (r *readerSim) instant() Instant {
	r.clock.pass(r.w.now - r.at)
	r.at = r.w.now
	return r.clock.at
}

// send puts a message on its way.
func (r *readerSim) send(m Record) {
	w := r.w
	if w.random.IntN(1000) < r.loses {
		return
	}
	n := 1
	if w.chance(20) {
		n = 2
	}
	for range n {
		at := w.now + w.between(time.Millisecond, 30*time.Millisecond) + r.lag
		if w.chance(980) && len(r.queue) > 0 {
			at = max(at, r.queue[len(r.queue)-1].at) // mostly in order
		}
		r.queue = append(r.queue, queued{at, m})
	}
}

// rebuild starts a fresh consumer: the newest message of each key, then what comes.
func (r *readerSim) rebuild() {
	r.queue = nil
	r.built++
	r.reader.Step(r.instant(), Rebuilt{})
	if r.w.now >= r.w.broker.down {
		for _, m := range r.w.broker.last() {
			r.send(m)
		}
	}
}

func (r *readerSim) restart() {
	marks := r.reader.Marks()
	if r.w.chance(500) {
		marks, r.forked, r.refused = Marks{}, 0, stamp{} // without its disk
	}
	r.w.note("reader %d restarts with %+v", r.id, marks)
	r.reader = testReader(r.w.t, marks)
	r.clock = *newClockwork(r.w.between(time.Hour, 100*time.Hour))
	r.clock.at.Wall = wallStart.Add(r.w.now)
	r.at = r.w.now
	r.quick = map[uint64]time.Duration{}
	r.rebuild()
}

func (r *readerSim) sleep(d time.Duration) {
	r.w.note("the machine of reader %d sleeps for %s", r.id, d)
	r.instant()
	r.paused = r.w.now + d
	// Its monotonic clock stands still meanwhile.
	r.clock.sleep(d)
	r.at += d
}

func (r *readerSim) deliver(m Record) {
	if m.Key == HeartbeatKey(gateway) && m.Operation == OperationPut {
		r.timed(m)
	}
	e := r.reader.Step(r.instant(), m)
	if e.Resync && r.w.now >= r.w.broker.down {
		r.rebuild()
	}
}

// timed notes the quickest beat of each epoch, in true time: no reader can know that it was slow.
func (r *readerSim) timed(m Record) {
	h, err := OpenHeartbeat(m.Value, r.reader.keys, gateway)
	if err != nil {
		return
	}
	for _, x := range r.w.writers {
		if x.writer.Epoch() == h.Epoch && x.name == h.Writer {
			transit := r.w.now - x.began - h.Issued
			if quickest, ok := r.quick[h.Epoch]; !ok || transit < quickest {
				r.quick[h.Epoch] = transit
			}
		}
	}
}

func (r *readerSim) step() {
	if r.w.now < r.paused {
		return
	}
	r.lag += tick * time.Duration(r.lagGrows) * 9 / 10
	due := r.queue
	r.queue = nil
	for _, q := range due {
		if q.at > r.w.now {
			r.queue = append(r.queue, q)
			continue
		}
		built := r.built
		r.deliver(q.m)
		if r.built != built {
			return // what was on its way to the consumer before is void
		}
	}
	if e := r.reader.Step(r.instant(), Tick{}); e.Resync {
		r.rebuild()
	}
}

// check holds what the reader says now against the invariants.
func (r *readerSim) check() {
	if r.w.now < r.paused {
		return
	}
	w := r.w
	now := r.instant()
	for _, name := range append([]string{evil}, worldNames...) {
		a := r.reader.View().Check(name, now)
		st := stamp{a.Epoch, a.Revision}
		if a.Reason == verdict.NotListed && (stamp.compare(st, r.refused) > 0) {
			r.refused = st
		}
		if a.Allowed() || a.Reason == verdict.NotListed {
			if w.split[st] == nil {
				w.split[st] = map[string]bool{}
			}
			if said, ok := w.split[st][name]; ok && said != a.Allowed() && r.forked != a.Epoch {
				w.violate("invariant 4: reader %d says %v to %s at %v, which was said to be %v", r.id, a.Allowed(), name, st, said)
			}
			w.split[st][name] = a.Allowed()
		}
		if !a.Allowed() {
			continue
		}
		if name == evil {
			w.violate("invariant 3: reader %d grants what no writer ever listed", r.id)
		}
		if st.epoch < r.refused.epoch || st.epoch == r.refused.epoch && st.revision < r.refused.revision {
			w.violate("invariant 2: reader %d says yes to %s at %v after a no at %v", r.id, name, st, r.refused)
		}
		if r.forked == a.Epoch {
			w.violate("rule R2: reader %d says yes to %s in the forked epoch %d", r.id, name, a.Epoch)
		}
		if bound := r.bound(a.Epoch); !w.heldWithin(name, bound) {
			w.violate("invariant 1: reader %d says yes to %s at %v, which left the source more than %s ago", r.id, name, st, bound)
		}
	}
}

// bound is that of invariant 1 for this reader: what is stated, and the quickest transit that it has seen, which rule
// R4 keeps under max_clock_skew and the error of the clocks.
func (r *readerSim) bound(epoch uint64) time.Duration {
	s := testSettings()
	quickest := time.Duration(0)
	for e, transit := range r.quick {
		if e == epoch || e > epoch-60_000 && e < epoch { // the proof may be of the epoch before
			quickest = max(quickest, transit)
		}
	}
	if limit := s.MaxClockSkew.Std() + 6*time.Second; quickest > limit {
		quickest = limit
	}
	return s.Revocation() + quickest + clockTolerance
}
