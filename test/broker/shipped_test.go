package broker_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
	"github.com/portcullis-mesh/portcullis/test/program"
)

const (
	gatewayID = "openshell"
	kustomize = "../../deploy/kustomize"
)

// files are the files of a server's configuration by name.
type files map[string]string

// single are the shipped files of one server, members those of one of three.
func single(t testing.TB) files  { return read(t, "base/nats/nats.conf") }
func members(t testing.TB) files { return read(t, "components/nats-ha/nats.conf") }

func read(t testing.TB, main string) files {
	t.Helper()
	f := files{}
	for name, path := range map[string]string{"nats.conf": main, "server.conf": "base/nats/server.conf", "accounts.conf": "base/nats/accounts.conf"} {
		text, err := os.ReadFile(filepath.Join(kustomize, path))
		if err != nil {
			t.Fatal(err)
		}
		f[name] = string(text)
	}
	text, err := os.ReadFile(filepath.Join(identities(t), "identities.conf"))
	if err != nil {
		t.Fatal(err)
	}
	f["identities.conf"] = string(text)
	return f
}

// with is f with a text in one of the files replaced, wherever it stands there.
func (f files) with(t testing.TB, name, old, text string) files {
	t.Helper()
	if !strings.Contains(f[name], old) {
		t.Fatalf("%s has no %q to replace", name, old)
	}
	f = maps.Clone(f)
	f[name] = strings.ReplaceAll(f[name], old, text)
	return f
}

// write puts the files into a directory, with the server's certificate in its tls and the store in its data.
func (f files) write(t testing.TB, dir string) (main string) {
	t.Helper()
	f = f.with(t, "server.conf", `"/data"`, `"`+filepath.Join(dir, "data")+`"`).with(t, "server.conf", "/etc/nats-tls/", filepath.Join(dir, "tls")+"/")
	if strings.Contains(f["nats.conf"], "cluster {") {
		f = f.with(t, "nats.conf", "/etc/nats-tls/", filepath.Join(dir, "tls")+"/")
	}
	for name, text := range f {
		certtest.Replace(t, filepath.Join(dir, name), []byte(text))
	}
	return filepath.Join(dir, "nats.conf")
}

// made is what all tests share: who vouches for the servers, and the directory that nswatch nats identities has filled.
var made struct {
	sync.Mutex
	issuer *issuer
	dir    string
	// tried says that the directory was to be filled, so that each test does not try again what fails.
	tried bool
}

// vouching is who vouches for the servers of this test binary.
func vouching(t testing.TB) *issuer {
	t.Helper()
	made.Lock()
	defer made.Unlock()
	if made.issuer == nil {
		made.issuer = newIssuer(t)
	}
	return made.issuer
}

// certificate writes a server's certificate into the tls of dir.
func certificate(t testing.TB, dir string) {
	vouching(t).issue(t, filepath.Join(dir, "tls"), "localhost")
}

// identities is the directory that nswatch nats identities has filled.
func identities(t testing.TB) string {
	t.Helper()
	issuer := vouching(t)
	made.Lock()
	defer made.Unlock()
	if made.dir == "" {
		if made.tried {
			t.Fatal("there are no identities: see the test that was the first to need them")
		}
		made.tried = true
		authority, dir := filepath.Join(scratch, "ca.crt"), filepath.Join(scratch, "identities")
		certtest.Replace(t, authority, issuer.pem())
		fill(t, dir, authority)
		made.dir = dir
	}
	return made.dir
}

func fill(t testing.TB, dir, authority string) (said string) {
	t.Helper()
	out, err := program.Command(t, "nswatch", "nats", "identities", "--dir", dir, "--gateway-id", gatewayID, "--ca-file", authority).CombinedOutput()
	if err != nil {
		t.Fatalf("make the identities: %v\n%s", err, out)
	}
	return string(out)
}

// seed is the seed file of an identity.
func seed(t testing.TB, who string) string {
	t.Helper()
	return filepath.Join(identities(t), who+".seed")
}

// authority is the file with the certificate that clients trust.
func authority(t testing.TB) string {
	t.Helper()
	return filepath.Join(identities(t), "ca.crt")
}
