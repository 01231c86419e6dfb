package broker_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// scratch is a directory of this test binary for what all tests share.
var scratch string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	// The tests wait most of the time, for votes and for clocks, so more of them run at once than there are cores.
	flag.Parse()
	if err = flag.Set("test.parallel", "5"); err != nil {
		return 1, err
	}
	if scratch, err = os.MkdirTemp("", "broker"); err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	// What the Pod's name is to nats.conf.
	if err = os.Setenv("POD_NAME", "nats-0"); err != nil {
		return 1, err
	}
	if code = m.Run(); code != 0 {
		return code, nil
	}
	// Neither the idle connections of the cluster's clients nor the process that keeps the cluster are ours.
	return 0, goleak.Find(
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*http2ClientConn).readLoop"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"),
	)
}
