package pemfile_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

func TestRead(t *testing.T) {
	const limit = 16
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	certtest.Replace(t, path("full"), bytes.Repeat([]byte("x"), limit))
	certtest.Replace(t, path("over"), bytes.Repeat([]byte("x"), limit+1))
	certtest.Replace(t, path("empty"), nil)
	if err := os.Symlink(path("full"), path("link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("huge"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path("huge"), 1<<40); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", path("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, c := range []struct {
		name, path string
		length     int
		text       string // no text: it is read
	}{
		{"at the limit", path("full"), limit, ""},
		{"link, as a mounted Secret has", path("link"), limit, ""},
		{"nothing in it", path("empty"), 0, ""},
		{"file of the kernel, which may block", "/proc/self/mountinfo", 0, ""},
		{"over the limit", path("over"), 0, "larger than 16 bytes"},
		{"huge", path("huge"), 0, "larger than 16 bytes"},
		{"absent", path("absent"), 0, "no such file"},
		{"directory", dir, 0, "not a regular file"},
		{"device without end", "/dev/zero", 0, "not a regular file"},
		{"pipe that nobody writes to", path("pipe"), 0, "not a regular file"},
		{"socket", path("socket"), 0, "not a regular file"},
		{"no path", "", 0, "no such file"},
		{"path of two lines", "/nowhere/a\nb", 0, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := pemfile.File{Key: "some_file", Path: c.path}
			content, err := f.Read(limit)
			if c.text == "" {
				if err != nil || len(content) != c.length {
					t.Errorf("got %d bytes, %v", len(content), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.text) || !strings.HasPrefix(err.Error(), f.String()) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with the key, the path and %q", err, c.text)
			}
		})
	}
}

// TestBrokenPair breaks a sound pair with a chain of two in one way at a time.
func TestBrokenPair(t *testing.T) {
	ca, other := certtest.New(t, "ca"), certtest.New(t, "other")
	certPEM, keyPEM := ca.IssuePEM("someone")
	chain := append(bytes.Clone(certPEM), ca.PEM()...)
	_, otherKey := other.IssuePEM("someone")
	const cut = "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"
	for _, c := range []struct {
		name      string
		cert, key []byte
		text      string // none: it is sound
	}{
		{"sound", chain, keyPEM, ""},
		{"no certificate", nil, keyPEM, "no PEM certificate"},
		{"key as certificate", keyPEM, keyPEM, "no PEM certificate"},
		{"second certificate does not parse", append(bytes.Clone(certPEM), cut...), keyPEM, "certificate 2 does not parse"},
		{"second certificate cut off", chain[:len(chain)-40], keyPEM, "1 of 2 PEM certificates"},
		{"first certificate mangled", bytes.Replace(chain, []byte("MII"), []byte("???"), 1), keyPEM, "1 of 2 PEM certificates"},
		{"PEM headers", bytes.Replace(chain, []byte("MII"), []byte("a: b\n\nMII"), 1), keyPEM, "PEM headers"},
		{"no key", chain, nil, "no PEM private key"},
		{"certificate as key", chain, chain, "no PEM private key"},
		{"secret in a block's name", chain, []byte("-----BEGIN hunter2-----\n-----END hunter2-----\n"), "no PEM private key"},
		{"key cut short", chain, []byte("-----BEGIN PRIVATE KEY-----\nMII=\n-----END PRIVATE KEY-----\n"), "parse private key"},
		{"key of another certificate", chain, otherKey, "does not match"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			cert := pemfile.File{Key: "cert_file", Path: filepath.Join(dir, "cert")}
			key := pemfile.File{Key: "key_file", Path: filepath.Join(dir, "key")}
			certtest.Replace(t, cert.Path, c.cert)
			certtest.Replace(t, key.Path, c.key)
			pair, err := pemfile.KeyPair(cert, key)
			if c.text == "" {
				if err != nil || len(pair.Certificate) != 2 {
					t.Errorf("got %d certificates, %v", len(pair.Certificate), err)
				}
				return
			}
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range []string{c.text, cert.String(), key.String()} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %q has more than one line, or a secret", err)
			}
		})
	}
	_, err := pemfile.KeyPair(pemfile.File{Key: "cert_file", Path: "/nowhere/cert"}, pemfile.File{Key: "key_file", Path: "/nowhere/key"})
	if err == nil || !strings.Contains(err.Error(), "/nowhere/cert") || !strings.Contains(err.Error(), "/nowhere/key") {
		t.Errorf("both absent: %v, want both paths", err)
	}
}

// FuzzPool: whatever the bundle, an error is one line, and a pool comes only with as many certificates as are
// announced.
func FuzzPool(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----"))
	f.Add(certtest.New(f, "authority").PEM())
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "bundle")
		certtest.Replace(t, path, content)
		pool, err := pemfile.File{Key: "ca_file", Path: path}.Pool()
		switch {
		case err == nil && pool == nil:
			t.Error("neither a pool nor an error")
		case err != nil && pool != nil:
			t.Error("a pool and an error")
		case err == nil && !bytes.Contains(content, []byte("-----BEGIN CERTIFICATE-----")):
			t.Error("a pool out of nothing")
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("error of several lines: %q", err)
		}
	})
}
