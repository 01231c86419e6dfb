package sim

import (
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// link is what lies between the stream and one reader: a replica that may lag, a network that loses, doubles, reorders
// and delays, and a consumer, which is thrown away when the reader asks for another.
type link struct {
	r *reader

	// lag is how late everything is, growing by growth per second since grownFrom, up to most.
	lag, most time.Duration
	growth    float64
	grownFrom time.Duration
	// loss, double and reorder are chances.
	loss, double, reorder float64
	// cut swallows everything.
	cut bool

	consumer int // what an earlier one was to deliver is gone
	last     time.Duration
}

// late is the lag of now.
func (k *link) late() time.Duration {
	if k.growth == 0 {
		return k.lag
	}
	return min(k.lag+time.Duration(k.growth*float64(k.r.w.now-k.grownFrom)), max(k.most, k.lag))
}

// carry takes a message on its way when it is stored.
func (k *link) carry(m *message) { k.send(m, k.late()) }

// send delivers a message after the lag and an honest transit.
func (k *link) send(m *message, lag time.Duration) {
	w := k.r.w
	if k.cut || w.chance(k.loss) {
		return
	}
	at := w.now + lag + w.between(200*time.Microsecond, honest)
	if !w.chance(k.reorder) {
		at = max(at, k.last+time.Microsecond)
		k.last = at
	} else {
		at += w.between(0, 2*time.Second)
	}
	k.deliver(m, at)
	if w.chance(k.double) {
		k.deliver(m, at+w.between(0, 3*time.Second))
	}
}

func (k *link) deliver(m *message, at time.Duration) {
	consumer := k.consumer
	k.r.after(at-k.r.w.now, func() {
		if k.consumer == consumer {
			k.r.receive(m)
		}
	})
}

// rebuild throws the consumer away and starts another, from the last message of each key as the replica has it.
func (k *link) rebuild() {
	w := k.r.w
	k.consumer++
	consumer := k.consumer
	k.r.after(w.between(time.Millisecond, time.Second), func() {
		switch {
		case k.consumer != consumer:
		case k.cut || k.r.broker.down:
			k.rebuild()
		default:
			k.r.step(allowlist.Rebuilt{})
			k.begin()
		}
	})
}

// begin is a consumer's beginning.
func (k *link) begin() {
	w, lag := k.r.w, k.late()
	k.last = w.now
	shown := w.now - lag
	b := k.r.broker
	snapshot, heartbeat := b.asOf(allowlist.SnapshotKey(gatewayID), shown), b.asOf(allowlist.HeartbeatKey(gatewayID), shown)
	if snapshot != nil && heartbeat != nil && heartbeat.sequence < snapshot.sequence {
		snapshot, heartbeat = heartbeat, snapshot
	}
	for _, m := range []*message{snapshot, heartbeat} {
		if m != nil {
			k.send(m, 0)
		}
	}
	for _, m := range b.log {
		if m.key != "" && m.at > shown {
			k.send(m, m.at-shown)
		}
	}
}

// heal ends every fault. What is under way comes when it comes; what follows does not wait for it.
func (k *link) heal() {
	*k = link{r: k.r, consumer: k.consumer, last: k.r.w.now}
}

// show is a message in the schedule.
func (m *message) show() string {
	s := fmt.Sprintf("%s #%d %s", m.key, m.sequence, m.operation)
	switch {
	case m.stamp == nil && m.operation == allowlist.OperationPut:
		return s + " (of no writer)"
	case m.stamp == nil:
		return s
	case !m.stamp.heartbeat:
		return fmt.Sprintf("%s epoch %d revision %d", s, m.stamp.epoch, m.stamp.revision)
	case !m.stamp.live:
		return fmt.Sprintf("%s epoch %d revision %d beat %d withdraws", s, m.stamp.epoch, m.stamp.revision, m.stamp.beat)
	default:
		return fmt.Sprintf("%s epoch %d revision %d beat %d", s, m.stamp.epoch, m.stamp.revision, m.stamp.beat)
	}
}
