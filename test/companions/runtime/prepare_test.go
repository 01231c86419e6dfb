package runtime_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/companions/runtime"
)

// places are the mounts of a Pod in a directory, with what a Secret and an image hold.
func places(t *testing.T) runtime.Places {
	t.Helper()
	dir := t.TempDir()
	p := runtime.Places{
		Input: filepath.Join(dir, "input"), State: filepath.Join(dir, "state", "bootstrap"), Runtime: filepath.Join(dir, "runtime"),
		Image: filepath.Join(dir, "image"), Claim: filepath.Join(dir, "claim"),
	}
	for _, d := range []string{p.Input, p.Runtime, p.Claim, filepath.Join(p.Image, "deep", "er")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{
		filepath.Join(p.Input, "boundary.json"): 0o440, filepath.Join(p.Input, "tls.crt"): 0o440, filepath.Join(p.Input, "tls.key"): 0o440,
		filepath.Join(p.Image, "README"): 0o644, filepath.Join(p.Image, "deep", "er", "tool"): 0o755,
	} {
		write(t, name, filepath.Base(name), mode)
	}
	if err := os.Symlink("deep/er/tool", filepath.Join(p.Image, "link")); err != nil {
		t.Fatal(err)
	}
	return p
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != content {
		t.Errorf("%s holds %q, %v; want %q", path, b, err, content)
		return
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
		t.Errorf("%s has mode %v, %v; want %v", path, info.Mode(), err, mode)
	}
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	p := places(t)
	self := filepath.Join(t.TempDir(), "self")
	write(t, self, "program", 0o700)
	for range 2 { // a container may run again
		if err := runtime.Prepare(p, self); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"boundary.json", "tls.crt", "tls.key"} {
			holds(t, filepath.Join(p.State, name), name, 0o400)
		}
		holds(t, filepath.Join(p.Runtime, runtime.Program), "program", 0o555)
	}
	if left, err := filepath.Glob(filepath.Join(p.State, ".new-*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	if err := os.Remove(filepath.Join(p.Input, "tls.key")); err != nil {
		t.Fatal(err)
	}
	if err := runtime.Prepare(p, self); err == nil {
		t.Error("prepared without a key")
	}
}

func TestSeed(t *testing.T) {
	t.Parallel()
	p := places(t)
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "untouched", 0o600)
	// A copy was cut short and left a part; one of its entries was made a way out.
	write(t, filepath.Join(p.Claim, "README"), "REA", 0o600)
	if err := os.Symlink(outside, filepath.Join(p.Claim, "link")); err != nil {
		t.Fatal(err)
	}
	if err := runtime.Seed(p); err != nil {
		t.Fatal(err)
	}
	holds(t, filepath.Join(p.Claim, "README"), "README", 0o644)
	holds(t, filepath.Join(p.Claim, "deep", "er", "tool"), "tool", 0o755)
	holds(t, filepath.Join(p.Claim, ".workspace-initialized"), "", 0o444)
	holds(t, outside, "untouched", 0o600)
	if to, err := os.Readlink(filepath.Join(p.Claim, "link")); err != nil || to != "deep/er/tool" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	// A workspace is seeded once.
	write(t, filepath.Join(p.Claim, "README"), "mine", 0o644)
	if err := runtime.Seed(p); err != nil {
		t.Fatal(err)
	}
	holds(t, filepath.Join(p.Claim, "README"), "mine", 0o644)
}

func TestSeedWithoutWorkspace(t *testing.T) {
	t.Parallel()
	p := places(t)
	p.Image = filepath.Join(p.Image, "none")
	if err := runtime.Seed(p); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(p.Claim)
	if err != nil || len(entries) != 1 || entries[0].Name() != ".workspace-initialized" {
		t.Errorf("the claim holds %v, %v", entries, err)
	}
	p.Claim = filepath.Join(p.Claim, "none")
	if err := runtime.Seed(p); err == nil {
		t.Error("seeded a claim that is not there")
	}
}
