package flight

// Waiting is how many calls want the run of a key that has not begun.
func (g *Group[K, V]) Waiting(key K) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.lanes[key]; l != nil && l.waiting != nil {
		return len(l.waiting.calls)
	}
	return 0
}

// Lanes is how many keys have something to do.
func (g *Group[K, V]) Lanes() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.lanes)
}
