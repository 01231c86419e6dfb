package lifecycle_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the package when what it starts leaves a goroutine behind. Neither the idle connections of clients nor the process
// that keeps the cluster are its.
//
// Tests wait for daemons more than they work, so more of them run at once than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*http2ClientConn).readLoop"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"),
	)
}
