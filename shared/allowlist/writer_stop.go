package allowlist

import (
	"fmt"
)

// release begins a clean stop (rule W10). The successor has the time of StopGrace to write.
func (w *Writer) release(at Instant) {
	if w.phase == takingOver {
		w.end(EndStopped, nil)
		return
	}
	w.phase = stopping
	w.stopAt = at.Mono + w.config.Settings.StopGrace.Std()
	w.broker.nextLook = w.stopAt
}

// withdrawAndStop looks whether a successor has written, and withdraws the list when none has. Looked ends the term
// when one has.
func (w *Writer) withdrawAndStop(at Instant) Action {
	switch {
	case at.Mono < w.stopAt:
		return nil
	case w.broker.doubt || w.broker.readAt < w.stopAt:
		w.flight = looking
		return Look{}
	default:
		w.farewell = true
		return w.beat(at, "the writer stopped and no other took over")
	}
}

// saidFarewell takes the outcome of the last beat. A stopping writer does not try twice.
func (w *Writer) saidFarewell(in Written, p *Plan) {
	if in.Result == WriteStored {
		w.part(FarewellWithdrawn)
		return
	}
	p.find(FoundDoubt, HeartbeatKey(w.config.GatewayID), fmt.Errorf("the withdrawal at the stop may not be stored: %w", in.Err))
	w.part(FarewellUnknown)
}

// part ends the term of a stopping writer.
func (w *Writer) part(f Farewell) { w.over = &End{Cause: EndStopped, Farewell: f} }
