package lifecycle_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the package when what it starts leaves a goroutine behind. Neither the idle connections of clients nor the process
// that keeps the cluster are its.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*http2ClientConn).readLoop"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"),
	)
}
