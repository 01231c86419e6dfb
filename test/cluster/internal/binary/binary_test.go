package binary_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/binary"
)

// repository makes a root with one pinning module whose program prints text.
func repository(t *testing.T, text string) string {
	t.Helper()
	root := t.TempDir()
	change(t, root, "mod/go.mod", "module example.test/mod\n\ngo 1.26.0\n")
	change(t, root, "mod/go.sum", "")
	change(t, root, "mod/main.go", "package main\n\nfunc main() { print("+text+") }\n")
	return root
}

func change(t *testing.T, root, name, body string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}

func cache(t *testing.T, root string) (*binary.Cache, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	c, err := binary.NewCache(root, log)
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

var program = binary.Binary{Name: "program", Module: "mod", Package: "."}

func output(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command(path).CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestBuiltOnceForOneStateOfTheModule(t *testing.T) {
	t.Setenv("PORTCULLIS_CACHE", t.TempDir())
	root := repository(t, `"one"`)
	c, log := cache(t, root)
	for range 2 {
		paths, err := c.Paths(t.Context(), program)
		if err != nil {
			t.Fatal(err)
		}
		if got := output(t, paths["program"]); got != "one" {
			t.Fatalf("the program prints %q", got)
		}
	}
	if n := strings.Count(log.String(), "built program"); n != 1 {
		t.Errorf("built %d times:\n%s", n, log)
	}
	change(t, root, "mod/main.go", "package main\n\nfunc main() { print(\"two\") }\n")
	paths, err := c.Paths(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	if got := output(t, paths["program"]); got != "two" {
		t.Errorf("a changed module still gives %q", got)
	}
}

func TestConcurrentCallersBuildOnce(t *testing.T) {
	t.Setenv("PORTCULLIS_CACHE", t.TempDir())
	root := repository(t, `"one"`)
	logs := make([]*bytes.Buffer, 4)
	var wg sync.WaitGroup
	for i := range logs {
		c, log := cache(t, root)
		logs[i] = log
		wg.Go(func() {
			if _, err := c.Paths(t.Context(), program); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	built := 0
	for _, log := range logs {
		built += strings.Count(log.String(), "built program")
	}
	if built != 1 {
		t.Errorf("built %d times", built)
	}
}

func TestFailedBuildSaysWhyAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PORTCULLIS_CACHE", dir)
	c, _ := cache(t, repository(t, "undefinedName"))
	_, err := c.Paths(t.Context(), program)
	if err == nil || !strings.Contains(err.Error(), "undefinedName") {
		t.Fatalf("got %v, want the compiler's words", err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "bin", "*", "program"))
	if err != nil || len(found) > 0 {
		t.Errorf("a failed build left %v, %v", found, err)
	}
}

func TestRootIsFoundFromBelow(t *testing.T) {
	root := t.TempDir()
	change(t, root, "go.work", "go 1.26.0\n")
	below := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	got, err := binary.Root()
	if err != nil {
		t.Fatal(err)
	}
	if want, err := filepath.EvalSymlinks(root); err != nil || got != want && got != root {
		t.Errorf("got %s, want %s (%v)", got, root, err)
	}
	t.Chdir(t.TempDir())
	if got, err := binary.Root(); err == nil {
		t.Errorf("outside of a repository: got %s", got)
	}
}
