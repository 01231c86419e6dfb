package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// patience is how long a script waits for one thing. Nothing takes nearly as long; it ends a test that would hang.
const patience = time.Minute

// What decides how soon the gate closes, and opens again. Stages on which it does not close by age have the usual bounds, so that no
// busy machine closes it.
var (
	closesByAge = []string{
		`max_staleness = "4s"`, `heartbeat_ttl = "4s"`, `heartbeat_interval = "400ms"`, `source_max_age = "4s"`, `label_relist = "1s"`, `stop_grace = "1s"`,
	}
	// What is shorter the settings refuse: a dead connection to the API server must be noticed before the Lease is lost by it.
	takesOverSoon  = []string{`lease_duration = "7s"`, `renew_deadline = "6s"`, `retry_period = "300ms"`}
	readsFileOften = []string{`file_poll = "100ms"`, `file_failure_grace = "5s"`}
)

// Stage is a mesh with a gateway that scripts play on.
type Stage struct {
	site    *lifecycle.Site
	options mesh.Options
	front   *front
	serial  bool      // scripts play one after the other
	list    *listFile // nil when namespaces are chosen by a label
	paused  []string
	scripts atomic.Int32
	turns   *turns
	prefix  string
}

// Raise builds a stage of a name of the package comment. It comes down when the test ends.
func Raise(t testing.TB, with *lifecycle.StandIns, name string) *Stage {
	t.Helper()
	s := &Stage{turns: newTurns()}
	mode, change := "operator", func(*mesh.Options) {}
	switch name {
	case "allowlist":
		change = func(o *mesh.Options) { o.Extra = map[string][]string{mesh.Nswatch: takesOverSoon} }
	case "outage", "parts":
		s.serial = true
		change = func(o *mesh.Options) {
			o.Allowlist, o.Extra = closesByAge, map[string][]string{mesh.Nswatch: takesOverSoon, mesh.Supervisorctl: takesOverSoon}
		}
	case "file":
		s.serial, s.list = true, newListFile(t)
		change = func(o *mesh.Options) {
			o.Label, o.Stock = "", append(o.Stock, fmt.Sprintf("operator_namespace_file = %q", s.list.path))
			o.Allowlist = append(o.Allowlist, readsFileOften...)
		}
	case "shared", "managed":
		mode = name
	default:
		t.Fatalf("testdata/%s: there is no such stage", name)
	}
	s.site = with.Raise(t, mode, nil, change, func(o *mesh.Options) { s.options = *o })
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

// Together reports whether the scripts of the stage play at once, but for those that say that they want to be alone.
func (s *Stage) Together() bool { return !s.serial }

// tell logs what the daemons wrote.
func (s *Stage) tell(t testing.TB) {
	const most = 64 << 10
	paths := []string{s.front.log}
	for _, name := range mesh.Daemons() {
		paths = append(paths, filepath.Join(s.options.Dir, name, name+".log"))
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
	if name == gatewayName {
		return s.front.gateway != nil
	}
	return alive(s.site.Mesh.Process(program(name)))
}

// program is the name of a script's program in the mesh.
func program(name string) string {
	if name == natsName {
		return mesh.NATS
	}
	return name
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
	default:
		return s.site.Mesh.Run(ctx, program(name))
	}
}

// kill ends a program as a crash does.
func (s *Stage) kill(name string) error {
	s.paused = slices.DeleteFunc(s.paused, func(one string) bool { return one == name })
	if name == gatewayName {
		return s.front.close()
	}
	s.site.Mesh.Kill(program(name))
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
	p := s.site.Mesh.Process(program(name))
	if !alive(p) {
		return fmt.Errorf("%s does not run", name)
	}
	if err := syscall.Kill(p.PID(), signal); err != nil {
		return fmt.Errorf("send %s to %s: %w", signal, name, err)
	}
	return nil
}
