package observe

import (
	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// caller is one stream. It is guarded by the lock of the core that it has joined.
type caller struct {
	// queue is what is new, in order, from head on. again are the ids to tell of when nothing is new.
	queue []*message
	head  int
	again []string
	// pending are the snapshots in queue, by id: at most one of each sandbox, after its last deletion.
	pending map[string]*message
	// owed is how many deletions and events are in queue, and most how many may be.
	owed, most int
	// failed ends the stream, and broken is closed then.
	failed error
	broken chan struct{}
	// wake has room for one.
	wake chan struct{}
}

// message is one thing to tell. What a snapshot says is looked up when it is taken, so it is never older than one before it.
type message struct {
	form  form
	id    string
	event *computev1.DriverPlatformEvent
}

type form uint8

const (
	void form = iota
	snapshotOf
	deletionOf
	eventOf
)

func newCaller(most int) *caller {
	return &caller{pending: map[string]*message{}, most: most, broken: make(chan struct{}), wake: make(chan struct{}, 1)}
}

func (c *caller) push(m *message) {
	if c.failed != nil {
		return
	}
	if m.form != snapshotOf {
		if c.owed++; c.owed > c.most {
			c.fail(ErrBehind)
			return
		}
	}
	c.queue = append(c.queue, m)
	c.rouse()
}

func (c *caller) rouse() {
	select {
	case c.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// fail ends the stream. What was owed is of no use: the next stream begins with everything.
func (c *caller) fail(err error) {
	if c.failed != nil {
		return
	}
	c.failed, c.queue, c.again, c.head = err, nil, nil, 0
	clear(c.pending)
	close(c.broken)
}

func (c *caller) changed(id string) {
	if c.failed != nil || c.pending[id] != nil {
		return
	}
	m := &message{form: snapshotOf, id: id}
	c.pending[id] = m
	c.push(m)
}

func (c *caller) deleted(id string) {
	if m := c.pending[id]; m != nil {
		m.form = void
		delete(c.pending, id)
	}
	c.push(&message{form: deletionOf, id: id})
}

func (c *caller) happened(id string, e *computev1.DriverPlatformEvent) {
	c.push(&message{form: eventOf, id: id, event: e})
}

// repeat owes the sandboxes again, after what is new. A caller that has not yet taken what it was owed before is not owed it twice.
func (c *caller) repeat(all []string) {
	if c.failed == nil && len(c.again) == 0 {
		c.again = all
		c.rouse()
	}
}

// next takes the next message; nil when there is none, or the stream has failed.
func (c *core) next(to *caller) *computev1.WatchSandboxesEvent {
	for to.head < len(to.queue) {
		m := to.queue[to.head]
		to.queue[to.head] = nil
		if to.head++; 2*to.head >= len(to.queue) {
			to.queue, to.head = append(to.queue[:0], to.queue[to.head:]...), 0
		}
		if out := c.take(to, m); out != nil {
			return out
		}
	}
	for len(to.again) > 0 {
		id := to.again[0]
		to.again = to.again[1:]
		if state := c.ids[id].state(); state != nil {
			return c.tell(state)
		}
	}
	return nil
}

func (c *core) take(to *caller, m *message) *computev1.WatchSandboxesEvent {
	switch m.form {
	case snapshotOf:
		delete(to.pending, m.id)
		if state := c.ids[m.id].state(); state != nil {
			return c.tell(state)
		}
	case deletionOf:
		to.owed--
		c.counts.deletions++
		return &computev1.WatchSandboxesEvent{Payload: &computev1.WatchSandboxesEvent_Deleted{Deleted: &computev1.WatchSandboxesDeletedEvent{SandboxId: m.id}}}
	case eventOf:
		to.owed--
		c.counts.platform++
		return &computev1.WatchSandboxesEvent{Payload: &computev1.WatchSandboxesEvent_PlatformEvent{
			PlatformEvent: &computev1.WatchSandboxesPlatformEvent{SandboxId: m.id, Event: m.event},
		}}
	case void:
	}
	return nil
}

func (c *core) tell(state *computev1.DriverSandbox) *computev1.WatchSandboxesEvent {
	c.counts.snapshots++
	return &computev1.WatchSandboxesEvent{Payload: &computev1.WatchSandboxesEvent_Sandbox{Sandbox: &computev1.WatchSandboxesSandboxEvent{Sandbox: state}}}
}
