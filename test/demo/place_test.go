package demo_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/demo"
)

func home(t *testing.T, prefix string) *demo.Place {
	t.Helper()
	p, err := demo.Home(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPlace: one demo of a prefix at a time has the place, others see who, and what is removed is gone with all that was in it.
func TestPlace(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	mine, other, elsewhere := home(t, "a"), home(t, "a"), home(t, "b")
	if holder, err := mine.Holder(); holder != 0 || err != nil {
		t.Errorf("nobody has it: %d, %v", holder, err)
	}
	if err := errors.Join(mine.Take(), elsewhere.Take()); err != nil {
		t.Fatal(err)
	}
	if err := other.Take(); !errors.Is(err, demo.ErrRunning) {
		t.Errorf("a second one: %v", err)
	}
	if holder, err := other.Holder(); holder != os.Getpid() || err != nil {
		t.Errorf("the holder is %d, %v", holder, err)
	}
	for _, path := range []string{mine.Guide(), mine.Failure(), mine.Log(), filepath.Join(mine.World(), "file")} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mine.Free()
	if err := other.Take(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{other.Guide(): false, other.Failure(): false, other.Log(): true, filepath.Join(other.World(), "file"): false, other.World(): true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("after another has taken it, %s: %v", path, err)
		}
	}
	if err := other.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(mine.Log())); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the place is there: %v", err)
	}
	if err := errors.Join(mine.Take(), mine.Remove(), elsewhere.Remove()); err != nil {
		t.Errorf("a place that was removed can be taken: %v", err)
	}
	if left, err := os.ReadDir(tmp); len(left) > 0 || err != nil {
		t.Errorf("left are %v, %v", left, err)
	}
}
