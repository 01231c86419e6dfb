package scenario

import "sync"

// turns let scripts play at once, or one alone. Who wants to be alone waits for all others, and keeps none away before.
type turns struct {
	mu      sync.Mutex
	changed sync.Cond
	playing int
	alone   bool
}

func newTurns() *turns {
	t := new(turns)
	t.changed.L = &t.mu
	return t
}

// enter waits until nobody plays alone.
func (t *turns) enter() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.alone {
		t.changed.Wait()
	}
	t.playing++
}

func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.playing--
	t.changed.Broadcast()
}

// aside is for one that has entered, and waits until it is the only one.
func (t *turns) aside() {
	t.leave()
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.playing > 0 || t.alone {
		t.changed.Wait()
	}
	t.alone = true
}

// back is for one that was aside.
func (t *turns) back() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.alone = false
	t.changed.Broadcast()
}
