package bootstrap

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/portcullis-mesh/portcullis/test/companions/exactjson"
)

// MaxFile is the greatest size of a file: that of a whole Secret.
const MaxFile = 1 << 20

// isSpace is what white space means in claims and ids.
func isSpace(r rune) bool { return unicode.IsSpace(r) }

// ReadBoundary reads and checks boundary.json. Errors name every wrong field.
func ReadBoundary(path string) (Boundary, error) { return read[Boundary](path) }

// ReadDescriptor reads and checks runtime-descriptor.json. Errors name every wrong field.
func ReadDescriptor(path string) (Descriptor, error) { return read[Descriptor](path) }

// ReadAuth reads and checks auth.json. Errors name every wrong field and show no token.
func ReadAuth(path string) (Auth, error) { return read[Auth](path) }

type checked interface{ problems() []string }

func read[T checked](path string) (T, error) {
	var v, none T
	data, err := Limited(path, MaxFile)
	if err != nil {
		return none, err
	}
	defer clear(data)
	if err := exactjson.Decode(data, &v); err != nil {
		return none, fmt.Errorf("read %s: %w", path, err)
	}
	if found := v.problems(); len(found) > 0 {
		return none, fmt.Errorf("read %s: %s", path, strings.Join(found, "; "))
	}
	return v, nil
}

// Limited reads a file that must not be larger than limit bytes.
func Limited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		clear(data)
		err = fmt.Errorf("read %s: larger than %d bytes", path, limit)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// faults collects what is wrong.
type faults []string

func (f *faults) unless(ok bool, text string) {
	if !ok {
		*f = append(*f, text)
	}
}

func (b Boundary) problems() []string {
	var f faults
	f.unless(word(b.BoundaryID), "boundary_id: empty or with white space")
	f.unless(b.Generation != "", "generation: empty")
	f.unless(uuid.MatchString(b.SessionID), "session_id: not a UUID")
	f.unless(b.SessionRotation > 0, "session_rotation: 0")
	f.unless(b.AuthEpoch > 0, "auth_epoch: 0")
	f.unless(word(b.GatewayID), "gateway_id: empty or with white space")
	if _, err := b.Keys(); err != nil {
		f.unless(false, "verification_keys: "+err.Error())
	}
	f.unless(b.Listener.Kind == "tls-tcp", "listener.kind: not tls-tcp")
	f.unless(address(b.Listener.Address), "listener.address: not ip:port")
	f.unless(filepath.IsAbs(b.Listener.TLS.CertificateChainPath), "listener.tls.certificate_chain_path: not absolute")
	f.unless(filepath.IsAbs(b.Listener.TLS.PrivateKeyPath), "listener.tls.private_key_path: not absolute")
	f = append(f, claimProblems("resource_claims", b.ResourceClaims, Claims())...)
	f = append(f, claimProblems("resource_claim_files", b.ResourceClaimFiles, []string{ClaimWorkloadPodUID})...)
	f = append(f, b.WorkloadIdentity.problems()...)
	f = append(f, b.OuterFence.problems(b.Generation, b.ResourceClaims)...)
	f.unless(b.ChildEnv != nil, "child_env: null")
	for name := range b.ChildEnv {
		f.unless(name != "" && !strings.ContainsAny(name, "=\x00"), fmt.Sprintf("child_env: %q is no name", name))
		f.unless(!strings.HasPrefix(name, "OPENSHELL_"), fmt.Sprintf("child_env: %s is not for the command", name))
	}
	return f
}

func (d Descriptor) problems() []string {
	var f faults
	f.unless(word(d.BoundaryID), "boundary_id: empty or with white space")
	f.unless(d.Generation != "", "generation: empty")
	f.unless(uuid.MatchString(d.SessionID), "session_id: not a UUID")
	f = append(f, d.WorkloadIdentity.problems()...)
	f = append(f, claimProblems("resource_claims", d.ResourceClaims, Claims())...)
	f = append(f, d.OuterFence.problems(d.Generation, d.ResourceClaims)...)
	f.unless(d.Transport.Kind == "tcp", "transport.kind: not tcp")
	f.unless(word(d.Transport.Authority), "transport.authority: empty or with white space")
	f.unless(len(d.Transport.Addresses) > 0, "transport.addresses: empty")
	for _, a := range d.Transport.Addresses {
		pinned, err := netip.ParseAddrPort(a)
		f.unless(err == nil && pinned.Port() != 0 && !pinned.Addr().IsUnspecified(), fmt.Sprintf("transport.addresses: %q is not ip:port of a host", a))
	}
	f.unless(d.TLS.ServerName == "sandbox."+d.SessionID+".openshell.internal", "tls.server_name: not that of the session")
	f.unless(x509.NewCertPool().AppendCertsFromPEM([]byte(d.TLS.TrustAnchorPEM)), "tls.trust_anchor_pem: no certificate")
	if d.HostGatewayIP != nil {
		_, err := netip.ParseAddr(*d.HostGatewayIP)
		f.unless(err == nil, "host_gateway_ip: not an IP address")
	}
	return f
}

func (a Auth) problems() []string {
	var f faults
	f.unless(uuid.MatchString(a.SessionID), "session_id: not a UUID")
	f.unless(a.RuntimeGeneration != "", "runtime_generation: empty")
	f.unless(a.SessionRotation > 0, "session_rotation: 0")
	f.unless(a.AuthEpoch > 0, "auth_epoch: 0")
	f.unless(!a.GatewayToken.IsZero(), "gateway_token: empty")
	f.unless(!a.SandboxToken.IsZero(), "sandbox_token: empty")
	f.unless(a.GatewayExpiresAt >= 0, "gateway_expires_at: negative")
	f.unless(a.SandboxExpiresAt >= 0, "sandbox_expires_at: negative")
	return f
}

func (i Identity) problems() []string {
	var f faults
	f.unless(i.SupplementaryGIDs != nil, "workload_identity.supplementary_gids: null")
	f.unless(i.Source != "", "workload_identity.source: empty")
	f.unless(i.ResourceDigest != "", "workload_identity.resource_digest: empty")
	return f
}

// Keys returns the gateway's public keys by id.
func (b Boundary) Keys() (map[string]ed25519.PublicKey, error) {
	keys := map[string]ed25519.PublicKey{}
	for _, k := range b.VerificationKeys {
		block, rest := pem.Decode([]byte(k.PublicKeyPEM))
		if block == nil || block.Type != "PUBLIC KEY" || strings.TrimSpace(string(rest)) != "" {
			return nil, fmt.Errorf("%q: not one PEM public key", k.KeyID)
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", k.KeyID, err)
		}
		key, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return nil, fmt.Errorf("%q: not an Ed25519 key", k.KeyID)
		}
		if _, twice := keys[k.KeyID]; twice || k.KeyID == "" {
			return nil, fmt.Errorf("key id %q: empty or given twice", k.KeyID)
		}
		keys[k.KeyID] = key
	}
	if len(keys) == 0 {
		return nil, errors.New("none")
	}
	return keys, nil
}

func address(s string) bool {
	a, err := netip.ParseAddrPort(s)
	return err == nil && a.Port() != 0
}
