package sim

import "time"

// during is a fault that lasts: what do makes wrong, undo makes right.
func during(w *World, d time.Duration, do, undo func()) {
	do()
	w.after(d, undo)
}

var sourceFaults = []fault{
	{name: "source does not answer", do: func(w *World, d time.Duration) {
		during(w, d, func() { w.source.broken = true }, func() { w.source.broken = false })
	}},
	{name: "source refuses", do: func(w *World, d time.Duration) {
		during(w, max(d, 6*time.Second), func() { w.source.refusing = true }, func() { w.source.refusing = false })
	}},
	{name: "source answers late", do: func(w *World, d time.Duration) {
		during(w, d, func() { w.source.slow = w.between(time.Second, 6*time.Second) }, func() { w.source.slow = 0 })
	}},
	{name: "relist is older than the last", do: func(w *World, d time.Duration) {
		during(w, d, func() { w.source.stale = 0.2 + 0.8*w.random.Float64() }, func() { w.source.stale = 0 })
	}},
	{name: "watch frozen", do: func(w *World, d time.Duration) {
		for _, l := range w.leaders {
			during(w, d, func() { l.frozen, l.lossy = true, false }, l.thaw)
		}
	}},
	{name: "watch loses events", do: func(w *World, d time.Duration) {
		for _, l := range w.leaders {
			during(w, d, func() { l.frozen, l.lossy = true, true }, l.thaw)
		}
	}},
}

// leading is a leader in a term, or any process when there is none.
func leading(w *World) *leader {
	for _, l := range w.leaders {
		if l.up && l.writer != nil && w.chance(0.8) {
			return l
		}
	}
	return pick(w, w.leaders)
}

var leaderFaults = []fault{
	{name: "leader killed", do: func(w *World, d time.Duration) { leading(w).crash(d) }},
	{name: "leader paused", do: func(w *World, d time.Duration) {
		l := leading(w)
		l.hold(stopped, d)
		if w.chance(0.6) {
			l.deaf = w.now + d + w.between(0, 4*time.Second)
		}
	}},
	{name: "leader's machine sleeps", do: func(w *World, d time.Duration) { w.weather.sleep(&leading(w).process, d) }},
	{name: "leader's wall clock stepped", do: func(w *World, _ time.Duration) {
		if !w.weather.trueWalls {
			w.weather.stepWall(&leading(w).process, w.between(-8*time.Second, 8*time.Second))
		}
	}},
	{name: "leader's virtual machine stopped", do: func(w *World, _ time.Duration) {
		if !w.weather.trueWalls {
			w.weather.freeze(&leading(w).process)
		}
	}},
	{name: "two leaders", do: func(w *World, d time.Duration) {
		leading(w).deaf = w.now + d
		pick(w, w.leaders).usurp()
	}},
	{name: "leader stops cleanly", do: func(w *World, _ time.Duration) { leading(w).stop() }},
	{name: "leader stops cleanly without a successor", do: func(w *World, d time.Duration) {
		l := leading(w)
		for _, other := range w.leaders {
			if other != l {
				other.crash(d)
			}
		}
		l.retire = true
		l.stop()
	}},
	{name: "leader cut from the broker", do: func(w *World, d time.Duration) {
		l := leading(w)
		during(w, d, func() { l.cutFromBroker = true }, func() { l.cutFromBroker = false })
	}},
	{name: "leader cut from the source", do: func(w *World, d time.Duration) {
		l := leading(w)
		during(w, d, func() { l.cutFromSource = true }, func() { l.cutFromSource = false })
	}},
}

var brokerFaults = []fault{
	{name: "broker down", do: func(w *World, d time.Duration) {
		during(w, d, func() { w.broker.down = true }, func() { w.broker.down = false })
	}},
	{name: "writes in doubt", delays: true, do: func(w *World, d time.Duration) {
		during(w, d, func() { w.broker.doubt = 0.1 + 0.8*w.random.Float64() }, func() { w.broker.doubt = 0 })
	}},
	{name: "leader-reads are old", do: func(w *World, d time.Duration) {
		during(w, d, func() { w.broker.staleLook = w.between(0, 6500*time.Millisecond) }, func() { w.broker.staleLook = 0 })
	}},
	{name: "broker wiped", forgets: true, hides: true, do: func(w *World, d time.Duration) {
		w.broker.wipe()
		if w.chance(0.5) {
			leading(w).crash(d)
		}
	}},
	{name: "broker restored from an older copy", forgets: true, hides: true, do: func(w *World, d time.Duration) {
		w.broker.restore(w.between(0, w.now))
		if w.chance(0.5) {
			leading(w).crash(d)
		}
	}},
	{name: "broker split", forgets: true, hides: true, delays: true, do: divide},
}

// divide splits the broker in two that both take writes, until one of them wins.
func divide(w *World, d time.Duration) {
	for _, l := range w.leaders {
		if l.broker != w.broker {
			return
		}
	}
	side := w.broker.split()
	for _, l := range w.leaders {
		if w.chance(0.5) {
			l.broker = side
		}
	}
	for _, r := range w.readers {
		if w.chance(0.5) {
			r.broker = side
		}
	}
	leading(w).deaf = w.now + d
	pick(w, w.leaders).usurp()
	w.after(d, func() { unite(w) })
}

// unite ends a split: the side with the highest epoch wins, and sequences have been given twice. If the other won, who
// has seen that epoch would wait for the next change of leaders, because no writer learns of what is lost.
func unite(w *World) {
	winner, parted := w.broker, false
	sides := func(b *broker) {
		parted = parted || b != w.broker
		if b.highest() > winner.highest() {
			winner = b
		}
	}
	for _, l := range w.leaders {
		sides(l.broker)
	}
	for _, r := range w.readers {
		sides(r.broker)
	}
	if !parted {
		return
	}
	w.note("broker: one again")
	winner.forgot = true
	winner.down, winner.doubt, winner.staleLook = w.broker.down, w.broker.doubt, w.broker.staleLook
	w.broker = winner
	for _, l := range w.leaders {
		l.broker = winner
	}
	for _, r := range w.readers {
		if r.broker != winner {
			r.broker = winner
			r.link.rebuild()
		}
	}
}

// some does a thing to one link, or to all.
func some(w *World, do func(k *link)) {
	if w.chance(0.3) {
		for _, r := range w.readers {
			do(&r.link)
		}
		return
	}
	do(&pick(w, w.readers).link)
}

var linkFaults = []fault{
	{name: "messages lost", delays: true, do: func(w *World, d time.Duration) {
		some(w, func(k *link) { during(w, d, func() { k.loss = 0.7 * w.random.Float64() }, func() { k.loss = 0 }) })
	}},
	{name: "messages doubled", do: func(w *World, d time.Duration) {
		some(w, func(k *link) { during(w, d, func() { k.double = 0.7 }, func() { k.double = 0 }) })
	}},
	{name: "messages reordered", delays: true, do: func(w *World, d time.Duration) {
		some(w, func(k *link) { during(w, d, func() { k.reorder = 0.5 }, func() { k.reorder = 0 }) })
	}},
	{name: "link cut", delays: true, do: func(w *World, d time.Duration) {
		some(w, func(k *link) { during(w, d, func() { k.cut = true }, func() { k.cut = false }) })
	}},
	{name: "messages delayed steadily", delays: true, do: func(w *World, d time.Duration) {
		lag := w.between(200*time.Millisecond, 9*time.Second)
		some(w, func(k *link) { during(w, 2*d, func() { k.lag = lag }, func() { k.lag = 0 }) })
	}},
	{name: "messages delayed more and more", delays: true, do: func(w *World, d time.Duration) {
		growth := 0.2 + 0.75*w.random.Float64()
		some(w, func(k *link) {
			during(w, max(d, 10*time.Second), func() { k.growth, k.grownFrom, k.most = growth, w.now, 14*time.Second }, func() { k.growth = 0 })
		})
	}},
	{name: "replica behind", delays: true, do: func(w *World, d time.Duration) {
		lag := w.between(200*time.Millisecond, 12*time.Second)
		some(w, func(k *link) {
			during(w, d, func() {
				k.lag = lag
				k.rebuild()
			}, func() { k.lag = 0 })
		})
	}},
}

var readerFaults = []fault{
	{name: "reader starved", delays: true, do: func(w *World, d time.Duration) { pick(w, w.readers).hold(starved, d) }},
	{name: "reader paused", delays: true, do: func(w *World, d time.Duration) { pick(w, w.readers).hold(stopped, d) }},
	{name: "reader's machine sleeps", delays: true, do: func(w *World, d time.Duration) { w.weather.sleep(&pick(w, w.readers).process, d) }},
	{name: "reader's wall clock stepped", do: func(w *World, _ time.Duration) {
		w.weather.stepWall(&pick(w, w.readers).process, w.between(-8*time.Second, 8*time.Second))
	}},
	{name: "reader's virtual machine stopped", delays: true, do: func(w *World, _ time.Duration) { w.weather.freeze(&pick(w, w.readers).process) }},
	{name: "reader restarted", do: func(w *World, d time.Duration) { pick(w, w.readers).crash(min(d, 2*time.Second)) }},
	{name: "consumer started afresh", delays: true, do: func(w *World, _ time.Duration) { pick(w, w.readers).link.rebuild() }},
}
