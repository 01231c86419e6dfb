package natsconn_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// TestBrokenFiles breaks one file of a valid set at a time. Each is one line that names the key, the file and the
// cause, at start-up.
func TestBrokenFiles(t *testing.T) {
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	accountSeed, err := account.Seed()
	if err != nil {
		t.Fatal(err)
	}
	other := certtest.New(t, "other")
	_, otherKey := other.IssuePEM("other")
	badCert := bytes.Replace(other.PEM(), []byte("MII"), []byte("AAA"), 1)
	_, seed := natstest.NKey(t)
	creds := natstest.NewOperator(t).Creds("writer")
	onlyJWT := creds[:bytes.Index(creds, []byte("-----BEGIN USER NKEY SEED"))]

	for _, c := range []struct {
		name    string
		key     string // the settings key whose file is spoiled
		content []byte // nil removes it
		text    string
	}{
		{"absent authority", "ca_file", nil, "no such file"},
		{"empty authority", "ca_file", []byte("\n"), "holds no PEM certificate"},
		{"authority that is no PEM", "ca_file", []byte("hello"), "holds no PEM certificate"},
		{"authority that is a key", "ca_file", otherKey, "holds no PEM certificate"},
		{"malformed authority", "ca_file", badCert, "certificate 1 does not parse"},
		{"second authority malformed", "ca_file", append(bytes.Clone(other.PEM()), "-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n"...), "1 of 2 PEM certificates are cut off or mangled"},
		{"huge authority", "ca_file", bytes.Repeat([]byte("x"), 1<<20+1), "larger than"},
		{"absent certificate", "cert_file", nil, "no such file"},
		{"certificate that is no PEM", "cert_file", []byte("hello"), "holds no PEM certificate"},
		{"absent key", "key_file", nil, "no such file"},
		{"key of another certificate", "key_file", otherKey, "does not match"},
		{"absent credentials", "creds_file", nil, "no such file"},
		{"credentials that are none", "creds_file", []byte("hello"), "holds no user JWT"},
		{"credentials without seed", "creds_file", onlyJWT, "holds no user NKEY seed"},
		{"seed for credentials", "creds_file", seed, "holds no user JWT"},
		{"absent seed", "nkey_seed_file", nil, "no such file"},
		{"seed that is none", "nkey_seed_file", []byte("hello"), "holds no user NKEY seed"},
		{"seed of an account", "nkey_seed_file", accountSeed, "holds no user NKEY seed"},
		{"seed cut short", "nkey_seed_file", seed[:20], "holds no user NKEY seed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := remote()
			dir := t.TempDir()
			files := certtest.New(t, "ca").Issue(dir, "writer")
			cfg.CAFile, cfg.CertFile, cfg.KeyFile = files.CA, files.Cert, files.Key
			paths := map[string]string{"ca_file": files.CA, "cert_file": files.Cert, "key_file": files.Key}
			switch c.key {
			case "creds_file":
				cfg.CredsFile = filepath.Join(dir, "creds")
				paths[c.key] = cfg.CredsFile
				certtest.Replace(t, cfg.CredsFile, creds)
			case "nkey_seed_file":
				cfg.NKeySeedFile = filepath.Join(dir, "seed")
				paths[c.key] = cfg.NKeySeedFile
				certtest.Replace(t, cfg.NKeySeedFile, seed)
			}
			if err := cfg.CheckFiles(); err != nil {
				t.Fatalf("the base does not load: %v", err)
			}
			if c.content == nil {
				if err := os.Remove(paths[c.key]); err != nil {
					t.Fatal(err)
				}
			} else {
				certtest.Replace(t, paths[c.key], c.content)
			}
			_, err := natsconn.New(cfg, zerolog.Nop(), prometheus.NewRegistry())
			if err == nil {
				t.Fatal("new accepted it")
			}
			for _, want := range []string{c.key, paths[c.key], c.text} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), string(seed)) {
				t.Errorf("error %q has more than one line, or the seed", err)
			}
		})
	}
}

func TestSpecialFileIsRefusedWithoutReading(t *testing.T) {
	cfg := remote()
	cfg.CAFile, cfg.CertFile, cfg.KeyFile = "/dev/zero", "", ""
	if err := cfg.CheckFiles(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v, want a refusal of the device", err)
	}
	cfg.CAFile = t.TempDir()
	if err := cfg.CheckFiles(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v, want a refusal of the directory", err)
	}
}

func TestEveryBrokenFileIsReported(t *testing.T) {
	cfg := remote()
	dir := t.TempDir()
	cfg.CAFile, cfg.CertFile, cfg.KeyFile = filepath.Join(dir, "ca"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	cfg.NKeySeedFile = filepath.Join(dir, "seed")
	err := cfg.CheckFiles()
	if err == nil {
		t.Fatal("four absent files are fine")
	}
	for _, want := range []string{cfg.CAFile, cfg.CertFile, cfg.KeyFile, cfg.NKeySeedFile} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
}
