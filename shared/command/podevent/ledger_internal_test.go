package podevent

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/daemon"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// failing are results of checks, each with why it fails; an empty reason passes.
func failing(checks ...string) (results []daemon.Result) {
	for i := 0; i < len(checks); i += 2 {
		r := daemon.Result{Name: checks[i]}
		if checks[i+1] != "" {
			r.Err = errors.New(checks[i+1])
		}
		results = append(results, r)
	}
	return results
}

// at is what is told in a history: each step says what the checks answer from an instant on, until the next.
type at struct {
	second  int
	results []daemon.Result
}

// line is one write.
type line struct {
	second          int
	reason, message string
}

// play writes whatever is due, second by second. fails says which writes do not succeed.
func play(steps []at, end int, fails func(n int) bool) (lines []line) {
	l := newLedger()
	for second := range end + 1 {
		now := epoch.Add(time.Duration(second) * time.Second)
		for _, s := range steps {
			if s.second == second {
				l.observe(s.results, now)
			}
		}
		for n, when, none := l.next(now); !none && !when.After(now); n, when, none = l.next(now) {
			l.tried(n, !fails(len(lines)), now)
			lines = append(lines, line{second, n.reason, n.message})
		}
	}
	return lines
}

func TestWhatIsToldAndWhen(t *testing.T) {
	const bad, worse, ready = "bucket: bad", "bucket: worse", "ready again: every readiness check passes"
	never, always := func(int) bool { return false }, func(int) bool { return true }
	tests := map[string]struct {
		steps []at
		end   int
		fails func(int) bool
		want  []line
	}{
		"nothing was asked": {nil, 60, never, nil},
		"all is well":       {[]at{{0, failing("bucket", "")}}, 60, never, nil},
		"over within patience": {
			[]at{{0, failing("bucket", "bad")}, {9, failing("bucket", "")}}, 60, never, nil,
		},
		"patience begins anew": {
			[]at{{0, failing("bucket", "bad")}, {9, failing("bucket", "")}, {11, failing("bucket", "bad")}}, 21, never, []line{{21, "BucketNotReady", bad}},
		},
		"another message within patience": {
			[]at{{0, failing("bucket", "bad")}, {9, failing("bucket", "worse")}}, 60, never, []line{{10, "BucketNotReady", worse}},
		},
		"counted while it holds": {
			[]at{{0, failing("bucket", "bad")}},
			650, never,
			[]line{{10, "BucketNotReady", bad}, {310, "BucketNotReady", bad}, {610, "BucketNotReady", bad}},
		},
		"another message": {
			[]at{{0, failing("bucket", "bad")}, {12, failing("bucket", "worse")}}, 60, never, []line{{10, "BucketNotReady", bad}, {20, "BucketNotReady", worse}},
		},
		"two at once": {
			[]at{{0, failing("nats-server", "gone", "bucket", "bad")}}, 60, never, []line{{10, "BucketNotReady", bad}, {10, "NatsServerNotReady", "nats-server: gone"}},
		},
		"over": {
			[]at{{0, failing("bucket", "bad")}, {30, failing("bucket", "")}}, 900, never, []line{{10, "BucketNotReady", bad}, {30, "Ready", ready}},
		},
		"over twice": {
			[]at{{0, failing("bucket", "bad")}, {30, failing("bucket", "")}, {60, failing("bucket", "bad")}, {90, failing("bucket", "")}},
			900, never,
			[]line{{10, "BucketNotReady", bad}, {30, "Ready", ready}, {70, "BucketNotReady", bad}, {90, "Ready", ready}},
		},
		"one of two is over": {
			[]at{{0, failing("nats", "gone", "bucket", "bad")}, {30, failing("nats", "", "bucket", "bad")}},
			60, never,
			[]line{{10, "BucketNotReady", bad}, {10, "NatsNotReady", "nats: gone"}},
		},
		"another set of checks": {
			[]at{{0, failing("start", "no key")}, {30, failing("bucket", "bad")}, {50, failing("bucket", "")}},
			900, never,
			[]line{{10, "StartNotReady", "start: no key"}, {40, "BucketNotReady", bad}, {50, "Ready", ready}},
		},
		"what could not be told is told later": {
			[]at{{0, failing("bucket", "bad")}},
			60, func(n int) bool { return n < 2 },
			[]line{{10, "BucketNotReady", bad}, {20, "BucketNotReady", bad}, {30, "BucketNotReady", bad}},
		},
		"what was never told does not end": {
			[]at{{0, failing("bucket", "bad")}, {15, failing("bucket", "")}}, 60, always, []line{{10, "BucketNotReady", bad}},
		},
		"the end is told later": {
			[]at{{0, failing("bucket", "bad")}, {30, failing("bucket", "")}},
			60, func(n int) bool { return n == 1 },
			[]line{{10, "BucketNotReady", bad}, {30, "Ready", ready}, {40, "Ready", ready}},
		},
		"all writes fail": {
			[]at{{0, failing("bucket", "bad")}},
			400, always,
			[]line{
				{10, "BucketNotReady", bad},
				{20, "BucketNotReady", bad},
				{30, "BucketNotReady", bad},
				{40, "BucketNotReady", bad},
				{50, "BucketNotReady", bad},
				{60, "BucketNotReady", bad},
				{70, "BucketNotReady", bad},
				{80, "BucketNotReady", bad},
				{190, "BucketNotReady", bad},
				{370, "BucketNotReady", bad},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := play(test.steps, test.end, test.fails); fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("told\n%v, want\n%v", got, test.want)
			}
		})
	}
}

// TestWritesAreBounded: whatever the checks say, and whatever becomes of the writes.
func TestWritesAreBounded(t *testing.T) {
	const hours = 3 * 3600
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		var steps []at
		for second := 0; second < hours; second += 1 + r.IntN(40) {
			checks := []string{}
			for _, name := range []string{"a", "b", "c", "d"} {
				checks = append(checks, name, []string{"", "one", "two", fmt.Sprint(r.Int())}[r.IntN(4)])
			}
			steps = append(steps, at{second, failing(checks...)})
		}
		lines := play(steps, hours, func(int) bool { return r.IntN(3) == 0 })
		if len(lines) < 20 {
			t.Fatalf("seed %d: only %d writes", seed, len(lines))
		}
		ready := func(l line) bool { return l.reason == reasonReady }
		troubles := slices.DeleteFunc(slices.Clone(lines), ready)
		if ends, most := len(lines)-len(troubles), len(troubles)+burst+hours/int(refill.Seconds()); ends > most {
			t.Fatalf("seed %d: %d times it is told that all is over, more than %d", seed, ends, most)
		}
		for i, first := range troubles {
			for n, last := range troubles[i:] {
				if most := burst + (last.second-first.second)/int(refill.Seconds()) + 1; n+1 > most {
					t.Fatalf("seed %d: %d writes from second %d to %d, more than %d", seed, n+1, first.second, last.second, most)
				}
			}
		}
	}
}

// TestTheEndIsToldAtOnce: though all that may be written has been used up by what was told before.
func TestTheEndIsToldAtOnce(t *testing.T) {
	var steps []at
	for second := range 600 {
		steps = append(steps, at{second, failing("a", fmt.Sprint("stale for ", second))})
	}
	lines := play(append(steps, at{600, failing("a", "")}), 600, func(int) bool { return false })
	if last := lines[len(lines)-1]; last.reason != reasonReady || last.second != 600 {
		t.Errorf("the last that is told is %+v", last)
	}
}

// TestAMessageThatAlwaysChangesHidesNothing: another check that fails is told, though the first uses up all that may be written.
func TestAMessageThatAlwaysChangesHidesNothing(t *testing.T) {
	var steps []at
	for second := range 1200 {
		checks := []string{"a", fmt.Sprint("stale for ", second), "b", ""}
		if second >= 600 {
			checks[3] = "gone"
		}
		steps = append(steps, at{second, failing(checks...)})
	}
	for _, l := range play(steps, 1200, func(int) bool { return false }) {
		if l.reason == "BNotReady" {
			if most := 610 + 2*int(refill.Seconds()); l.second > most {
				t.Errorf("told in second %d, later than %d", l.second, most)
			}
			return
		}
	}
	t.Error("never told")
}
