//go:build portcullis_long

package manual_test

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFuzzAsDocumented types make fuzz, with one input for each target besides its seeds: every target that there is has its turn.
func TestFuzzAsDocumented(t *testing.T) {
	targets := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Fuzz\w+)`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range declared.FindAllSubmatch(source, -1) {
			targets[filepath.Base(filepath.Dir(path))+" "+string(found[1])] = true
		}
		return err
	})
	noError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), lookup)
	defer cancel()
	fuzz := exec.CommandContext(ctx, "make", "--no-print-directory", "fuzz", "FUZZTIME=1x")
	fuzz.Dir, fuzz.Env = repository(t), append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	out, err := fuzz.CombinedOutput()
	if err != nil {
		t.Fatalf("make fuzz: %v\n%s", err, out)
	}
	for _, said := range regexp.MustCompile(`(?m)^fuzz \S*/(\S+ Fuzz\w+)$`).FindAllSubmatch(out, -1) {
		delete(targets, string(said[1]))
	}
	if len(targets) > 0 {
		t.Errorf("make fuzz had no turn for %v:\n%s", slices.Sorted(maps.Keys(targets)), out)
	}
}
