package allowlist

import "time"

// Instant is one reading of a process's clocks. A shell takes all of it at once, as close to the event as it can.
type Instant struct {
	// Mono is the monotonic time since a fixed point of the process. It never goes back; whether it runs while the
	// machine sleeps does not matter. Deadlines are on this clock.
	Mono time.Duration
	// Wall is the wall clock. It may jump. It can make an answer no, never yes (rule R4). The zero Time is no
	// reading, and denies.
	Wall time.Time
	// Boot is the time since the machine started, with the time that it slept (CLOCK_BOOTTIME); zero when there is
	// no such clock. With it a sleep and a step of the wall clock can be told apart; without it every step forward is
	// taken for a sleep. View.Check does not need it.
	Boot time.Duration
}

// clockTolerance is how far two clocks may move apart before something has happened to one of them. It covers the
// time between the readings of one Instant on a busy machine. A sleep shorter than this goes unnoticed and makes
// answers older by no more than this.
const clockTolerance = time.Second

// anomaly is what the clocks say has happened since the last Instant.
type anomaly uint8

const (
	steady anomaly = iota
	// stalled: nothing was processed for longer than an answer may be old.
	stalled
	// slept: the machine slept, or may have.
	slept
	// stepped: the wall clock went forward by more than clocks may differ, and the machine did not sleep.
	stepped
	// regressed: the monotonic clock went back. No deadline on it means anything.
	regressed
)

// clocks watches the clocks of one process.
type clocks struct {
	started bool
	mono    time.Duration // of the last Instant
	asleep  time.Duration // Boot ahead of Mono when last trusted
	wall    time.Duration // Wall ahead of Mono when last trusted
	hasBoot bool
	// lost is, right after observe has found slept, how much the monotonic clock has fallen behind; zero when there is
	// no boot clock to tell.
	lost time.Duration
	// ahead is, right after observe, how far the wall clock has gone ahead of the monotonic one since it was last
	// trusted, although the boot clock shows no sleep; zero when that is within the tolerance. A step looks like this,
	// and so does a virtual machine that was stopped with all its clocks, and whose wall clock was then put right.
	ahead time.Duration
}

// observe compares at with the last Instant and with what was trusted before.
func (c *clocks) observe(at Instant, stall, skew time.Duration) anomaly {
	wall, asleep := wallAhead(at), at.Boot-at.Mono
	if !c.started {
		*c = clocks{started: true, mono: at.Mono, asleep: asleep, wall: wall, hasBoot: at.Boot != 0}
		return steady
	}
	gap, awake := at.Mono-c.mono, c.hasBoot && at.Boot != 0
	jump := wall - c.wall
	c.mono, c.lost, c.ahead = at.Mono, 0, 0
	found := steady
	switch {
	case gap < 0:
		found = regressed
	case awake && asleep-c.asleep > clockTolerance, !awake && jump > clockTolerance:
		found = slept
	case awake && jump > skew:
		found = stepped
	case gap >= stall:
		found = stalled
	}
	if found == slept && awake {
		c.lost = asleep - c.asleep
	}
	if awake && jump > clockTolerance && (found == steady || found == stepped || found == stalled) {
		c.ahead = jump
	}
	// Small steps are trusted at once when nothing else can hide behind them. Otherwise they add up until they count.
	if found != steady || jump < 0 || awake && jump > clockTolerance {
		c.wall = wall
	}
	if found != steady || !awake {
		c.asleep, c.hasBoot = asleep, at.Boot != 0
	}
	return found
}

// wallAhead is how far the wall clock is ahead of the monotonic one.
func wallAhead(at Instant) time.Duration { return time.Duration(at.Wall.UnixNano()) - at.Mono }
