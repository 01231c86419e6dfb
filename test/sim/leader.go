package sim

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// patience is how long a leader's shell waits for the broker before an outcome is in doubt.
const patience = 2 * time.Second

var errBroker = errors.New("the broker has not answered")

// leader is one process of nswatch: candidate, leader for some terms, or down.
type leader struct {
	process
	lease  candidacy
	broker *broker // the side of it that the process is on

	// writer is nil between terms. What an earlier term asked for is not answered.
	writer *allowlist.Writer
	term   int
	wakes  int
	floor  uint64

	// Its view of the source: used is the newest order that it was given in this term, reads how often it read the
	// file. frozen holds up its watch, whose events wait in held, or are lost.
	used, reads   uint64
	frozen, lossy bool
	held          []version
	watchDelay    time.Duration

	cutFromBroker, cutFromSource bool
	// deaf keeps it from seeing that its lease is gone until then.
	deaf time.Duration
	// stopping has it look after its lease no more.
	stopping bool
	// retire has it stay down after a clean stop until the faults end.
	retire bool
}

func newLeader(w *World, name string) *leader {
	l := &leader{process: process{w: w, name: name}, broker: w.broker}
	l.clock = w.weather.drawClock()
	l.clock.hasBoot = w.chance(0.7)
	return l
}

// begin starts the process as a candidate.
func (l *leader) begin() {
	if l.up {
		return
	}
	l.start()
	l.writer, l.floor, l.deaf, l.retire = nil, 0, 0, false
	l.term++
	l.after(l.w.between(0, 500*time.Millisecond), l.contend)
	l.after(0, l.poll)
	l.after(0, l.bookmark)
}

// crash kills the process; something starts it again.
func (l *leader) crash(down time.Duration) {
	if !l.up {
		return
	}
	l.kill()
	l.writer = nil
	l.term++
	l.w.after(down, l.begin)
}

// lead begins a term.
func (l *leader) lead() {
	w := l.w
	signer := w.signers[0]
	if w.now > w.weather.rotation {
		signer = w.signers[1]
	}
	l.term++
	l.stopping = false
	w.result.Terms++
	l.used, l.reads, l.held, l.frozen = 0, 0, nil, false
	l.watchDelay = w.between(time.Millisecond, 30*time.Millisecond)
	l.writer = must(allowlist.NewWriter(allowlist.WriterConfig{
		GatewayID: gatewayID, Name: l.name + "-" + strconv.Itoa(l.term), Source: w.source.describe(),
		EpochFloor: l.floor, Settings: w.settings,
	}, signer, w.keys))
	w.note("%s begins term %d", l.name, l.term)
	l.step(allowlist.Tick{})
}

// step tells the writer something, and does what it plans.
func (l *leader) step(input allowlist.Input) {
	if l.writer == nil {
		return
	}
	at := l.now()
	plan := l.writer.Step(at, input)
	if l.w.options.Trace {
		l.tell(input, plan)
	}
	term := l.term
	if plan.Wake > 0 {
		l.wakes++
		wakes := l.wakes
		l.after(max(plan.Wake-at.Mono, time.Millisecond), func() {
			if l.term == term && l.wakes == wakes {
				l.step(allowlist.Tick{})
			}
		})
	}
	switch action := plan.Action.(type) {
	case allowlist.Look:
		l.broker.read(l)
	case allowlist.Relist:
		l.w.source.list(l)
	case allowlist.Write:
		l.broker.write(l, action)
	case allowlist.End:
		l.ended(action)
	}
}

// tell notes a step that matters to people.
func (l *leader) tell(input allowlist.Input, plan allowlist.Plan) {
	for _, f := range plan.Findings {
		l.w.note("%s finds %s: %v", l.name, f.Kind, f.Err)
	}
	switch in := input.(type) {
	case allowlist.Written:
		if in.Result != allowlist.WriteStored {
			l.w.note("%s is told that its write has result %d", l.name, in.Result)
		}
	case allowlist.Listed:
		if plan.Action != nil {
			l.w.note("%s is given version %s", l.name, in.Version)
		}
	}
}

// answer brings an answer of this term to the writer.
func (l *leader) answer(d time.Duration, input func() allowlist.Input) {
	term := l.term
	l.after(d, func() {
		if l.term == term {
			l.step(input())
		}
	})
}

// fromSource is answer for the source.
func (l *leader) fromSource(d time.Duration, input func() allowlist.Input) { l.answer(d, input) }

// ended is the end of a term. Who was asked to stop goes down; others take part in the next election.
func (l *leader) ended(end allowlist.End) {
	w := l.w
	w.note("%s ends its term of epoch %d: %s: %v", l.name, l.writer.Epoch(), end.Cause, end.Err)
	l.floor = max(l.floor, l.writer.Epoch())
	l.writer = nil
	l.term++
	w.lease.release(l)
	if end.Cause != allowlist.EndStopped {
		return
	}
	retire := l.retire
	l.kill()
	if retire {
		w.weather.afterCalm(l.begin)
		return
	}
	w.after(w.between(200*time.Millisecond, 3*time.Second), l.begin)
}

// stop asks the process to end cleanly.
func (l *leader) stop() {
	if l.writer == nil {
		return
	}
	l.w.note("%s is asked to stop", l.name)
	l.stopping = true
	l.w.lease.release(l)
	l.step(allowlist.Released{})
}

// poll lists the source, or reads the file, all the time.
func (l *leader) poll() {
	every := l.w.settings.LabelRelist.Std()
	if l.w.source.kind == allowlist.SourceFile {
		every = l.w.settings.FilePoll.Std()
	}
	l.after(every, l.poll)
	if l.writer != nil {
		l.w.source.list(l)
	}
}

// bookmark is the sign of life of a watch that has nothing to tell. One that waits in a frozen watch comes late.
func (l *leader) bookmark() {
	l.after(2*time.Second, l.bookmark)
	if l.writer != nil && l.w.source.kind == allowlist.SourceLabel && !l.frozen && !l.w.source.fails(l) {
		l.step(allowlist.Proved{Kind: allowlist.ProofWatch, At: l.now().Mono})
	}
}

// sourceChanged is the watch, or the notification of a changed file, which sometimes does not come.
func (l *leader) sourceChanged(v version) {
	s := l.w.source
	switch {
	case l.writer == nil || s.fails(l):
	case s.kind == allowlist.SourceFile:
		if l.w.chance(0.7) {
			l.after(l.w.between(0, 5*time.Millisecond), func() { s.list(l) })
		}
	case l.used == 0: // the watch begins with the first list
	case l.frozen && !l.lossy:
		l.held = append(l.held, v)
	case !l.frozen:
		l.watched(v)
	}
}

// watched delivers a watch event, with what it makes of the list.
func (l *leader) watched(v version) {
	l.answer(l.watchDelay, func() allowlist.Input {
		l.used = max(l.used, v.order)
		return allowlist.Listed{
			List: v.list, Version: fmt.Sprint(v.order), Order: v.order, Kind: allowlist.ProofWatch, ProvenAt: l.now().Mono,
		}
	})
}

// thaw lets a watch go on: with everything that it held up, however old.
func (l *leader) thaw() {
	l.frozen = false
	for _, v := range l.held {
		l.watched(v)
	}
	l.held = nil
}
