package meshtest

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// Files are a daemon's certificate files in a directory that works like a Secret
// volume: the names are symlinks through "..data", and [Files.Replace] switches all
// of them at one instant.
type Files struct {
	// Cert, Key and CA are the paths for cert_file, key_file and ca_file.
	Cert, Key, CA string

	dir        string
	mu         sync.Mutex
	generation int
}

// Content is what the three files hold.
type Content struct {
	Pair
	CA []byte
}

// NewFiles writes a right set of files for the daemon: a certificate that ca issued,
// with changes, its key, and ca itself as the trust.
func NewFiles(tb testing.TB, ca *CA, daemon string, changes ...Change) *Files {
	tb.Helper()
	dir := tb.TempDir()
	f := &Files{
		dir:  dir,
		Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt"),
	}
	f.Replace(tb, Content{Pair: ca.Issue(tb, daemon, changes...), CA: ca.PEM})
	for _, path := range []string{f.Cert, f.Key, f.CA} {
		if err := os.Symlink(filepath.Join("..data", filepath.Base(path)), path); err != nil {
			tb.Fatalf("link test file: %v", err)
		}
	}
	return f
}

// Replace switches all three files at once. A reader that opens them one after
// another may still see some old and some new, as in a cluster.
func (f *Files) Replace(tb testing.TB, content Content) {
	tb.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.generation++
	name := "..generation-" + strconv.Itoa(f.generation)
	if err := os.Mkdir(filepath.Join(f.dir, name), 0o700); err != nil {
		tb.Fatalf("write test files: %v", err)
	}
	for path, text := range map[string][]byte{f.Cert: content.Cert, f.Key: content.Key, f.CA: content.CA} {
		if err := os.WriteFile(filepath.Join(f.dir, name, filepath.Base(path)), text, 0o600); err != nil {
			tb.Fatalf("write test files: %v", err)
		}
	}
	link := filepath.Join(f.dir, "..data_tmp")
	if err := os.Symlink(name, link); err != nil {
		tb.Fatalf("switch test files: %v", err)
	}
	if err := os.Rename(link, filepath.Join(f.dir, "..data")); err != nil {
		tb.Fatalf("switch test files: %v", err)
	}
}

// Read returns what the files hold now.
func (f *Files) Read(tb testing.TB) Content {
	tb.Helper()
	read := func(path string) []byte {
		text, err := os.ReadFile(path)
		if err != nil {
			tb.Fatalf("read test file: %v", err)
		}
		return text
	}
	return Content{Pair: Pair{Cert: read(f.Cert), Key: read(f.Key)}, CA: read(f.CA)}
}
