package materialtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What every Material is about.
const (
	SandboxID  = "5f9b7c1e-8d2a-4b3c-9e4f-0a1b2c3d4e5f"
	GatewayID  = "gateway-a"
	Generation = "g00000000000002a7"
	SessionID  = "0c5d3f6a-7b8e-4f90-a1b2-c3d4e5f60718"
	PodUID     = "7a1b0c9d-1111-4222-8333-944455556666"
	KeyID      = "key-1"
	AuthEpoch  = 3
)

const (
	policyUID     = "11112222-3333-4444-5555-666677778888"
	policyVersion = "4711"
)

// Object is a JSON object.
type Object = map[string]any

// Material is the bootstrap of one session. Tests may change all of it before Write.
type Material struct {
	Boundary   Object
	Descriptor Object
	Auth       Object
	PodUID     string // what the downward API's file says
	Leaf       Pair
	Signer     ed25519.PrivateKey // the gateway's
	ca         authority
	now        time.Time
	placed     bool
}

// Files are where the material lies.
type Files struct {
	Dir, Boundary, Descriptor, Auth, PodUID, Certificate, Key string
}

// Make makes valid material for a runtime that listens on address.
func Make(t testing.TB, address string) *Material {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	must(t, err)
	ca := newAuthority(t)
	m := &Material{PodUID: PodUID, Signer: private, ca: ca, now: time.Now()}
	m.Leaf = m.LeafFor(t, ServerName())
	claims := Object{
		"kubernetes.namespace_uid":                  "aaaa0000-0000-4000-8000-000000000001",
		"kubernetes.sandbox_resource_uid":           "aaaa0000-0000-4000-8000-000000000002",
		"kubernetes.supervisor_pod_uid":             "aaaa0000-0000-4000-8000-000000000003",
		"kubernetes.workload_pod_uid":               PodUID,
		"kubernetes.egress_policy_uid":              policyUID,
		"kubernetes.egress_policy_resource_version": policyVersion,
	}
	identity := Object{
		"uid": os.Getuid(), "gid": os.Getgid(), "supplementary_gids": []any{},
		"source": "kubernetes-config", "resource_digest": "sandbox:aaaa0000-0000-4000-8000-000000000002",
	}
	fence := Object{
		"generation":      Generation,
		"established":     []any{"default_deny_egress", "no_unmanaged_egress_path", "revocation_verified", "controller_loss_fails_closed"},
		"evidence_digest": Evidence(Generation),
	}
	m.Boundary = Object{
		"boundary_id": SandboxID, "generation": Generation, "session_id": SessionID, "session_rotation": 1, "auth_epoch": AuthEpoch,
		"gateway_id": GatewayID,
		"verification_keys": []any{Object{
			"key_id": KeyID, "public_key_pem": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		}},
		"listener":        Object{"kind": "tls-tcp", "address": address, "tls": Object{}},
		"resource_claims": claims, "workload_identity": identity, "outer_fence": fence,
		"child_env": Object{"GREETING": "hello", "PATH": "/usr/bin:/bin"},
	}
	m.Descriptor = Object{
		"boundary_id": SandboxID, "generation": Generation, "session_id": SessionID,
		"workload_identity": clone(t, identity), "resource_claims": clone(t, claims), "outer_fence": clone(t, fence),
		"transport":       Object{"kind": "tcp", "authority": "os-boundary-" + SandboxID + ".team-a.svc:5500", "addresses": []any{address}},
		"tls":             Object{"server_name": ServerName(), "trust_anchor_pem": string(ca.certificate)},
		"host_gateway_ip": nil,
	}
	m.Auth = Object{
		"session_id": SessionID, "runtime_generation": Generation, "session_rotation": 1, "auth_epoch": AuthEpoch,
		"gateway_token": "unused", "gateway_expires_at": 0, "sandbox_token": m.Token(t, nil), "sandbox_expires_at": m.now.Add(time.Hour).Unix(),
	}
	return m
}

// ServerName is the leaf's name (contract 7.8).
func ServerName() string { return "sandbox." + SessionID + ".openshell.internal" }

// Evidence is the fence's evidence digest for a generation (contract 13.4).
func Evidence(generation string) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(len(generation)))
	b = append(b, generation...)
	b = append(b, `{"network_policy_uid":"`+policyUID+`","network_policy_resource_version":"`+policyVersion+
		`","ingress_isolated":true,"egress_isolated":true,"egress_rule_count":0}`...)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Token makes a sandbox token, valid unless change spoils its header or claims.
func (m *Material) Token(t testing.TB, change func(header, claims Object)) string {
	t.Helper()
	header := Object{"alg": "EdDSA", "typ": "openshell-sandbox-session+jwt", "kid": KeyID}
	claims := Object{
		"iss": "openshell-gateway:" + GatewayID, "aud": "openshell-sandbox", "sub": "spiffe://openshell/sandbox/" + SandboxID,
		"sandbox_id": SandboxID, "runtime_generation": Generation, "auth_epoch": AuthEpoch, "component": "openshell-supervisor",
		"iat": m.now.Unix(), "exp": m.now.Add(time.Hour).Unix(),
	}
	if change != nil {
		change(header, claims)
	}
	signing := segment(t, header) + "." + segment(t, claims)
	return signing + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(m.Signer, []byte(signing)))
}

// Write writes everything into a new directory.
func (m *Material) Write(t testing.TB) Files {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	f := Files{
		Dir: dir, Boundary: at("boundary.json"), Descriptor: at("runtime-descriptor.json"), Auth: at("auth.json"),
		PodUID: at("uid"), Certificate: at("tls.crt"), Key: at("tls.key"),
	}
	if !m.placed {
		m.PlaceIn(f)
	}
	for path, content := range map[string][]byte{
		f.Boundary: encode(t, m.Boundary), f.Descriptor: encode(t, m.Descriptor), f.Auth: encode(t, m.Auth),
		f.PodUID: []byte(m.PodUID), f.Certificate: m.Leaf.Certificate, f.Key: m.Leaf.Key,
	} {
		must(t, os.WriteFile(path, content, 0o600))
	}
	return f
}

// PlaceIn puts the paths of files into boundary.json. Write does it, unless it was done before.
func (m *Material) PlaceIn(f Files) {
	m.placed = true
	leaf := m.Boundary["listener"].(Object)["tls"].(Object)
	leaf["certificate_chain_path"], leaf["private_key_path"] = f.Certificate, f.Key
	m.Boundary["resource_claim_files"] = Object{"kubernetes.workload_pod_uid": f.PodUID}
}

func segment(t testing.TB, o Object) string {
	return base64.RawURLEncoding.EncodeToString(encode(t, o))
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return b
}

func clone(t testing.TB, o Object) Object {
	t.Helper()
	var copied Object
	must(t, json.Unmarshal(encode(t, o), &copied))
	return copied
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
