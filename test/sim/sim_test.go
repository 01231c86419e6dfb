package sim_test

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/sim"
)

var (
	oneSeed   = flag.Uint64("seed", 0, "replay the schedule of this seed, and print it")
	seedCount = flag.Uint64("seeds", usualSeeds, "how many schedules to run, from -first on")
	firstSeed = flag.Uint64("first", 1, "the first seed")
)

// shards is how many tests share the seeds; they run side by side.
const shards = 8

// TestSchedules runs many schedules and wants no invariant broken in any. A seed given with -seed is replayed alone.
func TestSchedules(t *testing.T) {
	if *oneSeed != 0 {
		r := sim.Run(sim.Options{Seed: *oneSeed, Trace: true})
		fmt.Println(r.Schedule())
		for _, v := range r.Violations {
			t.Error(v)
		}
		return
	}
	var all total
	t.Cleanup(func() { all.check(t, *seedCount) })
	for shard := range uint64(shards) {
		t.Run(fmt.Sprintf("shard %d", shard), func(t *testing.T) {
			t.Parallel()
			for seed := *firstSeed + shard; seed < *firstSeed+*seedCount; seed += shards {
				r := sim.Run(sim.Options{Seed: seed})
				all.add(r)
				if len(r.Violations) > 0 {
					report(t, r)
				}
			}
		})
	}
}

// report prints what a failing seed did, and how to see it again.
func report(t *testing.T, r sim.Result) {
	t.Helper()
	again := sim.Run(sim.Options{Seed: r.Seed, Trace: true})
	t.Errorf("seed %d: %v\nreplay, in the directory test: go test ./sim -run TestSchedules -v -seed %d\n%s", r.Seed, r.Violations, r.Seed, again.Schedule())
}

// total is what many schedules did together.
type total struct {
	mu                            sync.Mutex
	schedules, checks, yes, beats int
	terms                         int
	healed, simulated             time.Duration
	faults                        map[string]int
}

func (a *total) add(r sim.Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.schedules++
	a.checks, a.yes, a.beats, a.terms = a.checks+r.Checks, a.yes+r.Yeses, a.beats+r.Beats, a.terms+r.Terms
	a.healed, a.simulated = max(a.healed, r.Healed), a.simulated+r.Simulated
	if a.faults == nil {
		a.faults = map[string]int{}
	}
	for _, f := range r.Faults {
		a.faults[f]++
	}
}

// check wants the run to have been worth something: answers of both kinds, and every fault.
func (a *total) check(t *testing.T, want uint64) {
	t.Logf("%d schedules, %s simulated, %d terms, %d beats accepted, %d answers, %d of them yes, longest recovery %s, faults %v",
		a.schedules, a.simulated, a.terms, a.beats, a.checks, a.yes, a.healed, a.faults)
	if uint64(a.schedules) != want {
		t.Errorf("%d schedules ran, want %d", a.schedules, want)
	}
	if want < 200 {
		return
	}
	if a.yes*10 < a.checks || a.yes*2 > a.checks {
		t.Errorf("%d of %d answers are yes: the schedules are too hard or too easy to show anything", a.yes, a.checks)
	}
	for _, name := range sim.Faults() {
		if a.faults[name] == 0 {
			t.Errorf("the fault %q never happened", name)
		}
	}
}

// TestSameSeedSameSchedule wants a replay to be the schedule that failed.
func TestSameSeedSameSchedule(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		one, two := sim.Run(sim.Options{Seed: seed, Trace: true}), sim.Run(sim.Options{Seed: seed, Trace: true})
		if one.Schedule() != two.Schedule() {
			t.Fatalf("seed %d has two schedules", seed)
		}
		if plain := sim.Run(sim.Options{Seed: seed}); plain.Events != one.Events || plain.Yeses != one.Yeses {
			t.Fatalf("seed %d is another schedule when it is not traced", seed)
		}
		if strings.Count(one.Schedule(), "\n") < 50 {
			t.Fatalf("the schedule of seed %d says little:\n%s", seed, one.Schedule())
		}
	}
}

// TestInvariantsBite breaks one thing around the code under test at a time, and wants the invariant that is about it
// to notice.
func TestInvariantsBite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		sabotage sim.Sabotage
		want     sim.Invariant
	}{
		{"a caller's clock stands still", sim.StopTheClock, sim.NoStaleGrant},
		{"a caller keeps an old view", sim.KeepOldViews, sim.NoResurrection},
		{"the attacker has the key", sim.SignStranger, sim.NoWidening},
		{"one reader denies a listed name", sim.DenyOne, sim.NoSplit},
		{"a link stays broken", sim.NeverHeal, sim.Liveness},
		{"the broker compares nothing", sim.IgnoreExpectations, sim.Fencing},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seed, ok := firstViolation(300, c.want, func(seed uint64) sim.Result {
				return sim.Run(sim.Options{Seed: seed, Sabotage: c.sabotage})
			})
			if !ok {
				t.Fatalf("%s was not broken in 300 schedules", c.want)
			}
			t.Logf("seed %d breaks %s", seed, c.want)
		})
	}
}

// firstViolation is the first seed up to a limit whose schedule breaks an invariant; any when want is zero.
func firstViolation(limit uint64, want sim.Invariant, run func(uint64) sim.Result) (seed uint64, ok bool) {
	for seed := uint64(1); seed <= limit; seed++ {
		for _, v := range run(seed).Violations {
			if want == 0 || v.Invariant == want {
				return seed, true
			}
		}
	}
	return 0, false
}
