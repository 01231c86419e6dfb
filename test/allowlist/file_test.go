package allowlist_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// hasty are bounds under which a file that stays bad is soon withdrawn.
var hasty = append([]string{`file_failure_grace = "3s"`}, short...)

// fileSetUp is an installation whose source is a file with the names a and b.
func fileSetUp(t *testing.T) (*installation.Installation, *program.Process, *installation.Reader) {
	t.Helper()
	i, _ := setUp(t)
	i.Bounds = hasty
	i.File = filepath.Join(t.TempDir(), "namespaces.json")
	put(t, i.File, `["a","b"]`)
	watcher := i.Nswatch()
	r := i.Reader()
	r.AwaitAllowed("a")
	r.AwaitAllowed("b")
	return i, watcher, r
}

func put(t *testing.T, path, content string) {
	t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

func TestAnswersFollowTheFile(t *testing.T) {
	t.Parallel()
	i, _, r := fileSetUp(t)
	put(t, i.File, `["b","c"]`)
	r.AwaitAllowed("c")
	r.AwaitRefused("a", verdict.NotListed)
	r.AwaitAllowed("b")
	put(t, i.File, `[]`)
	r.AwaitRefused("b", verdict.NotListed)
	put(t, i.File, `["a"]`)
	r.AwaitAllowed("a")
}

// Whatever takes the file's place: the cause is in the log, a metric counts it, the list does not change by it, and
// when it stays the list is withdrawn. A good file opens again.
func TestBadFileIsSaidAndWithdrawn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks func(t *testing.T, path string)
		logged string
	}{
		"not JSON":                {writes(`a, b`), "JSON"},
		"not an array":            {writes(`{"a":true}`), "array"},
		"one bad name among good": {writes(`["a","b","Not_A_Name"]`), "Not_A_Name"},
		"too large":               {writes(`["a"` + strings.Repeat(" ", 8<<20) + `]`), "larger"},
		"empty":                   {writes(``), "empty"},
		"deleted":                 {func(t *testing.T, path string) { remove(t, path) }, "no such file"},
		"a directory": {func(t *testing.T, path string) {
			remove(t, path)
			must(t, os.Mkdir(path, 0o700))
		}, "is a directory"},
		"a dangling symlink": {func(t *testing.T, path string) {
			remove(t, path)
			must(t, os.Symlink("nowhere", path))
		}, "symlink"},
		"an endless FIFO": {func(t *testing.T, path string) {
			remove(t, path)
			must(t, syscall.Mkfifo(path, 0o600))
		}, "regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, watcher, r := fileSetUp(t)
			before := r.Check("a")
			c.breaks(t, i.File)
			watcher.AwaitLog(c.logged)
			r.AwaitRefused("a", verdict.Stale, verdict.Withdrawn)
			r.AwaitRefused("a", verdict.Withdrawn)
			if now := r.Check("a"); now.Revision != before.Revision {
				t.Errorf("the list changed from revision %d to %d", before.Revision, now.Revision)
			}
			if name == "a directory" {
				must(t, os.Remove(i.File))
			}
			put(t, i.File, `["a"]`)
			r.AwaitAllowed("a")
			r.AwaitRefused("b", verdict.NotListed)
		})
	}
}

func writes(content string) func(*testing.T, string) {
	return func(t *testing.T, path string) { put(t, path, content) }
}

func remove(t *testing.T, path string) { t.Helper(); must(t, os.Remove(path)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What nswatch does not start with: the message names the key.
func TestSourceThatCannotBeMeantIsRefusedAtStart(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	good := i.Settings("")
	label := `operator_namespace_label = "` + i.Label + `"`
	for name, c := range map[string]struct{ old, new, want string }{
		"selector does not parse": {label, `operator_namespace_label = "a in b"`, "operator_namespace_label"},
		"selector selects all":    {label, `operator_namespace_label = "!kubernetes.io/none"`, "operator_namespace_label"},
		"two sources":             {label, label + "\noperator_namespace_file = \"/f\"", "operator_namespace_file"},
		"no source":               {label, "", "operator_namespace_label"},
		"no signing key":          {"signing_key_file", "#", "signing_key_file"},
		"another mode":            {`workspace_mode = "operator"`, `workspace_mode = "shared"`, "workspace_mode"},
		"bounds that contradict":  {"[portcullis.allowlist]", "[portcullis.allowlist]\nmax_staleness = \"1s\"", "max_staleness"},
		"no public keys":          {"public_keys_file", "# ", "public_keys_file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(good, c.old) {
				t.Fatalf("the settings do not hold %q", c.old)
			}
			p := program.Start(t, "nswatch", strings.Replace(good, c.old, c.new, 1))
			p.AwaitEnd()
			if !strings.Contains(p.Output(), c.want) || p.ExitCode() == 0 {
				t.Errorf("exit code %d, and it says\n%s\nwithout %s", p.ExitCode(), p.Output(), c.want)
			}
		})
	}
}

func TestSigningKeyThatNobodyTrustsIsRefusedAtStart(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	i.Rekey()
	p := i.Nswatch()
	p.AwaitEnd()
	if !strings.Contains(p.Output(), "public_keys_file") || p.ExitCode() == 0 {
		t.Errorf("exit code %d, and it says\n%s", p.ExitCode(), p.Output())
	}
}

// The file is one of a ConfigMap volume: nothing but the link above it changes. That notifications tell of it, and not
// the poll, is shown beside the source (TestReplayF01, TestReplayF02).
func TestConfigMapVolume(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	volume := t.TempDir()
	swap(t, volume, "first", `["a"]`)
	must(t, os.Symlink("..data/namespaces.json", filepath.Join(volume, "namespaces.json")))
	i.File = filepath.Join(volume, "namespaces.json")
	i.Nswatch()
	r := i.Reader()
	r.AwaitAllowed("a")
	for _, name := range []string{"b", "c", "d"} {
		swap(t, volume, "swap-"+name, `["`+name+`"]`)
		r.AwaitAllowed(name)
	}
	cluster.Eventually(t, "only the newest is allowed", func(context.Context) error {
		if r.Check("c").Allowed() {
			return errors.New("c is allowed")
		}
		return nil
	})
}

// swap does what the kubelet's atomic writer does.
func swap(t *testing.T, volume, version, content string) {
	t.Helper()
	dir := filepath.Join(volume, ".."+version)
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "namespaces.json"), []byte(content), 0o600))
	link := filepath.Join(volume, "..data_tmp")
	must(t, os.Symlink(filepath.Base(dir), link))
	must(t, os.Rename(link, filepath.Join(volume, "..data")))
}
