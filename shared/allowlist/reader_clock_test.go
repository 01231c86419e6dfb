package allowlist

import (
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// TestSleepEndsFresh: after a sleep the monotonic clock says that little time has passed. Before any Step notices, an
// answer must already be no.
func TestSleepEndsFresh(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "team-a")
	x.sleep(10 * time.Minute)
	x.answers("team-a", verdict.Stale)
	x.last = x.r.Step(x.at, Tick{})
	x.finds(FoundSleep)
	x.expect(stale())
	// A beat that was on its way before the sleep is of no use, and the next ones pass the trial. The writer's clock
	// has run on.
	x.heartbeat(a, 1, func(h *Heartbeat) { h.PublishedAt = h.PublishedAt.Add(-10 * time.Minute) })
	x.finds(FoundLate, FoundSkew)
	x.expect(stale())
	a.began -= 10 * time.Minute
	x.heartbeat(a, 1)
	x.expect(stale())
	x.wait(time.Second)
	x.heartbeat(a, 1)
	x.expect(fresh())
	if got := x.answers("team-a", ""); got.Age != 0 {
		t.Errorf("the newest beat is %s old", got.Age)
	}
}

// TestBeatsThatWaitedForTheMachine: a beat that waited while the machine slept is as late as it is, although the
// monotonic clock says that it came at once, and the wall clocks are close enough for the trial.
func TestBeatsThatWaitedForTheMachine(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "team-a")
	x.pass(time.Second)
	waited := [][]byte{a.heartbeat(1, x.at)}
	later := x.at
	later.Mono, later.Wall = later.Mono+time.Second, later.Wall.Add(time.Second)
	waited = append(waited, a.heartbeat(1, later))
	x.sleep(20 * time.Second)
	x.put(HeartbeatKey(gateway), waited[0])
	x.wait(time.Second)
	x.put(HeartbeatKey(gateway), waited[1])
	x.expect(stale())
	if got := x.r.Status(x.at); got.Age < 19*time.Second {
		t.Errorf("age %s", got.Age)
	}
}

func TestShellSaysSuspended(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "team-a")
	x.last = x.r.Step(x.at, Suspended{})
	x.finds(FoundSleep)
	x.expect(stale())
	x.heartbeat(a, 1)
	x.wait(time.Second)
	x.heartbeat(a, 1)
	x.expect(fresh())
}

func TestStallEndsFresh(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "team-a")
	x.pass(15 * time.Second)
	x.heartbeat(a, 1)
	x.finds(FoundStall)
	x.expect(stale())
	x.wait(time.Second)
	x.heartbeat(a, 1)
	x.expect(fresh())
}

func TestMonotonicClockGoesBack(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "team-a")
	x.at.Mono -= 10 * time.Second
	x.answers("team-a", verdict.Stale)
	x.last = x.r.Step(x.at, Tick{})
	x.finds(FoundClockBack)
	x.expect(stale())
}

// TestWallClockSteps: with a boot clock a step of the wall clock closes for no longer than it takes to see that
// nothing else happened.
func TestWallClockSteps(t *testing.T) {
	for name, c := range map[string]struct {
		step     time.Duration
		found    []FindingKind
		onStep   Condition // after the next tick
		onBeats  Condition // after two more beats
		inCheck  verdict.Reason
		withBoot bool
	}{
		"forward a little":                {10 * time.Second, nil, fresh(), fresh(), verdict.Stale, true},
		"forward past the deadline":       {20 * time.Second, nil, stale(), fresh(), verdict.Stale, true},
		"forward under the tolerance":     {time.Second, nil, fresh(), fresh(), "", true},
		"forward far":                     {10 * time.Minute, []FindingKind{FoundClockStep}, stale(), fresh(), verdict.Stale, true},
		"back far":                        {-10 * time.Minute, nil, fresh(), fresh(), "", true},
		"forward far, no boot clock":      {10 * time.Minute, []FindingKind{FoundSleep}, stale(), stale(), verdict.Stale, false},
		"forward a little, no boot clock": {20 * time.Second, []FindingKind{FoundSleep}, stale(), fresh(), verdict.Stale, false},
		"back far, no boot clock":         {-10 * time.Minute, nil, fresh(), fresh(), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newReaderTest(t)
			if !c.withBoot {
				x.at.Boot = 0
			}
			a := newAuthor(t, 5, x.at.Mono)
			withoutBoot := func() {
				if !c.withBoot {
					x.at.Boot = 0
				}
			}
			x.snapshot(a, 1, "team-a")
			x.heartbeat(a, 1)
			x.pass(time.Second)
			withoutBoot()
			x.heartbeat(a, 1)
			x.expect(fresh())
			// The writer's wall clock stays what it was.
			writersWall := x.at.Wall
			x.step(c.step)
			x.answers("team-a", c.inCheck)
			x.last = x.r.Step(x.at, Tick{})
			x.finds(c.found...)
			x.expect(c.onStep)
			for range 2 {
				x.pass(time.Second)
				withoutBoot()
				writersWall = writersWall.Add(time.Second)
				x.heartbeat(a, 1, func(h *Heartbeat) { h.PublishedAt = stampTime(writersWall) })
			}
			x.expect(c.onBeats)
		})
	}
}

// TestStepDoesNotExcuseTheStart: a step of the wall clock while the first trial runs does not make it easier.
func TestStepDoesNotExcuseTheStart(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.snapshot(a, 1, "team-a")
	x.heartbeat(a, 1)
	writersWall := x.at.Wall
	x.step(time.Hour)
	for range 5 {
		x.pass(time.Second)
		writersWall = writersWall.Add(time.Second)
		x.heartbeat(a, 1, func(h *Heartbeat) { h.PublishedAt = stampTime(writersWall) })
		if c := x.r.View().Condition(x.at); c.State == Fresh {
			t.Fatal("open without the check of the wall clocks")
		}
	}
}

// TestCreepingDelay: a broker that delays every beat a little more than the last stays below the drift that is
// allowed, for hours. The wall clocks tell.
func TestCreepingDelay(t *testing.T) {
	for name, c := range map[string]struct {
		delay bool // by the broker; otherwise the writer's clock is slow
		want  Condition
	}{"the broker delays": {true, stale()}, "the clocks drift": {false, fresh()}} {
		t.Run(name, func(t *testing.T) {
			x := newReaderTest(t)
			s := testSettings()
			s.MaxClockSkew = seconds(2)
			x.r = readerWith(t, s, Marks{})
			a := newAuthor(t, 5, x.at.Mono)
			x.open(a, 1, "team-a")
			start := x.at
			found := false
			// 190 in a million of 4 hours are 2.7s: more than the 2s that wall clocks may differ here.
			for elapsed := time.Duration(0); elapsed < 4*time.Hour; elapsed += 10 * time.Second {
				late := elapsed / 1_000_000 * 190
				issued := Instant{Mono: start.Mono + elapsed, Wall: start.Wall.Add(elapsed)}
				if !c.delay {
					issued.Mono -= late
				}
				x.at = start
				x.pass(elapsed)
				if c.delay {
					x.pass(late)
				}
				x.heartbeat(a, 1, func(h *Heartbeat) {
					h.Issued = (issued.Mono - a.began).Truncate(time.Millisecond)
					h.PublishedAt = stampTime(issued.Wall)
				})
				found = found || x.last.found(FoundDrift)
			}
			x.expect(c.want)
			if found != c.delay {
				t.Errorf("found drift: %v", found)
			}
		})
	}
}

// TestStoppedForLessThanClocksMayDiffer: a virtual machine that was stopped with all its clocks, and whose wall clock
// was then put right by a little, has not been Fresh for longer than it was.
func TestStoppedForLessThanClocksMayDiffer(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "team-a")
	// The beat of a list that is still to come ages too.
	x.wait(time.Second)
	list := a.snapshot(2, x.at, "team-a")
	x.heartbeat(a, 2)
	x.expect(behind())
	x.step(10 * time.Second)
	x.put(SnapshotKey(gateway), list)
	if got := x.answers("team-a", ""); got.Age != 10*time.Second {
		t.Errorf("age %s after 10s that only the wall clock shows", got.Age)
	}
	// What is proven ages again.
	x.step(4 * time.Second)
	x.last = x.r.Step(x.at, Tick{})
	if got := x.answers("team-a", ""); got.Age != 14*time.Second {
		t.Errorf("age %s after 14s that only the wall clock shows", got.Age)
	}
	x.wait(time.Second)
	x.answers("team-a", verdict.Stale)
}

// TestManyShortStops: a broker that kept the beats of each of them to itself may not bring them late for ever.
func TestManyShortStops(t *testing.T) {
	for name, c := range map[string]struct {
		late bool
		want Condition
	}{"the beats are late": {true, stale()}, "only the wall clock was wrong": {false, fresh()}} {
		t.Run(name, func(t *testing.T) {
			x := newReaderTest(t)
			a := newAuthor(t, 5, x.at.Mono)
			x.open(a, 1, "team-a")
			writersWall := x.at.Wall
			for range 5 {
				x.step(8 * time.Second)
				if !c.late {
					writersWall = writersWall.Add(8 * time.Second)
				}
				for range 2 {
					x.wait(time.Second)
					writersWall = writersWall.Add(time.Second)
					x.heartbeat(a, 1, func(h *Heartbeat) { h.PublishedAt = stampTime(writersWall) })
				}
			}
			x.expect(c.want)
		})
	}
}

// TestResyncAfterTheClockWentBack: the wait before a fresh consumer is asked for does not lie in the future.
func TestResyncAfterTheClockWentBack(t *testing.T) {
	x := newReaderTest(t)
	a := newAuthor(t, 5, x.at.Mono)
	x.open(a, 1, "team-a")
	x.at.Mono -= 10 * time.Minute
	x.last = x.r.Step(x.at, Tick{})
	asked := x.last.Resync
	for range 4 * 6 {
		x.wait(250 * time.Millisecond)
		asked = asked || x.last.Resync
	}
	if !asked {
		t.Error("no fresh consumer is asked for")
	}
}
