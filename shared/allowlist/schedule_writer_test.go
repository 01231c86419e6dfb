package allowlist

import (
	"fmt"
	"slices"
	"time"
)

// writerSim is a process around a Writer: what nswatch will be, in short.
type writerSim struct {
	w      *world
	name   string
	writer *Writer
	offset time.Duration // of its monotonic clock
	paused time.Duration // until then
	over   bool

	inbox   []Input
	seen    int           // watch events taken
	relist  time.Duration // true time of the next one
	listing bool
	began   time.Duration // true time of the epoch's begin
}

func (w *world) startWriter() {
	w.started++
	x := &writerSim{
		w: w, name: fmt.Sprintf("w-%d", w.started), offset: w.between(time.Hour, 100*time.Hour), relist: w.now + 5*time.Second, seen: len(w.events),
	}
	config := testWriterConfig()
	config.Name = x.name
	signer := testSigner(w.t, 1)
	writer, err := NewWriter(config, signer, testKeys(w.t, signer))
	if err != nil {
		w.t.Fatal(err)
	}
	x.writer = writer
	w.writers = append(w.writers, x)
	w.note("writer %s starts", x.name)
}

func (x *writerSim) instant() Instant {
	return Instant{Mono: x.offset + x.w.now, Wall: wallStart.Add(x.w.now), Boot: x.offset + x.w.now}
}

// list asks the API for a consistent list.
func (x *writerSim) list() {
	x.listing = true
	began := x.instant().Mono
	var answer func()
	answer = func() {
		if x.w.now < x.w.frozen {
			// The answer comes when the API does, and is as new as the moment of the answer, which is later than the
			// request: that is what a consistent list promises.
			x.w.after(x.w.frozen-x.w.now+tick, answer)
			return
		}
		x.listing = false
		x.inbox = append(x.inbox, x.listed(sourceEvent{version: x.w.version, names: x.w.names()}, ProofList, began))
	}
	x.w.after(x.w.between(5*time.Millisecond, 80*time.Millisecond), answer)
}

func (x *writerSim) listed(e sourceEvent, kind ProofKind, provenAt time.Duration) Listed {
	return Listed{List: listOf(x.w.t, e.names...), Version: fmt.Sprint(e.version), Order: e.version, Kind: kind, ProvenAt: provenAt}
}

func (x *writerSim) step() {
	w := x.w
	if x.over || w.now < x.paused {
		return
	}
	if w.now >= w.frozen {
		// Events that the API held back come in their order, each as if it were new.
		for ; x.seen < len(w.events) && w.events[x.seen].at < w.now-30*time.Millisecond; x.seen++ {
			x.inbox = append(x.inbox, x.listed(w.events[x.seen], ProofWatch, x.instant().Mono))
		}
	}
	if w.now >= x.relist && !x.listing {
		x.relist = w.now + 5*time.Second
		x.list()
	}
	inputs := append(slices.Clone(x.inbox), Tick{})
	x.inbox = nil
	for _, in := range inputs {
		x.do(x.writer.Step(x.instant(), in))
	}
}

func (x *writerSim) do(p Plan) {
	if x.began == 0 && x.writer.Epoch() > 0 {
		x.began = x.w.now
	}
	switch a := p.Action.(type) {
	case Look:
		x.w.broker.look(x.w, func(in Input) { x.inbox = append(x.inbox, in) })
	case Relist:
		x.list()
	case Write:
		x.w.broker.write(x.w, a, func(in Written) { x.inbox = append(x.inbox, in) })
	case End:
		if !x.over {
			x.over = true
			x.w.note("writer %s ends: %s", x.name, a.Cause)
			if x == x.w.writers[len(x.w.writers)-1] {
				x.w.after(x.w.between(tick, 3*time.Second), x.w.startWriter)
			}
		}
	}
}
