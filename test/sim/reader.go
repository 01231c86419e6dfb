package sim

import (
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// honest is the longest transit of a message that no fault delays.
const honest = 20 * time.Millisecond

// reader is one process that asks.
type reader struct {
	process
	link    link
	broker  *broker // the side of it that the reader is on
	machine *allowlist.Reader
	// disk keeps the marks over a restart; nil keeps none.
	disk []byte
	// durable says that there is a disk.
	durable bool
	// proofs and refused are the judge's: what the reader may still rest on, and where it has answered no.
	proofs  proofs
	refused map[string]place

	// stopped and stoppedAt are for sabotage.
	stopped   *allowlist.View
	stoppedAt allowlist.Instant
}

func newReader(w *World, name string) *reader {
	r := &reader{process: process{w: w, name: name}, durable: w.chance(0.5), broker: w.broker}
	r.clock = w.weather.drawClock()
	r.clock.hasBoot = w.chance(0.6)
	r.link.r = r
	return r
}

// begin starts the process.
func (r *reader) begin() {
	if r.up {
		return
	}
	r.start()
	var marks allowlist.Marks
	if r.durable && r.disk != nil {
		marks = must(allowlist.DecodeMarks(gatewayID, r.disk))
	} else {
		r.refused = map[string]place{}
	}
	r.proofs = proofs{}
	r.machine = must(allowlist.NewReader(gatewayID, r.w.keys, r.w.settings, marks))
	r.after(0, r.tick)
	r.link.rebuild()
}

// crash kills the process; something starts it again.
func (r *reader) crash(down time.Duration) {
	if !r.up {
		return
	}
	r.kill()
	r.link.consumer++
	r.w.after(down, r.begin)
}

// tick is the passing of time.
func (r *reader) tick() {
	r.after(r.w.settings.HeartbeatInterval.Std()/4, r.tick)
	r.step(allowlist.Tick{})
}

// receive takes a message of the consumer.
func (r *reader) receive(m *message) {
	before := r.machine.Marks()
	r.step(allowlist.Record{Key: m.key, Operation: m.operation, Value: m.value})
	after, s := r.machine.Marks(), m.stamp
	if s == nil || !s.heartbeat || after.Epoch != s.epoch || after.Beat != s.beat {
		return
	}
	if before.Epoch != after.Epoch || before.Beat != after.Beat {
		r.proofs.accept(r.w.now, s, r.misled(r.proofs.at))
		r.w.result.Beats++
	}
}

// step tells the machine something, and does what it asks for.
func (r *reader) step(event allowlist.Event) {
	at := r.now()
	effects := r.machine.Step(at, event)
	if effects.Persist && r.durable {
		r.disk = allowlist.EncodeMarks(gatewayID, r.machine.Marks())
	}
	if r.w.options.Trace {
		r.tell(effects)
	}
	if effects.Resync {
		r.link.rebuild()
	}
}

// tell notes what matters to people.
func (r *reader) tell(e allowlist.Effects) {
	for _, f := range e.Findings {
		r.w.note("%s finds %s: %v", r.name, f.Kind, f.Err)
	}
	if e.From != e.To {
		m := r.machine.Marks()
		r.w.note("%s is %s %s (was %s %s), marks %d/%d beat %d", r.name, e.To.State, e.To.Reason, e.From.State, e.From.Reason, m.Epoch, m.Revision, m.Beat)
	}
	if e.Resync {
		r.w.note("%s asks for another consumer", r.name)
	}
}

// answers reports whether anyone could ask the process now.
func (r *reader) answers() bool { return r.up && (r.pause == running || r.pause == starved) }

// ask is what a caller is told.
func (r *reader) ask(name string, now allowlist.Instant) allowlist.Answer {
	return r.w.options.Sabotage.answer(r, name, now)
}
