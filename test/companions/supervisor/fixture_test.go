package supervisor_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/test/companions/companionstest"
	"github.com/portcullis-mesh/portcullis/test/companions/gatewayside"
	"github.com/portcullis-mesh/portcullis/test/companions/materialtest"
	"github.com/portcullis-mesh/portcullis/test/companions/runtime"
	"github.com/portcullis-mesh/portcullis/test/companions/supervisor"
)

func TestMain(m *testing.M) {
	companionstest.PlayWorkload()
	goleak.VerifyTestMain(m)
}

const projected = "the projected token"

// site is where a supervisor finds its runtime and its gateway. Neither is there before it is started.
type site struct {
	t        *testing.T
	material *materialtest.Material
	files    materialtest.Files
	runtime  string // addresses
	gateway  string
	settings supervisor.Settings
	patience supervisor.Patience
	output   *companionstest.Output // of the main process
}

// newSite makes material, which change may spoil, and settings.
func newSite(t *testing.T, main []string, change func(*materialtest.Material)) *site {
	t.Helper()
	s := &site{
		t: t, runtime: companionstest.Address(), gateway: companionstest.Address(), output: companionstest.NewOutput(),
		patience: supervisor.Patience{First: 5 * time.Millisecond, Most: 50 * time.Millisecond, Total: time.Minute},
	}
	s.material = materialtest.Make(t, s.runtime)
	if change != nil {
		change(s.material)
	}
	s.files = s.material.Write(t)
	// The path of a socket must be short.
	short, err := os.MkdirTemp("", "sv")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	token := filepath.Join(short, "token")
	if err := os.WriteFile(token, []byte(projected+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.settings = supervisor.Settings{
		DescriptorFile: s.files.Descriptor, AuthFile: s.files.Auth, Workdir: t.TempDir(), HealthSocket: filepath.Join(short, "health.sock"),
		SandboxID: materialtest.SandboxID, Endpoint: &url.URL{Scheme: "http", Host: s.gateway}, TokenFile: token,
		Main: supervisor.MainProcess{Version: 1, Command: main},
	}
	return s
}

// startRuntime starts the runtime and returns what stops it.
func (s *site) startRuntime() (stop func()) {
	s.t.Helper()
	r, err := runtime.New(runtime.Config{
		BoundaryFile: s.files.Boundary, Now: time.Now, Output: s.output, Log: zerolog.Nop(), Listener: companionstest.Listen(s.t, s.runtime),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return background(s.t, r.Run, nil)
}

// startGateway starts the gateway and returns what stops it.
func (s *site) startGateway() (*gatewayside.Gateway, func()) {
	s.t.Helper()
	g := gatewayside.New(func(_ context.Context, bearer secret.Value, sandboxID string) error {
		if !bearer.Equal(secret.New([]byte(projected))) || sandboxID != materialtest.SandboxID {
			return status.Error(codes.PermissionDenied, "compute runtime identity does not match the sandbox")
		}
		return nil
	})
	server := grpc.NewServer(gatewayside.ServerOption()...)
	g.Register(server)
	l := companionstest.Listen(s.t, s.gateway)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	stop := sync.OnceFunc(func() {
		server.Stop()
		<-served
	})
	s.t.Cleanup(stop)
	return g, stop
}

// startSupervisor starts the supervisor; ended says how it ends.
func (s *site) startSupervisor() (stop func(), ended <-chan error) {
	s.t.Helper()
	sv, err := supervisor.New(s.settings, s.patience, time.Now, zerolog.Nop())
	if err != nil {
		s.t.Fatal(err)
	}
	how := make(chan error, 1)
	return background(s.t, sv.Run, how), how
}

// background runs until it is stopped. Without a place for how it ends, it must end well.
func background(t *testing.T, run func(context.Context) error, how chan<- error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := run(ctx)
		if how != nil {
			how <- err
		} else if err != nil {
			t.Errorf("ended with %v", err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// health is what the socket says.
func (s *site) health(ctx context.Context) error {
	return supervisor.CheckHealth(ctx, s.settings.HealthSocket)
}

// awaitHealth waits until the socket says what is wanted.
func (s *site) awaitHealth(ctx context.Context, ready bool) error {
	s.t.Helper()
	for {
		err := s.health(ctx)
		if (err == nil) == ready && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			s.t.Fatalf("the health socket says %v", err)
		}
	}
}
