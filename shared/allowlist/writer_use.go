package allowlist

import (
	"fmt"
	"time"
)

// used takes the acknowledgement of a beat: a live one is of use to readers, and so is one that withdraws a list which
// no other writer could publish either.
func (w *Writer) used(at Instant) {
	if !w.beats.withdraws || w.lists.tooLarge != nil {
		w.useful = at.Mono
	}
}

// idleAt is when a term that stays useless is over: see Writer.
func (w *Writer) idleAt() time.Duration {
	return max(w.useful, w.graceEnd()) + 2*w.config.Settings.MaxStaleness.Std()
}

// graceEnd is the end of a bad file's grace, with which the withdrawal comes (rule W9); zero when there is none.
func (w *Writer) graceEnd() time.Duration {
	if w.phase != leading || w.config.Source.Kind != SourceFile || !w.source.failing {
		return 0
	}
	return w.source.failingSince + w.config.Settings.FileFailureGrace.Std()
}

// watchUse ends a term that is useless.
func (w *Writer) watchUse(at Instant) {
	if w.over == nil && w.phase != stopping && at.Mono >= w.idleAt() {
		w.end(EndIdle, fmt.Errorf("no live heartbeat was acknowledged for %s: another process gets its turn", at.Mono-w.useful))
	}
}

// rekey takes the keys that count from now on.
func (w *Writer) rekey(keys KeySet, p *Plan) {
	w.keys = keys
	if keys.Has(w.signer.public) {
		return
	}
	err := fmt.Errorf("the signing key %s is no longer among the public keys: readers refuse what it signs", w.signer.public.id)
	p.find(FoundKeyGone, "", err)
	w.end(EndKeyGone, err)
}
