package gateway_test

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/companions/companionstest"
	"github.com/portcullis-mesh/portcullis/test/companions/materialtest"
	"github.com/portcullis-mesh/portcullis/test/companions/runtime"
	standin "github.com/portcullis-mesh/portcullis/test/companions/supervisor"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/scripted"
)

// launched is what a launch bundle holds that a driver puts into files (contract 13.2, 13.3).
type launched struct {
	Supervisor       map[string]any `json:"supervisor"`
	GatewayID        string         `json:"gateway_id"`
	VerificationKeys []struct {
		ID  string `json:"key_id"`
		PEM []rune `json:"public_key_pem"`
	} `json:"verification_keys"`
}

// material makes the bootstrap files of a run from the gateway's own bundle.
func material(t *testing.T, id, address string, bundle []byte) materialtest.Files {
	t.Helper()
	var l launched
	if err := json.Unmarshal(bundle, &l); err != nil {
		t.Fatal(err)
	}
	m := materialtest.Make(t, address)
	session, generation := l.Supervisor["session_id"].(string), l.Supervisor["runtime_generation"]
	name := "sandbox." + session + ".openshell.internal"
	m.Leaf, m.Auth = m.LeafFor(t, name), l.Supervisor
	for _, file := range []materialtest.Object{m.Boundary, m.Descriptor} {
		file["boundary_id"], file["session_id"], file["generation"] = id, session, generation
		fence := file["outer_fence"].(materialtest.Object)
		fence["generation"], fence["evidence_digest"] = generation, materialtest.Evidence(generation.(string))
	}
	m.Descriptor["tls"].(materialtest.Object)["server_name"] = name
	m.Boundary["session_rotation"], m.Boundary["auth_epoch"] = l.Supervisor["session_rotation"], l.Supervisor["auth_epoch"]
	m.Boundary["gateway_id"] = l.GatewayID
	var keys []any
	for _, k := range l.VerificationKeys {
		keys = append(keys, materialtest.Object{"key_id": k.ID, "public_key_pem": string(k.PEM)})
	}
	m.Boundary["verification_keys"] = keys
	return m.Write(t)
}

// companions starts the stand-ins of both Pods with what the gateway gave for a run. They end with the test, or by stop.
func (s *site) companions(id string, bundle []byte) (stop func()) {
	s.t.Helper()
	address := companionstest.Address()
	files := material(s.t, id, address, bundle)
	dir, err := os.MkdirTemp("", "cmp") // the path of a socket must be short
	if err != nil {
		s.t.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(scripted.Bearer(id)), 0o600); err != nil {
		s.t.Fatal(err)
	}
	settings := standin.Settings{
		DescriptorFile: files.Descriptor, AuthFile: files.Auth, Workdir: s.t.TempDir(), HealthSocket: filepath.Join(dir, "health.sock"), SandboxID: id,
		Endpoint: &url.URL{Scheme: "http", Host: s.address}, TokenFile: token, Main: standin.MainProcess{Version: 1, Command: companionstest.Command(s.t, "sleep")},
	}
	patience := standin.Patience{First: 5 * time.Millisecond, Most: 50 * time.Millisecond, Total: time.Minute}
	v, err := standin.New(settings, patience, s.clock.Now, zerolog.Nop())
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := runtime.New(runtime.Config{
		BoundaryFile: files.Boundary, Now: s.clock.Now, Output: companionstest.NewOutput(), Log: zerolog.Nop(), Listener: companionstest.Listen(s.t, address),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	stopRuntime := s.background(r.Run)
	stopSupervisor := s.background(v.Run)
	return func() {
		stopSupervisor()
		stopRuntime()
		_ = os.RemoveAll(dir)
	}
}

func (s *site) background(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = run(ctx) // what is lost when the other ends is no matter here
	}()
	stop = func() {
		cancel()
		<-done
	}
	s.t.Cleanup(stop)
	return stop
}

// TestCompanions: the stand-ins, which are written apart, accept what the gateway gives to a driver, of each run its own: they
// find each other, come to the gateway, and run a command.
func TestCompanions(t *testing.T) {
	t.Parallel()
	s := begin(t)
	box := s.created("box")
	first := s.driver.Calls("CreateSandbox")[0].(*computev1.CreateSandboxRequest).GetSandbox().GetSpec().GetLaunchAuthentication()
	if err := s.backendReady(s.ctx, box.ID); err != nil {
		t.Fatal(err)
	}
	stop := s.companions(box.ID, first)
	s.echo(box.ID)
	stop()
	s.in(box.ID, phase.Provisioning)
	s.companions(box.ID, first)
	s.in(box.ID, phase.Ready)
	if err := s.g.Stop(s.ctx, box.ID); err != nil {
		t.Fatal(err)
	}

	if _, err := s.g.Start(s.ctx, box.ID); err != nil {
		t.Fatal(err)
	}
	s.driver.Show(box.ID, scripted.Ready()...)
	s.companions(box.ID, s.driver.Calls("StartSandbox")[0].(*computev1.StartSandboxRequest).GetLaunchAuthentication())
	s.echo(box.ID)
}

// echo runs a command in the sandbox.
func (s *site) echo(id string) {
	s.t.Helper()
	s.in(id, phase.Ready)
	out, err := s.g.Exec(s.ctx, id, companionstest.Command(s.t, "cat"), []byte("in and out"))
	if err != nil || string(out.Stdout) != "in and out" {
		s.t.Errorf("%q, %+v, %v", out.Stdout, out.Exit, err)
	}
}
