package allowlist

import (
	"testing"
	"time"
)

func TestClocks(t *testing.T) {
	const stall, skew = 15 * time.Second, 30 * time.Second
	type step struct {
		mono, wall, boot time.Duration // what passes on each clock
		want             anomaly
	}
	s, ms := time.Second, time.Millisecond
	for _, c := range []struct {
		name  string
		boot  bool
		steps []step
	}{
		{"steady", true, []step{{s, s, s, steady}, {14 * s, 14 * s, 14 * s, steady}}},
		{"stall", true, []step{{15 * s, 15 * s, 15 * s, stalled}, {s, s, s, steady}}},
		{"sleep", true, []step{{s, s, s, steady}, {s, 61 * s, 61 * s, slept}, {s, s, s, steady}}},
		{"sleep that the wall clock hides", true, []step{{s, s, 61 * s, slept}}},
		{"many short sleeps", true, []step{{s, s, s + 600*ms, steady}, {s, s, s + 600*ms, slept}, {s, s, s + 600*ms, steady}}},
		{"sleep without a boot clock", false, []step{{s, 3 * s, 0, slept}, {s, s, 0, steady}}},
		{"many short steps without a boot clock", false, []step{{s, s + 600*ms, 0, steady}, {s, s + 600*ms, 0, slept}}},
		{"short step with a boot clock", true, []step{{s, 20 * s, s, steady}, {s, 20 * s, s, steady}, {s, 20 * s, s, steady}}},
		{"long step with a boot clock", true, []step{{s, 40 * s, s, stepped}, {s, s, s, steady}}},
		{"step back", true, []step{{s, -600 * s, s, steady}, {s, s, s, steady}}},
		{"step back without a boot clock", false, []step{{s, -600 * s, 0, steady}, {s, s, 0, steady}, {s, 602 * s, 0, slept}}},
		{"monotonic clock goes back", true, []step{{-ms, 0, 0, regressed}, {s, s, s, steady}}},
		{"sleep found over a stall", true, []step{{20 * s, 80 * s, 80 * s, slept}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := Instant{Mono: time.Hour, Wall: wallStart}
			if c.boot {
				at.Boot = 5 * time.Hour
			}
			var w clocks
			if got := w.observe(at, stall, skew); got != steady {
				t.Fatalf("the first instant is %d", got)
			}
			for i, s := range c.steps {
				at.Mono, at.Wall = at.Mono+s.mono, at.Wall.Add(s.wall)
				if c.boot {
					at.Boot += s.boot
				}
				if got := w.observe(at, stall, skew); got != s.want {
					t.Fatalf("step %d: %d, want %d", i, got, s.want)
				}
				if known := w.lost > 0; known != (s.want == slept && c.boot) || w.lost > 60*time.Second {
					t.Errorf("step %d: %s were lost", i, w.lost)
				}
			}
		})
	}
}

func TestBootClockThatComesAndGoes(t *testing.T) {
	var w clocks
	at := Instant{Mono: time.Second, Wall: wallStart, Boot: time.Hour}
	w.observe(at, time.Hour, time.Hour)
	for i, boot := range []time.Duration{0, 9 * time.Hour, 9*time.Hour + time.Second} {
		at.Mono, at.Wall, at.Boot = at.Mono+time.Second, at.Wall.Add(time.Second), boot
		if got := w.observe(at, time.Hour, time.Hour); got != steady {
			t.Errorf("instant %d: %d, a clock that is missing or new says nothing", i, got)
		}
	}
}

func TestTransit(t *testing.T) {
	var tr transit
	ms := time.Millisecond
	// The reader's clock is 100 s ahead; transits vary.
	for i, c := range []struct{ issued, transit, wantLate time.Duration }{
		{0, 50 * ms, 0},
		{1000 * ms, 20 * ms, 0},
		{2000 * ms, 30 * ms, 30*ms - (20*ms + 1010*ms/maxDrift)},
		{3000 * ms, 5 * ms, 0},
		{4000 * ms, 9000 * ms, 9000*ms - (5*ms + (4000+8995-3000)*ms/maxDrift)},
	} {
		received := 100*time.Second + c.issued + c.transit
		at, late := tr.observe(c.issued, received)
		if late != c.wantLate || at != received-late {
			t.Errorf("beat %d: issued at %s, %s late, want %s late and received less that", i, at, late, c.wantLate)
		}
	}
}

// TestTransitNeverLiesLong: whatever the order of transits, the mapped issue is no later than the truth by more than the
// smallest transit of the epoch and the drift that is allowed.
func TestTransitNeverLiesLong(t *testing.T) {
	var tr transit
	// Every beat is a little later than the last, as slowly as a broker must to stay unnoticed, and faster.
	for _, perMillion := range []int{0, 100, 200, 400, 10_000} {
		creep := time.Duration(perMillion) * time.Microsecond // in each second
		tr = transit{}
		for i := range 10_000 {
			issued := time.Duration(i) * time.Second
			truth := issued + time.Hour
			delay := time.Duration(i) * creep
			at, _ := tr.observe(issued, truth+delay)
			if allowed := (issued + delay) / maxDrift; at > truth+allowed+time.Microsecond*time.Duration(i) {
				t.Fatalf("creep of %d per million, beat %d: issue mapped %s late, %s allowed", perMillion, i, at-truth, allowed)
			}
		}
		if rise := tr.risen(); perMillion <= 200 && (rise-9999*creep).Abs() > time.Millisecond {
			t.Errorf("creep of %d per million: risen %s", perMillion, rise)
		}
	}
}

func TestTrial(t *testing.T) {
	s := time.Second
	type beat struct {
		issued, received time.Duration
		near, want       bool
	}
	for name, beats := range map[string][]beat{
		"two beats":                            {{0, 0, true, false}, {s, s, true, true}, {s, s, false, true}},
		"issued too close":                     {{0, 0, true, false}, {s - 1, 2 * s, true, false}, {s, 2 * s, true, true}},
		"received too close":                   {{0, 0, true, false}, {s, s - 1, true, false}, {2 * s, s, true, true}},
		"far from the wall clock":              {{0, 0, false, false}, {s, s, false, false}, {2 * s, 2 * s, false, false}},
		"second far: the first counts no more": {{0, 0, true, false}, {s, s, false, false}, {2 * s, 2 * s, true, false}, {3 * s, 3 * s, true, true}},
	} {
		var tr trial
		for i, b := range beats {
			if got := tr.admit(b.issued, b.received, s, b.near); got != b.want {
				t.Errorf("%s: beat %d admitted = %v", name, i, got)
			}
		}
	}
	without := trial{noWall: true}
	if without.admit(0, 0, s, false) || !without.admit(s, s, s, false) {
		t.Error("a trial without the wall clock looks at it")
	}
}
