//go:build race

package sim_test

// usualSeeds is less with the race detector, which slows signatures down several times and has no goroutines to look at
// but those of the tests.
const usualSeeds = 400
