package allowlist_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain lets more tests run at once than there are cores: they wait most of the time, for clocks and votes.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
