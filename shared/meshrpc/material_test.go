package meshrpc

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
)

// replaceWith puts one file in the place of another, of whatever kind.
func replaceWith(t *testing.T, path string, create func(path string) error) {
	t.Helper()
	must(t, os.Remove(path))
	must(t, create(path))
}

func TestNewRefusesFiles(t *testing.T) {
	ca, other := meshtest.NewCA(t), meshtest.NewCA(t)
	type set = meshtest.Content
	issue := func(changes ...meshtest.Change) func(*set) {
		return func(s *set) { s.Pair = ca.Issue(t, "tokenauth", changes...) }
	}
	cut := func(text []byte) []byte { return text[:len(text)-len(text)/3] }
	// Each case breaks the content of one file of a right set. want names file and cause.
	contents := map[string]struct {
		breaks func(*set)
		want   []string
	}{
		"nothing":                    {func(*set) {}, nil},
		"intermediate text":          {func(s *set) { s.CA = append([]byte("# our authority\n"), s.CA...) }, nil},
		"two authorities":            {func(s *set) { s.CA = append(bytes.Clone(other.PEM), s.CA...) }, nil},
		"empty certificate":          {func(s *set) { s.Cert = nil }, []string{"cert_file", "tls.crt", "holds no PEM certificate"}},
		"certificate is text":        {func(s *set) { s.Cert = []byte("hello\n") }, []string{"cert_file", "tls.crt", "holds no PEM certificate"}},
		"certificate cut off":        {func(s *set) { s.Cert = cut(s.Cert) }, []string{"cert_file", "1 of 1 PEM certificates are cut off"}},
		"certificate is no DER":      {func(s *set) { s.Cert = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n") }, []string{"cert_file", "certificate 1 does not parse"}},
		"chain cut off":              {func(s *set) { s.Cert = append(s.Cert, cut(other.PEM)...) }, []string{"cert_file", "1 of 2 PEM certificates"}},
		"key as certificate":         {func(s *set) { s.Cert = s.Key }, []string{"cert_file", "holds no PEM certificate"}},
		"empty key":                  {func(s *set) { s.Key = nil }, []string{"key_file", "tls.key", "does not serve with cert_file", "failed to find any PEM data"}},
		"key cut off":                {func(s *set) { s.Key = cut(s.Key) }, []string{"key_file", "tls.key"}},
		"certificate as key":         {func(s *set) { s.Key = s.Cert }, []string{"key_file", "tls.key"}},
		"key of another certificate": {func(s *set) { s.Key = ca.Issue(t, "tokenauth").Key }, []string{"key_file", "tls.key", "tls.crt", "private key does not match public key"}},
		"empty authorities":          {func(s *set) { s.CA = nil }, []string{"ca_file", "ca.crt", "holds no PEM certificate"}},
		"authority cut off":          {func(s *set) { s.CA = cut(s.CA) }, []string{"ca_file", "1 of 1 PEM certificates"}},
		"second authority cut off":   {func(s *set) { s.CA = append(s.CA, cut(other.PEM)...) }, []string{"ca_file", "1 of 2 PEM certificates"}},
		"authority with PEM headers": {func(s *set) { s.CA = bytes.Replace(s.CA, []byte("\n"), []byte("\nA: b\n\n"), 1) }, []string{"ca_file", "PEM headers"}},
		"a daemon as authority":      {func(s *set) { s.CA = append(s.CA, s.Cert...) }, []string{"ca_file", "certificate 2", "not one of an authority"}},
		"another authority":          {func(s *set) { s.CA = other.PEM }, []string{"cert_file", "ca_file", "signed by unknown authority"}},
		"expired":                    {issue(meshtest.Expired()), []string{"cert_file", "tls.crt", "expired at 2"}},
		"not yet valid":              {issue(meshtest.NotYetValid()), []string{"cert_file", "tls.crt", "valid only from 2"}},
		"another daemon":             {func(s *set) { s.Pair = ca.Issue(t, "nswatch") }, []string{"cert_file", "that of nswatch, but this daemon is tokenauth"}},
		"no identity":                {issue(meshtest.URIs()), []string{"cert_file", "has no URI name"}},
		"two identities":             {issue(meshtest.URIs("spiffe://portcullis/tokenauth", "spiffe://portcullis/nswatch")), []string{"cert_file", "2 URI names"}},
		"another trust domain":       {issue(meshtest.URIs("spiffe://example.org/tokenauth")), []string{"cert_file", `trust domain "example.org"`}},
		"an authority as daemon":     {issue(meshtest.Authority()), []string{"cert_file", "one of an authority"}},
		"only for servers":           {issue(meshtest.Usages(x509.ExtKeyUsageServerAuth)), []string{"cert_file", "as a client's"}},
		"only for clients":           {issue(meshtest.Usages(x509.ExtKeyUsageClientAuth)), []string{"cert_file", "as a server's"}},
		"too large":                  {func(s *set) { s.CA = append(s.CA, bytes.Repeat([]byte("\n"), maxFileBytes)...) }, []string{"ca_file", "larger than 1048576 bytes"}},
	}
	for name, c := range contents {
		t.Run(name, func(t *testing.T) {
			files := meshtest.NewFiles(t, ca, "tokenauth")
			content := files.Read(t)
			c.breaks(&content)
			files.Replace(t, content)
			mustRefuse(t, files, content.Key, c.want)
		})
	}

	kinds := map[string]func(path string) error{
		"no such file or directory": func(string) error { return nil },
		"is not a regular file":     func(path string) error { return os.Mkdir(path, 0o755) },
		"not a regular file":        func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"too many levels":           func(path string) error { return os.Symlink(filepath.Base(path), path) },
	}
	for want, kind := range kinds {
		for _, which := range []string{"cert_file", "key_file", "ca_file"} {
			t.Run(which+" "+want, func(t *testing.T) {
				files := meshtest.NewFiles(t, ca, "tokenauth")
				path := map[string]string{"cert_file": files.Cert, "key_file": files.Key, "ca_file": files.CA}[which]
				replaceWith(t, path, kind)
				mustRefuse(t, files, nil, []string{which, path, want})
			})
		}
	}
}

// mustRefuse expects New to fail with one line that says all of want and no secret; an
// empty want expects success.
func mustRefuse(t *testing.T, files *meshtest.Files, key []byte, want []string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	_, err := New(configFor(files), Deps{Daemon: "tokenauth", Registerer: registry})
	if want == nil {
		must(t, err)
		return
	}
	if err == nil {
		t.Fatal("New accepted the files")
	}
	oneLine(t, err)
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("New says %q, want it to say %q", err, part)
		}
	}
	for _, line := range bytes.Split(key, []byte("\n")) {
		if len(line) > 20 && !bytes.HasPrefix(line, []byte("-----")) && strings.Contains(err.Error(), string(line)) {
			t.Errorf("New quotes the key: %q", err)
		}
	}
}

func TestNewRefusesTheRest(t *testing.T) {
	files := meshtest.NewFiles(t, meshtest.NewCA(t), "tokenauth")
	cases := map[string]struct {
		breaks func(*Config, *Deps)
		want   string
	}{
		"nothing":         {func(*Config, *Deps) {}, ""},
		"settings":        {func(c *Config, _ *Deps) { c.MaxAttempts, c.CallTimeout = 0, 0 }, "call_timeout 0s is outside"},
		"no name":         {func(_ *Config, d *Deps) { d.Daemon = "" }, "the daemon's name is empty"},
		"impossible name": {func(_ *Config, d *Deps) { d.Daemon = PlaintextCaller }, "is no name for a daemon"},
		"no registerer":   {func(_ *Config, d *Deps) { d.Registerer = nil }, "no registerer"},
		"metrics taken":   {func(_ *Config, d *Deps) { _, _ = newMetrics(d.Registerer, true) }, "register the metrics of the mesh"},
		"clock far ahead": {func(_ *Config, d *Deps) { d.Now = func() time.Time { return time.Now().AddDate(1, 0, 0) } }, "expired at"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cfg, deps := configFor(files), Deps{Daemon: "tokenauth", Registerer: prometheus.NewRegistry()}
			c.breaks(&cfg, &deps)
			_, err := New(cfg, deps)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("New says %v, want %q", err, c.want)
			}
			if err != nil {
				oneLine(t, err)
			}
		})
	}
}
