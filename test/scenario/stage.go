package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// patience is how long a script waits for one thing. Nothing takes nearly as long; it ends a test that would hang.
const patience = time.Minute

// bounds are what decides how soon the gate closes, and opens again.
var bounds = struct{ allowlist, nswatch []string }{
	allowlist: []string{
		`max_staleness = "4s"`, `heartbeat_ttl = "4s"`, `heartbeat_interval = "400ms"`, `source_max_age = "4s"`, `label_relist = "1s"`,
		`stop_grace = "1s"`, `file_poll = "200ms"`, `file_failure_grace = "5s"`,
	},
	// What is shorter the settings refuse: a dead connection to the API server must be noticed before the Lease is lost by it.
	nswatch: []string{`lease_duration = "7s"`, `renew_deadline = "6s"`, `retry_period = "300ms"`},
}

// Stage is a mesh with a gateway that scripts play on, one at a time.
type Stage struct {
	site    *lifecycle.Site
	options mesh.Options
	front   *front
	broker  *broker
	list    *listFile // nil when namespaces are chosen by a label
	paused  []string
	scripts int
	prefix  string
}

// Raise builds a stage of a name of the package comment. It comes down when the test ends.
func Raise(t testing.TB, name string) *Stage {
	t.Helper()
	s := &Stage{broker: new(broker)}
	t.Cleanup(s.broker.kill) // behind the mesh's own end
	mode, change := "operator", func(*mesh.Options) {}
	switch name {
	case "allowlist", "outage", "parts":
	case "file":
		s.list = newListFile(t)
		change = func(o *mesh.Options) { byFile(t, o, s.list.path) }
	case "shared", "managed":
		mode = name
	default:
		t.Fatalf("testdata/%s: there is no such stage", name)
	}
	s.site = lifecycle.Raise(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest(), mode, change, func(o *mesh.Options) {
		if mode == "operator" {
			o.Allowlist = bounds.allowlist
			o.Extra = map[string][]string{mesh.Nswatch: bounds.nswatch}
		}
		s.options = *o
	})
	s.prefix = strings.TrimSuffix(s.site.Shared, "shared")
	s.front = &front{stage: s, path: filepath.Join(t.TempDir(), "records.db"), log: filepath.Join(s.options.Dir, "gateway.log")}
	t.Cleanup(func() {
		if err := s.front.close(); err != nil {
			t.Errorf("stop the gateway: %v", err)
		}
		if t.Failed() {
			s.tell(t)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.front.open(ctx); err != nil {
		t.Fatalf("start the gateway: %v", err)
	}
	return s
}

// byFile makes a file the source of namespaces. A mesh writes the label into all settings, which must name one of the two: each daemon
// is started by a script that takes it out again.
func byFile(t testing.TB, o *mesh.Options, path string) {
	t.Helper()
	o.Stock = append(o.Stock, fmt.Sprintf("operator_namespace_file = %q", path))
	dir := t.TempDir()
	for _, daemon := range mesh.Daemons() {
		text := fmt.Sprintf(`#!/bin/sh
for settings; do case $settings in *.toml) sed -i '/^operator_namespace_label /d' "$settings" ;; esac; done
exec '%s' "$@"
`, o.Programs[daemon])
		script := filepath.Join(dir, daemon)
		if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		o.Programs[daemon] = script
	}
}

// tell logs what the daemons wrote.
func (s *Stage) tell(t testing.TB) {
	const most = 64 << 10
	paths := []string{s.front.log}
	for _, name := range mesh.Daemons() {
		former, _ := filepath.Glob(s.logOf(name) + ".*") // the pattern is well formed
		paths = append(paths, append(former, s.logOf(name))...)
	}
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil {
			t.Logf("%s:\n%s", filepath.Base(path), text[max(0, len(text)-most):])
		}
	}
}

// daemons are those that belong to the stage, in the order in which they are put up.
func (s *Stage) daemons() []string {
	if s.site.Mode == "operator" {
		return append([]string{natsName}, mesh.Daemons()...)
	}
	return slices.DeleteFunc(mesh.Daemons(), func(name string) bool { return name == mesh.Nswatch })
}

// The names of programs in scripts, where they are not those of the mesh.
const (
	natsName    = "nats"
	gatewayName = "gateway"
)

// mend puts up what a script left down.
func (s *Stage) mend(ctx context.Context) error {
	for _, name := range slices.Clone(s.paused) {
		if err := s.resume(name); err != nil {
			return err
		}
	}
	if s.list != nil {
		if err := s.list.mount([]byte("[]")); err != nil {
			return err
		}
	}
	for _, name := range append(s.daemons(), gatewayName) {
		if err := s.run(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// runs reports whether a program runs.
func (s *Stage) runs(name string) bool {
	switch name {
	case gatewayName:
		return s.front.gateway != nil
	case natsName:
		return s.broker.runs() || alive(s.site.Mesh.Process(mesh.NATS))
	default:
		return alive(s.site.Mesh.Process(name))
	}
}

func alive(p *mesh.Process) bool {
	if p == nil {
		return false
	}
	select {
	case <-p.Ended():
		return false
	default:
		return true
	}
}

// run puts a program up that does not run, and waits until it is ready.
func (s *Stage) run(ctx context.Context, name string) error {
	switch {
	case s.runs(name):
		return nil
	case name == gatewayName:
		return s.front.open(ctx)
	case name == natsName:
		return s.broker.run(ctx, &s.options, s.site.Mesh.NATSURL())
	default:
		if err := s.putAway(name); err != nil {
			return err
		}
		return s.site.Mesh.Run(ctx, name)
	}
}

// putAway moves the log of a daemon's former process away: the mesh takes the address that stands in it for that of the next one.
func (s *Stage) putAway(name string) error {
	path := s.logOf(name)
	former, err := filepath.Glob(path + ".*")
	if err != nil {
		return err
	}
	if err := os.Rename(path, fmt.Sprintf("%s.%d", path, len(former)+1)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("put the log of %s away: %w", name, err)
	}
	return nil
}

func (s *Stage) logOf(daemon string) string {
	return filepath.Join(s.options.Dir, daemon, daemon+".log")
}

// kill ends a program as a crash does.
func (s *Stage) kill(name string) error {
	s.paused = slices.DeleteFunc(s.paused, func(one string) bool { return one == name })
	switch name {
	case gatewayName:
		return s.front.close()
	case natsName:
		s.broker.kill()
		s.site.Mesh.Kill(mesh.NATS)
	default:
		s.site.Mesh.Kill(name)
	}
	return nil
}

// stop asks a daemon to end and waits.
func (s *Stage) stop(name string) error {
	p := s.site.Mesh.Process(name)
	if name == gatewayName || name == natsName || p == nil {
		return s.kill(name)
	}
	err := p.Stop()
	s.site.Mesh.Kill(name) // it has ended; the mesh forgets it
	return err
}

// pause holds a daemon where it is, until resume.
func (s *Stage) pause(name string) error {
	if err := s.signal(name, syscall.SIGSTOP); err != nil {
		return err
	}
	s.paused = append(s.paused, name)
	return nil
}

func (s *Stage) resume(name string) error {
	s.paused = slices.DeleteFunc(s.paused, func(one string) bool { return one == name })
	return s.signal(name, syscall.SIGCONT)
}

func (s *Stage) signal(name string, signal syscall.Signal) error {
	p := s.site.Mesh.Process(name)
	if !alive(p) {
		return fmt.Errorf("%s does not run", name)
	}
	if err := syscall.Kill(p.PID(), signal); err != nil {
		return fmt.Errorf("send %s to %s: %w", signal, name, err)
	}
	return nil
}
