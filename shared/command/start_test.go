package command_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
)

const waiting = "[portcullis.nswatch]\nhttp_address = \"127.0.0.1:0\"\nwait_at_start = true\n"

// startWaiting runs a daemon whose wiring is the test's, and that waits at its start.
func startWaiting(t *testing.T, wire func(context.Context, *command.Parts[*own]) error) *commandtest.Process {
	t.Helper()
	return commandtest.Of(func() command.Daemon[*own] { return program(wire) }).Start(t, "--config", settings(t, waiting))
}

// A daemon whose parts cannot be made stays alive, says why it is not ready, and starts when they can.
func TestStartThatWaits(t *testing.T) {
	var mended atomic.Bool
	var open opened
	p := startWaiting(t, func(_ context.Context, p *command.Parts[*own]) error {
		if !mended.Load() {
			p.Opened(&open)
			open.Add(1)
			p.Group.Add("part", func(context.Context) error { panic("started") })
			return errors.New("read key k.pem: no such file")
		}
		p.Group.Add("part", func(ctx context.Context) error { <-ctx.Done(); return nil })
		return p.Checks.AddReadiness("part", func(context.Context) error { return nil })
	})
	p.Line(commandtest.Waiting)
	commandtest.Eventually(t, "it is alive", func() bool { code, _ := p.Get("/livez"); return code == http.StatusOK })
	commandtest.Eventually(t, "it says why it is not ready", func() bool {
		code, text := p.Get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(text, "start: read key k.pem: no such file")
	})
	mended.Store(true)
	p.Line("starting")
	p.AwaitReady()
	if code := p.Stop(); code != 0 {
		t.Errorf("exit code %d: %s", code, p.Stderr.String())
	}
	if left := open.Load(); left != 0 {
		t.Errorf("%d of what the tries opened is open still", left)
	}
}

// opened counts what is not closed.
type opened struct{ atomic.Int32 }

func (o *opened) Close() error { o.Add(-1); return nil }

// A stop that comes while a start waits is no failure.
func TestStopOfAStartThatWaits(t *testing.T) {
	p := startWaiting(t, func(context.Context, *command.Parts[*own]) error { return errors.New("never") })
	p.Line(commandtest.Waiting)
	if code := p.Stop(); code != 0 {
		t.Errorf("exit code %d: %s", code, p.Stderr.String())
	}
}
