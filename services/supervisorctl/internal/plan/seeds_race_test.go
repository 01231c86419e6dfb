//go:build race

package plan_test

// The race detector makes everything many times slower, and what is tested here has one goroutine.
const (
	defaultSeeds = 900
	// share: one in so many pairs of changes is tried.
	share = 7
	// versionsTried are those that the slowest test goes through.
	versionsTried = 1
)
