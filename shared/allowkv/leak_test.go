package allowkv_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the package when a goroutine of any test is left behind. The tests wait far more than they compute, so
// more of them run at once than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
