package sim

import (
	"slices"
	"strings"
	"time"
)

// fault is one kind of thing that goes wrong, for a while or once.
type fault struct {
	name string
	// forgets says that the broker can lose the highest epoch. An epoch is then kept from falling by the wall clocks
	// of the leaders alone, so these are right in a schedule with such a fault.
	forgets bool
	// hides says that it can take a fork away before the writer has seen it. There is no fork in a schedule with such
	// a fault: it would last until the next change of leaders, which is what rule R2 says and not what invariant 5 asks.
	hides bool
	// delays says that beats can come late because of it, at a time when a reader has seen none that did not.
	delays bool
	do     func(w *World, d time.Duration)
}

// faults are all kinds. Each schedule draws some of them, so that also rare ones meet.
func faults() []fault {
	return slices.Concat(sourceFaults, leaderFaults, brokerFaults, linkFaults, readerFaults, attacks)
}

// Faults are the names of all kinds of faults.
func Faults() []string {
	var names []string
	for _, f := range faults() {
		names = append(names, f.name)
	}
	return names
}

// weather decides what goes wrong, and when it stops.
type weather struct {
	w     *World
	kinds []fault
	// trueWalls has leaders whose wall clocks are right.
	trueWalls bool
	// prompt is a schedule without faults that delay: the basic bound of rule R3 holds.
	prompt bool
	// calm is when the last fault ends; rotation when the signing key is changed.
	calm, rotation time.Duration
	waiting        []func()
	worstWall      time.Duration
}

func newWeather(w *World) *weather {
	s := &weather{w: w, trueWalls: w.chance(0.6), prompt: w.chance(0.25)}
	s.calm = healthy + w.between(12*time.Second, 30*time.Second)
	s.rotation = w.between(0, 2*s.calm)
	share, forks := 0.1+0.4*w.random.Float64(), w.chance(0.15)
	for _, f := range faults() {
		allowed := (s.trueWalls || !f.forgets) && !(s.prompt && f.delays) && !(forks && f.hides) && (forks || f.name != fork)
		if w.chance(share) && allowed || forks && f.name == fork {
			s.kinds = append(s.kinds, f)
		}
	}
	return s
}

// String lists the kinds.
func (s *weather) String() string {
	names := make([]string, 0, len(s.kinds))
	for _, f := range s.kinds {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// start plans the faults.
func (s *weather) start() {
	w := s.w
	w.after(s.calm, s.heal)
	w.after(s.calm+w.liveness()+time.Millisecond, func() {})
	if len(s.kinds) == 0 {
		return
	}
	pause := w.between(500*time.Millisecond, 4*time.Second)
	// Some begin before anything else has happened.
	at := healthy
	if w.chance(0.3) {
		at = 0
	}
	for ; at < s.calm-100*time.Millisecond; at += w.between(pause/4, pause*2) {
		w.after(at, func() { s.strike(pick(w, s.kinds)) })
	}
}

// strike has one fault happen.
func (s *weather) strike(f fault) {
	w := s.w
	d := min(w.between(100*time.Millisecond, 4*time.Second), s.calm-w.now-time.Millisecond)
	if w.chance(0.25) {
		d = min(w.between(4*time.Second, 18*time.Second), s.calm-w.now-time.Millisecond)
	}
	if d <= 0 {
		return
	}
	w.note("fault: %s", f.name)
	if !slices.Contains(w.result.Faults, f.name) {
		w.result.Faults = append(w.result.Faults, f.name)
	}
	f.do(w, d)
}

// afterCalm has something happen when the faults end.
func (s *weather) afterCalm(do func()) {
	if s.w.now >= s.calm {
		do()
		return
	}
	s.waiting = append(s.waiting, do)
}

// heal ends everything that is still wrong.
func (s *weather) heal() {
	w := s.w
	w.note("the faults end")
	w.source.broken, w.source.refusing, w.source.slow, w.source.stale = false, false, 0, 0
	w.broker.down, w.broker.doubt, w.broker.staleLook = false, 0, 0
	unite(w)
	for _, l := range w.leaders {
		l.cutFromBroker, l.cutFromSource, l.deaf = false, false, 0
		l.thaw()
		l.begin()
		s.correct(&l.process)
	}
	for i, r := range w.readers {
		r.link.heal()
		r.link.cut = i == 0 && w.options.Sabotage == NeverHeal
		r.begin()
		s.correct(&r.process)
	}
	for _, do := range s.waiting {
		do()
	}
}

// correct sets a wall clock right, as far as wall clocks are, as soon as it may be touched.
func (s *weather) correct(p *process) {
	p.clock.advance(s.w.now)
	switch {
	case p.clock.wallError() <= time.Second/2:
	case p.mayTouchClock():
		p.setWall(p.clock.seen - p.clock.wall)
	default:
		p.after(time.Second/4, func() { s.correct(p) })
	}
}

// drawClock makes the clocks of a machine.
func (s *weather) drawClock() clock {
	w := s.w
	c := clock{drift: int64(w.random.IntN(201) - 100), boot: w.between(time.Hour, 1000*time.Hour)}
	c.wall = w.between(-10*time.Millisecond, 10*time.Millisecond)
	if !s.trueWalls {
		c.wall = w.between(-time.Second/2, time.Second/2)
	}
	s.worstWall = max(s.worstWall, c.wall.Abs())
	return c
}

// stepWall sets a wall clock wrong.
func (s *weather) stepWall(p *process, by time.Duration) {
	if p.mayTouchClock() {
		p.setWall(by)
	}
}

// sleep suspends a machine. The lengths around the one that is noticed are left out: which side they fall on is not a
// matter of safety.
func (s *weather) sleep(p *process, d time.Duration) {
	if d > noticed-100*time.Millisecond && d < noticed+200*time.Millisecond {
		d = noticed - 100*time.Millisecond
	}
	if p.mayTouchClock() {
		p.hold(sleeping, d)
	}
}

// freeze stops a virtual machine with all its clocks. Some time later its wall clock is put right.
func (s *weather) freeze(p *process) {
	if !p.mayTouchClock() {
		return
	}
	d := s.w.between(100*time.Millisecond, 1500*time.Millisecond)
	s.worstWall = max(s.worstWall, p.clock.wallError()+d)
	p.hold(frozen, d)
	p.after(d+s.w.between(3*time.Second, 6*time.Second), func() { s.correct(p) })
}
