package sim

import (
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// proofs is what a reader may rest a yes on, counted in true time: the beats that it accepted, each with how much
// later than it was the reader may take its issue to be. It follows from rule R3 alone and knows nothing of how the
// reader does it.
type proofs struct {
	beats []accepted
	epoch uint64
	at    time.Duration // when the newest beat was accepted
	error time.Duration // of the newest beat
}

type accepted struct {
	stamp     *stamp
	at, error time.Duration
}

// drift is how fast two clocks, and what a reader allows for it, may move apart: 200 millionths twice.
func drift(d time.Duration) time.Duration { return d * 400 / 1_000_000 }

// accept takes a beat. The quickest beat of an epoch tells where the writer's clock stands, wrong by its transit. That
// knowledge ages with the drift of the clocks, and with what the reader's clock lost unknown to it.
func (p *proofs) accept(now time.Duration, s *stamp, lost time.Duration) {
	wrong := now - s.issued
	if s.epoch == p.epoch {
		wrong = min(wrong, p.error+drift(now-p.at)+lost)
	}
	p.epoch, p.at, p.error = s.epoch, now, wrong
	if !s.live {
		p.beats = nil
		return
	}
	p.beats = append(p.beats, accepted{stamp: s, at: now, error: wrong})
}

// oldest is the longest that the source's proof behind a yes of now can lie back. It is negative when no beat is left
// that a yes could rest on. most is the largest error that the package comment of shared/allowlist admits.
func (p *proofs) oldest(now, most time.Duration, s *allowlist.Settings, napped func(time.Duration) time.Duration) time.Duration {
	age := time.Duration(-1)
	kept := p.beats[:0]
	for _, b := range p.beats {
		life := s.MaxStaleness.Std() + min(b.error, most) + napped(b.at) + time.Millisecond
		life += drift(life)
		if now > b.stamp.issued+life {
			continue
		}
		kept = append(kept, b)
		proof := s.SourceMaxAge.Std() + b.stamp.napped
		age = max(age, now-b.stamp.issued+proof+drift(proof))
	}
	p.beats = kept
	return age
}
