package images

import (
	"os"
	"path/filepath"
	"testing"
)

// What is upgraded from differs from what is upgraded to, whatever the last commits are about.
func TestFormer(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("other"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	demand := func(when, want string) {
		t.Helper()
		got, err := Former(t.Context(), dir, "sub")
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		commits := map[string]string{}
		for _, revision := range []string{got, want} {
			if commits[revision], err = git(t.Context(), dir, "rev-parse", revision); err != nil {
				t.Fatal(err)
			}
		}
		if commits[got] != commits[want] {
			t.Errorf("%s it is %s, want %s", when, got, want)
		}
	}
	demand("when the last commit changed it", "HEAD^")
	write("beside")
	demand("when a file beside is new", "HEAD^")
	run(t, dir, "add", ".")
	run(t, dir, "commit", "--quiet", "--message", "beside")
	demand("when the last commit changed a file beside", "HEAD~2")
	write(filepath.Join("sub", "new"))
	demand("when a file in it is new", "HEAD")
	if got, err := Former(t.Context(), dir, "elsewhere"); err == nil {
		t.Errorf("of what no commit has it is %s", got)
	}
}
