package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// apart takes out of the environment what git and make would go by: the machine's configuration, the repository of a hook, and the variables of
// a make that runs the test.
func apart(t *testing.T) {
	t.Helper()
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "GIT_") || slices.Contains([]string{"VERSION", "COMMIT", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"}, name) {
			t.Setenv(name, "") // so that it is put back
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"} {
		t.Setenv(name, os.DevNull)
	}
	for _, who := range []string{"GIT_AUTHOR", "GIT_COMMITTER"} {
		t.Setenv(who+"_NAME", "a")
		t.Setenv(who+"_EMAIL", "a@example")
	}
}

// output is that of a command in dir.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestStamps: make images and the command by itself say the same of the same sources, and the commit is one whatever tags there are. Else
// two clones of one commit, of which one has the tag, would give two digests.
func TestStamps(t *testing.T) {
	apart(t)
	makefile, err := filepath.Abs("../../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	change := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(text string) {
		change(text)
		output(t, dir, "git", "add", ".")
		output(t, dir, "git", "commit", "--quiet", "--message", text)
	}
	output(t, dir, "git", "init", "--quiet", "--initial-branch=main")
	commit("first")
	hash := func() string { return output(t, dir, "git", "rev-parse", "HEAD") }
	for _, tc := range []struct {
		name    string
		do      func()
		version func() string
		dirty   string
	}{
		{"no tag", func() {}, func() string { return hash()[:7] }, ""},
		{"an annotated tag", func() { output(t, dir, "git", "tag", "--annotate", "--message", "x", "v0.1.0") }, func() string { return "v0.1.0" }, ""},
		{"a changed file", func() { change("other") }, func() string { return "v0.1.0-dirty" }, "-dirty"},
		{"a commit later", func() { commit("second") }, func() string { return "v0.1.0-1-g" + hash()[:7] }, ""},
		{"a light tag", func() { output(t, dir, "git", "tag", "v0.2.0") }, func() string { return "v0.2.0" }, ""},
	} {
		tc.do()
		stamp, err := stampOf(t.Context(), dir, options{})
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		typed := output(t, dir, "make", "--no-print-directory", "-n", "-f", makefile, "images")
		made := regexp.MustCompile(`--version '(.*)' --commit '(.*)'`).FindStringSubmatch(typed)
		if made == nil {
			t.Fatalf("make images stamps nothing: %s", typed)
		}
		for by, got := range map[string][2]string{"the command": {stamp.Version, stamp.Commit}, "make": {made[1], made[2]}} {
			if want := [2]string{tc.version(), hash() + tc.dirty}; got != want {
				t.Errorf("%s: %s says %q, want %q", tc.name, by, got, want)
			}
		}
	}
}
