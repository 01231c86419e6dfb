//go:build !race

package sim_test

// usualSeeds is how many schedules a run has when nothing else is said.
const usualSeeds = 2500
