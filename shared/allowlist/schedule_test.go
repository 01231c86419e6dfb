package allowlist

import (
	"flag"
	"testing"
)

var (
	seed  = flag.Int("seed", -1, "the one schedule to replay, with its trace")
	seeds = flag.Int("seeds", 8, "how many schedules to play")
)

// TestSchedules plays seeded schedules of faults against the protocol's invariants.
func TestSchedules(t *testing.T) {
	if *seed >= 0 {
		w := newWorld(t, uint64(*seed))
		broken := w.run()
		for _, line := range w.trace {
			t.Log(line)
		}
		if broken != "" {
			t.Error(broken)
		}
		return
	}
	grants := 0
	for s := range *seeds {
		w := newWorld(t, uint64(s))
		if broken := w.run(); broken != "" {
			for _, line := range w.trace {
				t.Log(line)
			}
			t.Fatalf("seed %d: %s (replay with -seed %d)", s, broken, s)
		}
		for _, names := range w.split {
			for _, granted := range names {
				if granted {
					grants++
				}
			}
		}
	}
	if grants < 10**seeds {
		t.Errorf("%d grants in %d schedules: the gate was hardly ever open", grants, *seeds)
	}
}
