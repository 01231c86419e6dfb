package identityfile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/internal/identityfile"
)

func TestRead(t *testing.T) {
	const limit = 16
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	certtest.Replace(t, path("full"), bytes.Repeat([]byte("x"), limit))
	certtest.Replace(t, path("over"), bytes.Repeat([]byte("x"), limit+1))
	certtest.Replace(t, path("blank"), []byte(" \n\t"))
	if err := os.Symlink(path("full"), path("link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path, text string // no text: it is read
	}{
		{"at the limit", path("full"), ""},
		{"link, as a mounted Secret has", path("link"), ""},
		{"over the limit", path("over"), "larger than 16 bytes"},
		{"nothing in it", path("blank"), "is empty"},
		{"absent", path("absent"), "no such file"},
		{"directory", dir, "not a regular file"},
		{"device without end", "/dev/zero", "not a regular file"},
		{"pipe that nobody writes to", path("pipe"), "not a regular file"},
		{"no path", "", "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			content, err := identityfile.File{Key: "some_file", Path: c.path}.Read(limit)
			if c.text == "" {
				if err != nil || len(content) != limit {
					t.Errorf("got %d bytes, %v", len(content), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.text) || !strings.HasPrefix(err.Error(), "some_file: ") || !strings.Contains(err.Error(), c.path) {
				t.Errorf("got %v, want the key, the path and %q", err, c.text)
			}
		})
	}
}

// FuzzPool: whatever the bundle, an error is one line and holds nothing of the content, and a pool comes only with a
// certificate in it.
func FuzzPool(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----"))
	f.Add(certtest.New(f, "authority").PEM())
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "bundle")
		certtest.Replace(t, path, content)
		pool, err := identityfile.File{Key: "ca_file", Path: path}.Pool()
		switch {
		case err == nil && pool == nil:
			t.Error("neither a pool nor an error")
		case err == nil && !bytes.Contains(content, []byte("CERTIFICATE")):
			t.Error("a pool out of nothing")
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("error of several lines: %q", err)
		}
	})
}
