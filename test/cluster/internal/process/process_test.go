package process_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func starter(t *testing.T) *process.Starter {
	t.Helper()
	s, err := process.NewStarter(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func shell(t *testing.T, s *process.Starter, script string) *process.Process {
	t.Helper()
	p, err := s.Start(process.Spec{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestEarlyEndIsReportedWithTheLog(t *testing.T) {
	p := shell(t, starter(t), "echo bind: address in use >&2; exit 3")
	err := p.Await(bounded(t), func(context.Context) error { return errors.New("not up") })
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "bind: address in use") {
		t.Fatalf("got %v, want the exit status and what the program wrote", err)
	}
}

func TestAwaitEndsWithItsContextAndSaysWhatWasMissing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := shell(t, starter(t), "exec sleep 600")
	err := p.Await(ctx, func(context.Context) error { cancel(); return errors.New("not up") })
	if err == nil || !strings.Contains(err.Error(), "not up") {
		t.Fatalf("got %v, want the last answer", err)
	}
}

func TestStopKillsWhoDoesNotListen(t *testing.T) {
	p := shell(t, starter(t), "trap '' TERM; echo deaf; while :; do sleep 1; done")
	err := p.Await(bounded(t), func(context.Context) error {
		if !strings.Contains(p.Tail(), "deaf") {
			return errors.New("the trap is not set yet")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Stop(10 * time.Millisecond)
	select {
	case <-p.Done():
	default:
		t.Error("Stop returned while the program runs")
	}
}

func TestRunReturnsTheOutputOfAFailure(t *testing.T) {
	s := starter(t)
	if err := s.Run(bounded(t), "/bin/sh", "-c", "exit 0"); err != nil {
		t.Error(err)
	}
	err := s.Run(bounded(t), "/bin/sh", "-c", "echo no such device; exit 1")
	if err == nil || !strings.Contains(err.Error(), "no such device") {
		t.Errorf("got %v, want what the program wrote", err)
	}
}

func TestUnknownNetworkNamespaceIsAnError(t *testing.T) {
	_, err := process.NewStarter(t.TempDir(), "/nonexistent/netns")
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
