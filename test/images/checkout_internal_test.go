package images

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository makes one with two commits, of which the second changes the file, and returns it.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, dir, "init", "--quiet", "--initial-branch=main")
	for _, text := range []string{"first", "second"} {
		if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "sub", "file"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, dir, "add", ".")
		run(t, dir, "commit", "--quiet", "--message", text)
	}
	return dir
}

func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	// Nothing of the machine's own configuration, and a time that is known.
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example", "GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func TestCheckOut(t *testing.T) {
	t.Parallel()
	origin := repository(t)
	for revision, want := range map[string]string{"HEAD": "second", "HEAD^": "first"} {
		into := t.TempDir()
		got, err := CheckOut(t.Context(), origin, revision, into)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(into, "sub", "file"))
		if err != nil || string(text) != want {
			t.Errorf("%s: the file says %q, %v, want %q", revision, text, err, want)
		}
		if err := got.Stamp.validate(); err != nil || got.Stamp.Time.Unix() != 1_700_000_000 || len(got.Stamp.Commit) != 40 {
			t.Errorf("%s: %+v, %v", revision, got.Stamp, err)
		}
	}
}

// A clone without the commit says what to do, and so does a name that nothing has.
func TestCheckOutOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	origin := repository(t)
	shallow := filepath.Join(t.TempDir(), "clone")
	run(t, origin, "clone", "--quiet", "--depth=1", "file://"+origin, shallow)
	for name, c := range map[string]struct{ root, revision, advice string }{
		"a shallow clone": {shallow, "HEAD^", "git fetch --deepen=1"},
		"no such name":    {origin, "v9.9.9", "git fetch --all --tags"},
		"an option":       {origin, "--all", "git fetch --all --tags"},
	} {
		if _, err := CheckOut(t.Context(), c.root, c.revision, t.TempDir()); err == nil || !strings.Contains(err.Error(), c.advice) {
			t.Errorf("%s: %v, want the advice %q", name, err, c.advice)
		}
	}
	if _, err := CheckOut(t.Context(), shallow, "HEAD", t.TempDir()); err != nil {
		t.Errorf("what the shallow clone has: %v", err)
	}
}

func TestUnpackStaysInside(t *testing.T) {
	t.Parallel()
	for name, entry := range map[string]tar.Header{
		"a file above":        {Name: "../out", Typeflag: tar.TypeReg},
		"a link out":          {Name: "link", Typeflag: tar.TypeSymlink, Linkname: "../../etc"},
		"an absolute link":    {Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		"a device":            {Name: "null", Typeflag: tar.TypeChar},
		"a file that is huge": {Name: "huge", Typeflag: tar.TypeReg, Size: maxSource + 1},
	} {
		var archive bytes.Buffer
		out := tar.NewWriter(&archive)
		if err := out.WriteHeader(&entry); err != nil {
			t.Fatal(err)
		}
		if err := unpack(&archive, t.TempDir()); err == nil {
			t.Errorf("%s is unpacked", name)
		}
	}
}
