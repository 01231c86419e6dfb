package audit

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the package when a goroutine of any test is left behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
