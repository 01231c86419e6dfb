package allowlist

import (
	"fmt"
	"time"
)

// The states of a heartbeat in a record.
const (
	stateLive      = "live"
	stateWithdrawn = "withdrawn"
)

// encode writes the canonical payload.
func (h *Heartbeat) encode() ([]byte, error) {
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("encode heartbeat: %w", err)
	}
	b := appendWhole(make([]byte, 0, 768), `{"schema":`, Schema)
	b = appendString(b, `,"gateway_id":`, h.GatewayID)
	b = appendWhole(b, `,"epoch":`, h.Epoch)
	b = appendWhole(b, `,"revision":`, h.Revision)
	b = appendString(b, `,"digest":`, h.Digest.String())
	b = appendWhole(b, `,"beat":`, h.Beat)
	b = appendWhole(b, `,"issued_mono_ms":`, millis(h.Issued))
	b = appendTime(b, `,"published_at":`, h.PublishedAt)
	b = appendString(b, `,"writer":`, h.Writer)
	if h.Withdrawn() {
		b = appendString(b, `,"state":`, stateWithdrawn)
		b = appendString(b, `,"reason":`, h.Reason)
	} else {
		b = appendString(b, `,"state":`, stateLive)
	}
	b = appendString(b, `,"proof":{"kind":`, h.Proof.Kind.String())
	b = appendWhole(b, `,"age_ms":`, millis(h.Proof.Age))
	b = appendWhole(b, `},"ttl_ms":`, millis(h.TTL))
	return append(b, '}'), nil
}

// millis is only used on durations that check found not negative.
func millis(d time.Duration) uint64 { return uint64(d / time.Millisecond) }

// decodeHeartbeat accepts exactly what encode writes.
func decodeHeartbeat(payload []byte) (Heartbeat, error) {
	c := &cursor{s: string(payload), what: "heartbeat payload"}
	var h Heartbeat
	o := c.object("schema", "gateway_id", "epoch", "revision", "digest", "beat", "issued_mono_ms", "published_at", "writer",
		"state", "reason", "proof", "ttl_ms")
	readSchema(o)
	o.field("gateway_id")
	h.GatewayID = c.text(gatewayProblem)
	o.field("epoch")
	h.Epoch = c.whole(1, maxWhole)
	o.field("revision")
	h.Revision = c.whole(1, maxWhole)
	o.field("digest")
	h.Digest = c.digest()
	o.field("beat")
	h.Beat = c.whole(1, maxWhole)
	o.field("issued_mono_ms")
	h.Issued = c.millis()
	o.field("published_at")
	h.PublishedAt = c.instant()
	o.field("writer")
	h.Writer = c.text(func(t string) string { return tokenProblem(t, maxWriter) })
	o.field("state")
	if c.word(stateLive, stateWithdrawn) == stateWithdrawn {
		o.field("reason")
		h.Reason = c.text(func(t string) string { return textProblem(t, maxReason) })
	}
	o.field("proof")
	h.Proof = readProof(c)
	o.field("ttl_ms")
	h.TTL = c.millis()
	o.end()
	if err := c.done(); err != nil {
		return Heartbeat{}, err
	}
	return h, sameBytes(payload, h.encode)
}

func (c *cursor) millis() time.Duration {
	return time.Duration(c.whole(0, maxMonoMS)) * time.Millisecond
}

func readProof(c *cursor) (p Proof) {
	o := c.object("kind", "age_ms")
	o.field("kind")
	switch c.word(ProofList.String(), ProofWatch.String(), ProofFile.String()) {
	case ProofList.String():
		p.Kind = ProofList
	case ProofWatch.String():
		p.Kind = ProofWatch
	case ProofFile.String():
		p.Kind = ProofFile
	}
	o.field("age_ms")
	p.Age = c.millis()
	o.end()
	return p
}
