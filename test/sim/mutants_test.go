//go:build portcullis_mutants

package sim_test

import (
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/test/sim"
)

// patience is how many schedules may pass before a planted fault must have been noticed.
const patience = 400

// TestPlantedFaults makes each rule on which safety turns wrong, in turn, and wants a schedule to notice; and wants the
// same schedule to be clean when the rule is right.
func TestPlantedFaults(t *testing.T) {
	for _, fault := range allowlist.Faults() {
		t.Run(fault.String(), func(t *testing.T) {
			defer allowlist.Plant(allowlist.NoFault)
			allowlist.Plant(fault)
			seed, ok := firstViolation(patience, 0, func(seed uint64) sim.Result { return sim.Run(sim.Options{Seed: seed}) })
			if !ok {
				t.Fatalf("the fault was not noticed in %d schedules", patience)
			}
			wrong := sim.Run(sim.Options{Seed: seed})
			t.Logf("seed %d: %v", seed, wrong.Violations[0])
			allowlist.Plant(allowlist.NoFault)
			if right := sim.Run(sim.Options{Seed: seed}); len(right.Violations) > 0 {
				t.Fatalf("seed %d is not clean without the fault: %v", seed, right.Violations)
			}
		})
	}
}
