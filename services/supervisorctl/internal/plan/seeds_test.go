//go:build !race

package plan_test

const (
	defaultSeeds  = 6000
	share         = 1
	versionsTried = 2
)
