package supervisor_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/companionstest"
	"github.com/portcullis-mesh/portcullis/test/companions/materialtest"
)

func TestLateRuntime(t *testing.T) {
	t.Parallel()
	s := newSite(t, companionstest.Command(t, "sleep"), nil)
	ctx := companionstest.Limit(t)
	g, _ := s.startGateway()
	s.startSupervisor()
	session, err := g.AwaitConnected(ctx, materialtest.SandboxID)
	if err != nil {
		t.Fatal(err)
	}
	_, err = session.Run(ctx, companionstest.Command(t, "echo"), nil)
	kind(t, err, boundary.Unavailable, "no runtime is confirmed")
	if err := s.awaitHealth(ctx, false); err == nil || !strings.Contains(err.Error(), "not ready: ") {
		t.Errorf("health: %v", err)
	}
	s.startRuntime()
	if session, err = g.Await(ctx, materialtest.SandboxID); err != nil {
		t.Fatal(err)
	}
	if out, err := session.Run(ctx, companionstest.Command(t, "echo", "late"), nil); err != nil || string(out.Stdout) != "late\n" {
		t.Errorf("%q, %v", out.Stdout, err)
	}
	_ = s.awaitHealth(ctx, true)
}

func TestLateAndRestartedGateway(t *testing.T) {
	t.Parallel()
	s := newSite(t, companionstest.Command(t, "sleep"), nil)
	ctx := companionstest.Limit(t)
	s.startRuntime()
	s.startSupervisor()
	_ = s.awaitHealth(ctx, true) // ready without a gateway
	var main string
	for range 2 {
		g, stop := s.startGateway()
		session, err := g.Await(ctx, materialtest.SandboxID)
		if err != nil {
			t.Fatal(err)
		}
		if main != "" && session.MainProcess() != main {
			t.Errorf("the main process was started again: %s, %s", main, session.MainProcess())
		}
		main = session.MainProcess()
		if _, err := session.Run(ctx, companionstest.Command(t, "echo"), nil); err != nil {
			t.Error(err)
		}
		stop()
		<-session.Over()
	}
}

func TestRuntimeThatGoesMakesUnready(t *testing.T) {
	t.Parallel()
	s := newSite(t, companionstest.Command(t, "sleep"), nil)
	ctx := companionstest.Limit(t)
	stop := s.startRuntime()
	g, _ := s.startGateway()
	s.startSupervisor()
	if _, err := g.Await(ctx, materialtest.SandboxID); err != nil {
		t.Fatal(err)
	}
	_ = s.awaitHealth(ctx, true)
	stop()
	_ = s.awaitHealth(ctx, false)
	session, err := g.AwaitConnected(ctx, materialtest.SandboxID)
	if err != nil {
		t.Fatal(err)
	}
	_, err = session.Run(ctx, companionstest.Command(t, "echo"), nil)
	kind(t, err, boundary.Unavailable, "")
}

func TestTokenIsReadAnew(t *testing.T) {
	t.Parallel()
	s := newSite(t, companionstest.Command(t, "sleep"), nil)
	ctx := companionstest.Limit(t)
	if err := os.WriteFile(s.settings.TokenFile, []byte("not accepted"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, _ := s.startGateway()
	s.startRuntime()
	s.startSupervisor()
	_ = s.awaitHealth(ctx, true)
	next := filepath.Join(filepath.Dir(s.settings.TokenFile), "next")
	if err := errors.Join(os.WriteFile(next, []byte(projected), 0o600), os.Rename(next, s.settings.TokenFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Await(ctx, materialtest.SandboxID); err != nil {
		t.Fatal(err)
	}
}

func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t, companionstest.Command(t, "sleep"), nil)
	s.patience.Total = 50 * time.Millisecond
	_, ended := s.startSupervisor()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("gave up without saying so")
		}
	case <-companionstest.Limit(t).Done():
		t.Fatal("never gives up")
	}
}

func TestStopTerminatesTheMainProcess(t *testing.T) {
	t.Parallel()
	s := newSite(t, companionstest.Command(t, "family"), nil)
	ctx := companionstest.Limit(t)
	s.startRuntime()
	stop, ended := s.startSupervisor()
	child := s.output.Child(ctx, t)
	_ = s.awaitHealth(ctx, true)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("stopped with %v", err)
	}
	companionstest.AwaitGone(ctx, t, child)
	if err := s.health(ctx); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the health socket is still there: %v", err)
	}
}
