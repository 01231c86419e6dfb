package natsreload

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

// asServer is set for a process that plays the server and ends well when it is told.
const asServer = "NATSRELOAD_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGHUP) // also where whoever started the tests ignores it
	_, _ = os.Stdout.WriteString(".")
	<-told
}

// desk is a server, which is this process, with its files.
type desk struct {
	t        *testing.T
	dir      string
	pidFile  string
	proc     string
	reloader *Reloader
	hups     chan os.Signal
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir(), proc: t.TempDir(), hups: make(chan os.Signal, 16)}
	d.pidFile = filepath.Join(t.TempDir(), "pid")
	signal.Notify(d.hups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(d.hups) })
	d.write("nats.conf", "a")
	d.runs(os.Getpid(), program)
	r, err := New(Config{PIDFile: d.pidFile, Dirs: []string{d.dir}, Every: time.Second}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	r.proc, d.reloader = d.proc, r
	return d
}

func (d *desk) put(path, content string) {
	d.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) write(name, content string) { d.t.Helper(); d.put(filepath.Join(d.dir, name), content) }

// runs makes a process of this name the one in the file.
func (d *desk) runs(pid int, name string) {
	d.t.Helper()
	d.put(d.pidFile, strconv.Itoa(pid))
	d.put(filepath.Join(d.proc, strconv.Itoa(pid), "comm"), name+"\n")
}

// told looks, and demands that the server was told, or was not.
func (d *desk) told(want bool) {
	d.t.Helper()
	before := d.reloader.told
	if err := d.reloader.look(); err != nil {
		d.t.Fatal(err)
	}
	if got := d.reloader.told != before; got != want {
		d.t.Fatalf("told: %t, want %t", got, want)
	}
	if want {
		select {
		case <-d.hups:
		case <-time.After(time.Minute):
			d.t.Fatal("the signal does not come")
		}
	}
}

// TestEachContentIsToldOnce: also at the start, to another process, and when the old content is back.
func TestEachContentIsToldOnce(t *testing.T) {
	d := newDesk(t)
	d.told(true)
	d.told(false)
	d.write("nats.conf", "b")
	d.told(true)
	d.told(false)
	d.write("tls.crt", "c")
	d.told(true)
	if err := os.Remove(filepath.Join(d.dir, "tls.crt")); err != nil {
		t.Fatal(err)
	}
	d.told(true)
	d.write("nats.conf", "a")
	d.told(true)
	d.reloader.told.pid++ // as if another process had been told
	d.told(true)
	d.told(false)
}

// TestMountedVersions: a mounted ConfigMap is links into a directory that is replaced; the replacement is seen, once.
func TestMountedVersions(t *testing.T) {
	d := newDesk(t)
	d.write("..1/identities.conf", "a")
	d.write("..2/identities.conf", "b")
	link := func(to, name string) {
		t.Helper()
		next := filepath.Join(d.dir, ".next")
		if err := errors.Join(os.Symlink(to, next), os.Rename(next, filepath.Join(d.dir, name))); err != nil {
			t.Fatal(err)
		}
	}
	link("..1", "..data")
	link("..data/identities.conf", "identities.conf")
	d.told(true)
	d.write("..3/identities.conf", "a")
	d.told(false)
	link("..3", "..data") // the same content in another place
	d.told(false)
	link("..2", "..data")
	d.told(true)
}

// TestNobodyElseGetsTheSignal: it would end them.
func TestNobodyElseGetsTheSignal(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*desk)
		says  string
	}{
		"the server has not started": {func(d *desk) { _ = os.Remove(d.pidFile) }, "has not started"},
		"another process":            {func(d *desk) { d.runs(os.Getpid(), "sleep") }, `called "sleep"`},
		"no process":                 {func(d *desk) { d.put(d.pidFile, "999999") }, "does not run"},
		"the first of all":           {func(d *desk) { d.runs(1, program) }, "no number of a process"},
		"all of a group":             {func(d *desk) { d.runs(0, program) }, "no number of a process"},
		"everybody":                  {func(d *desk) { d.runs(-1, program) }, "no number of a process"},
		"words":                      {func(d *desk) { d.put(d.pidFile, "pid") }, "no number of a process"},
		"nothing":                    {func(d *desk) { d.put(d.pidFile, "") }, "no number of a process"},
		"a large number":             {func(d *desk) { d.put(d.pidFile, strings.Repeat("1", maxFile+1)) }, "more than"},
		"files that are gone":        {func(d *desk) { _ = os.RemoveAll(d.dir) }, "no such file"},
		"a link into nothing":        {func(d *desk) { _ = os.Symlink("nothing", filepath.Join(d.dir, "x")) }, "no such file"},
		"a large file":               {func(d *desk) { d.write("x", strings.Repeat("x", maxFile+1)) }, "more than"},
		"many files": {func(d *desk) {
			for i := range maxFiles {
				d.write(strconv.Itoa(i), "")
			}
		}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			c.spoil(d)
			if err := d.reloader.look(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if d.reloader.told.pid != 0 || len(d.hups) > 0 {
				t.Error("it was told")
			}
		})
	}
}

// TestTroubleIsLoggedOnce, and its end.
func TestTroubleIsLoggedOnce(t *testing.T) {
	d := newDesk(t)
	var log strings.Builder
	d.reloader.log = zerolog.New(&log)
	for _, err := range []error{nil, errors.New("a"), errors.New("a"), errors.New("b"), nil, nil} {
		d.reloader.note(err)
	}
	if got := strings.Count(log.String(), "\n"); got != 3 {
		t.Errorf("it wrote\n%s", log.String())
	}
}

// TestRunEndsWithItsContext and looks until then: at a real process, by its real name.
func TestRunEndsWithItsContext(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(t.TempDir(), program)
	if err := os.Symlink(self, named); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(named)
	cmd.Env = append(os.Environ(), asServer+"=1")
	listening, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := listening.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	d.put(d.pidFile, strconv.Itoa(cmd.Process.Pid))
	d.reloader.proc = "/proc"
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.reloader.Run(ctx) }()
	if err := cmd.Wait(); err != nil { // it ends by the signal
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	valid := Config{PIDFile: "/run/pid", Dirs: []string{"/etc/nats"}, Every: time.Second}
	if _, err := New(valid, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(*Config)
		says  string
	}{
		"no file":              {func(c *Config) { c.PIDFile = "" }, "absolute"},
		"a relative file":      {func(c *Config) { c.PIDFile = "pid" }, "absolute"},
		"no directory":         {func(c *Config) { c.Dirs = nil }, "--watch"},
		"a relative directory": {func(c *Config) { c.Dirs = []string{"nats"} }, "absolute"},
		"always":               {func(c *Config) { c.Every = 0 }, "--every"},
		"never":                {func(c *Config) { c.Every = time.Hour }, "--every"},
	} {
		cfg := valid
		c.spoil(&cfg)
		if _, err := New(cfg, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
