package sim

import (
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// birth is the true wall-clock time at which every schedule begins.
var birth = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// noticed is the length from which a process notices that its machine slept. Shorter sleeps make answers older by as
// much; see the package comment of shared/allowlist.
const noticed = time.Second

// clock is the clocks of one machine. They run on one oscillator, which is wrong by drift millionths.
type clock struct {
	drift   int64
	hasBoot bool
	// asleep: the monotonic clock stands still. standing: all of them do.
	asleep, standing bool

	seen             time.Duration // true time of the readings
	mono, boot, wall time.Duration // wall counts from birth
}

func (c *clock) advance(now time.Duration) {
	d := now - c.seen
	d += d * time.Duration(c.drift) / 1_000_000
	c.seen = now
	if c.standing {
		return
	}
	c.boot += d
	c.wall += d
	if !c.asleep {
		c.mono += d
	}
}

// read is what a process reads at the true time now.
func (c *clock) read(now time.Duration) allowlist.Instant {
	c.advance(now)
	at := allowlist.Instant{Mono: c.mono, Wall: birth.Add(c.wall)}
	if c.hasBoot {
		at.Boot = c.boot
	}
	return at
}

// wallError is how far the wall clock is from the truth.
func (c *clock) wallError() time.Duration { return (c.wall - c.seen).Abs() }

// pause is how a process does not run.
type pause uint8

const (
	running pause = iota
	// starved: its loop does not run, and its callers still ask and are answered from the last view.
	starved
	// stopped: nothing in it runs, and its clocks do (SIGSTOP).
	stopped
	// sleeping: nothing in it runs, and its monotonic clock stands still.
	sleeping
	// frozen: nothing in it runs, and all its clocks stand still, as in a virtual machine that was stopped.
	frozen
)

// process is one process on a machine of its own.
type process struct {
	w     *World
	name  string
	clock clock
	// life counts its starts. What an earlier life was waiting for does not happen.
	life    int
	up      bool
	pause   pause
	backlog []func()

	// naps are the sleeps of this life.
	naps []nap
	// lastSleep and lastStep are when the machine slept and its wall clock was set last.
	lastSleep, lastStep time.Duration
}

// nap is a sleep, by when it ended. Nothing in the process notices a blind one: it was too short, or no clock shows it.
type nap struct {
	at, length time.Duration
	blind      bool
}

// after has the process do something later: when it does not run then, as soon as it runs again.
func (p *process) after(d time.Duration, do func()) {
	life := p.life
	p.w.after(d, func() {
		switch {
		case p.life != life || !p.up:
		case p.pause != running:
			p.backlog = append(p.backlog, func() {
				if p.life == life && p.up {
					do()
				}
			})
		default:
			do()
		}
	})
}

func (p *process) now() allowlist.Instant { return p.clock.read(p.w.now) }

// start begins another life. The monotonic clock of a process begins with it.
func (p *process) start() {
	p.clock.advance(p.w.now)
	p.life++
	p.up, p.pause, p.backlog, p.naps = true, running, nil, nil
	p.clock.mono = time.Duration(p.w.random.Int64N(int64(time.Second)))
	p.w.note("%s starts, life %d", p.name, p.life)
	if p.w.now >= p.w.weather.calm {
		p.w.weather.correct(p)
	}
}

// kill ends the life of the process at once.
func (p *process) kill() {
	p.clock.advance(p.w.now)
	p.clock.asleep, p.clock.standing, p.up, p.pause, p.backlog = false, false, false, running, nil
	p.life++
	p.w.note("%s is killed", p.name)
}

// hold stops the process for a while. It does nothing to one that does not run.
func (p *process) hold(how pause, d time.Duration) {
	if !p.up || p.pause != running {
		return
	}
	p.clock.advance(p.w.now)
	p.pause = how
	p.clock.asleep, p.clock.standing = how == sleeping, how == frozen
	p.w.note("%s is %s for %s", p.name, [...]string{"running", "starved", "stopped", "asleep", "frozen"}[how], d)
	life := p.life
	p.w.after(d, func() {
		if p.life == life {
			p.resume(how, d)
		}
	})
}

// resume lets everything that waited happen, one thing after the other. Callers ask before any of it.
func (p *process) resume(how pause, d time.Duration) {
	p.clock.advance(p.w.now)
	p.clock.asleep, p.clock.standing, p.pause = false, false, running
	if how == sleeping || how == frozen {
		p.lastSleep = p.w.now
		p.naps = append(p.naps, nap{at: p.w.now, length: d, blind: d <= noticed || how == frozen})
	}
	p.w.note("%s runs again", p.name)
	waiting := p.backlog
	p.backlog = nil
	for i, do := range waiting {
		p.after(time.Duration(i+1)*50*time.Microsecond, do)
	}
}

// napped is how long the machine slept unnoticed since the true time from.
func (p *process) napped(from time.Duration) time.Duration { return p.slept(from, false) }

// misled is how far the monotonic clock has fallen behind since the true time from without the process knowing how
// far: with a boot clock, it knows unless it did not notice.
func (p *process) misled(from time.Duration) time.Duration { return p.slept(from, !p.clock.hasBoot) }

func (p *process) slept(from time.Duration, all bool) (total time.Duration) {
	for _, n := range p.naps {
		if n.at >= from && (all || n.blind) {
			total += n.length
		}
	}
	return total
}

// mayTouchClock keeps sleeps and steps of the wall clock apart: together they can hide each other, which the package
// comment of shared/allowlist excepts.
func (p *process) mayTouchClock() bool {
	const apart = 3 * time.Second
	return p.up && p.pause == running && p.w.now >= max(p.lastSleep, p.lastStep)+apart
}

// setWall steps the wall clock.
func (p *process) setWall(by time.Duration) {
	p.clock.advance(p.w.now)
	p.clock.wall += by
	p.lastStep = p.w.now
	p.w.weather.worstWall = max(p.w.weather.worstWall, p.clock.wallError())
	p.w.note("%s: wall clock stepped by %s", p.name, by)
}
