//go:build portcullis_mutants

package allowlist

import "testing"

// TestSchedulesNotice proves that the schedules bite: each planted fault is found, and none without one.
func TestSchedulesNotice(t *testing.T) {
	const enough = 400
	for _, fault := range Faults() {
		t.Run(fault.String(), func(t *testing.T) {
			Plant(fault)
			t.Cleanup(func() { Plant(NoFault) })
			for s := range uint64(enough) {
				if broken := newWorld(t, s).run(); broken != "" {
					t.Logf("seed %d: %s", s, broken)
					return
				}
			}
			t.Errorf("not found in %d schedules", enough)
		})
	}
}
