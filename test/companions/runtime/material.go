package runtime

import (
	"crypto/ed25519"
	"crypto/tls"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/portcullis-mesh/portcullis/test/companions/bearer"
	"github.com/portcullis-mesh/portcullis/test/companions/bootstrap"
	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
)

// maxUID is the greatest size of the downward API's file.
const maxUID = 256

// material is what the runtime holds from its bootstrap.
type material struct {
	file  bootstrap.Boundary
	keys  map[string]ed25519.PublicKey
	chain tls.Certificate
	paths []string // of the files, to be removed before anything runs
}

func load(path string) (material, error) {
	file, err := bootstrap.ReadBoundary(path)
	if err != nil {
		return material{}, err
	}
	keys, err := file.Keys()
	if err != nil {
		return material{}, err
	}
	leaf := file.Listener.TLS
	cert, err := bootstrap.Limited(leaf.CertificateChainPath, bootstrap.MaxFile)
	if err != nil {
		return material{}, err
	}
	key, err := bootstrap.Limited(leaf.PrivateKeyPath, bootstrap.MaxFile)
	if err != nil {
		return material{}, err
	}
	defer clear(key)
	chain, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return material{}, fmt.Errorf("read %s and %s: %w", leaf.CertificateChainPath, leaf.PrivateKeyPath, err)
	}
	return material{file: file, keys: keys, chain: chain, paths: []string{path, leaf.CertificateChainPath, leaf.PrivateKeyPath}}, nil
}

// remove removes the files, so that the command cannot read them.
func (m material) remove() error {
	for _, path := range m.paths {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// session is what a bearer must be for.
func (m material) session() bearer.Session {
	return bearer.Session{
		GatewayID: m.file.GatewayID, SandboxID: m.file.BoundaryID,
		Generation: m.file.Generation, AuthEpoch: m.file.AuthEpoch,
	}
}

// claims returns all six claims. Those that files supply must be what the files hold now: in a Pod that was replaced they are not,
// and that is denied. A file that cannot be read or is empty says nothing, and is unavailable.
func (m material) claims() (map[string]string, *boundary.Failure) {
	for name, path := range m.file.ResourceClaimFiles {
		data, err := bootstrap.Limited(path, maxUID)
		if err != nil {
			return nil, boundary.Failed(boundary.Unavailable, "claim %s: %v", name, err)
		}
		switch held := strings.TrimSpace(string(data)); held {
		case "":
			return nil, boundary.Failed(boundary.Unavailable, "claim %s: %s is empty", name, path)
		case m.file.ResourceClaims[name]:
		default:
			return nil, boundary.Failed(boundary.Denied, "claim %s is %q, and %s holds %q", name, m.file.ResourceClaims[name], path, held)
		}
	}
	return maps.Clone(m.file.ResourceClaims), nil
}

// different returns the first claim, by name, that two sets do not share, or "".
func different(a, b map[string]string) string {
	first := ""
	for _, pair := range [2][2]map[string]string{{a, b}, {b, a}} {
		for name, value := range pair[0] {
			if other, ok := pair[1][name]; (!ok || other != value) && (first == "" || name < first) {
				first = name
			}
		}
	}
	return first
}
