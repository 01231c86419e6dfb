package handbook

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Match is where a pattern was found: in which package, and its groups, of which the first is all of it.
type Match struct {
	In     string
	Groups []string
}

// Scan finds a pattern in the sources below a directory, but for tests, in the order of files.
func Scan(t testing.TB, directory string, pattern *regexp.Regexp) (found []Match) {
	t.Helper()
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, groups := range pattern.FindAllStringSubmatch(Read(t, path), -1) {
			found = append(found, Match{filepath.Base(filepath.Dir(path)), groups})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
