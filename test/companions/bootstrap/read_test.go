package bootstrap_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/companions/bootstrap"
	"github.com/portcullis-mesh/portcullis/test/companions/materialtest"
)

// breach spoils one file of valid material.
type breach struct {
	name string
	file string // boundary, descriptor, auth
	do   func(o materialtest.Object)
	want string // in the error
}

// at returns the object at a path of keys.
func at(o materialtest.Object, path string) materialtest.Object {
	for key := range strings.SplitSeq(path, "/") {
		if key != "" {
			o = o[key].(materialtest.Object)
		}
	}
	return o
}

func set(file, path, key string, value any, want string) breach {
	return breach{fmt.Sprintf("%s %s/%s is %.20v", file, path, key, value), file, func(o materialtest.Object) { at(o, path)[key] = value }, want}
}

func without(file, path, key string) breach {
	return breach{fmt.Sprintf("%s without %s/%s", file, path, key), file, func(o materialtest.Object) { delete(at(o, path), key) }, key}
}

func breaches() []breach {
	all := []breach{
		set("boundary", "", "boundary_id", "", "boundary_id"),
		set("boundary", "", "generation", "", "generation"),
		set("boundary", "", "session_id", "7", "session_id"),
		set("boundary", "", "session_rotation", 0, "session_rotation"),
		set("boundary", "", "auth_epoch", 0, "auth_epoch"),
		set("boundary", "", "gateway_id", "a b", "gateway_id"),
		set("boundary", "", "verification_keys", []any{}, "verification_keys"),
		set("boundary", "", "verification_keys", []any{materialtest.Object{"key_id": "k", "public_key_pem": "x"}}, "verification_keys"),
		set("boundary", "", "verification_keys", []any{materialtest.Object{"key_id": "k", "public_key_pem": []int{1}}}, "public_key_pem"),
		set("boundary", "listener", "kind", "tcp", "listener.kind"),
		set("boundary", "listener", "address", "localhost:5500", "listener.address"),
		set("boundary", "listener/tls", "private_key_path", "tls.key", "private_key_path"),
		set("boundary", "resource_claims", "kubernetes.workload_pod_uid", "a b", "workload_pod_uid"),
		set("boundary", "resource_claim_files", "kubernetes.namespace_uid", "/x", "namespace_uid"),
		set("boundary", "resource_claim_files", "kubernetes.workload_pod_uid", "", "workload_pod_uid"),
		set("boundary", "resource_claims", "kubernetes.namespace_uid", "", "namespace_uid"),
		set("boundary", "resource_claims", "kubernetes.control_deployment_uid", "u", "control_deployment_uid"),
		set("boundary", "", "resource_claim_files", materialtest.Object{}, "workload_pod_uid"),
		set("boundary", "workload_identity", "supplementary_gids", nil, "supplementary_gids"),
		set("boundary", "workload_identity", "uid", -1, "uid"),
		set("boundary", "child_env", "OPENSHELL_TOKEN", "x", "OPENSHELL_TOKEN"),
		set("boundary", "child_env", "A=B", "x", "A=B"),
		set("boundary", "outer_fence", "generation", "other", "outer_fence.generation"),
		set("boundary", "outer_fence", "established", []any{"no_unmanaged_egress_path", "default_deny_egress", "revocation_verified", "controller_loss_fails_closed"}, "established"),
		set("boundary", "outer_fence", "evidence_digest", materialtest.Evidence("other"), "evidence_digest"),
		set("boundary", "resource_claims", "kubernetes.egress_policy_resource_version", "4712", "evidence_digest"),
		set("descriptor", "", "session_id", "7", "session_id"),
		set("descriptor", "transport", "kind", "tls-tcp", "transport.kind"),
		set("descriptor", "transport", "addresses", []any{}, "transport.addresses"),
		set("descriptor", "transport", "addresses", []any{"os-boundary:5500"}, "transport.addresses"),
		set("descriptor", "transport", "addresses", []any{"0.0.0.0:5500"}, "transport.addresses"),
		set("descriptor", "transport", "authority", "", "authority"),
		set("descriptor", "tls", "server_name", "other", "server_name"),
		set("descriptor", "tls", "trust_anchor_pem", "other", "trust_anchor_pem"),
		set("descriptor", "", "host_gateway_ip", "gateway", "host_gateway_ip"),
		set("descriptor", "outer_fence", "evidence_digest", materialtest.Evidence("other"), "evidence_digest"),
		without("descriptor", "", "host_gateway_ip"),
		set("auth", "", "session_id", "", "session_id"),
		set("auth", "", "runtime_generation", "", "runtime_generation"),
		set("auth", "", "session_rotation", 0, "session_rotation"),
		set("auth", "", "auth_epoch", 0, "auth_epoch"),
		set("auth", "", "gateway_token", "", "gateway_token"),
		set("auth", "", "sandbox_token", "", "sandbox_token"),
		set("auth", "", "sandbox_expires_at", -1, "sandbox_expires_at"),
		without("boundary", "resource_claims", "kubernetes.sandbox_resource_uid"),
		without("boundary", "resource_claims", "kubernetes.workload_pod_uid"),
		without("descriptor", "resource_claims", "kubernetes.workload_pod_uid"),
	}
	// Every object of every file: an unknown key, each known key missing, each in another case.
	for file, objects := range map[string]map[string][]string{
		"boundary": {
			"": {
				"boundary_id", "generation", "session_id", "session_rotation", "auth_epoch", "gateway_id", "verification_keys", "listener",
				"resource_claims", "resource_claim_files", "workload_identity", "outer_fence", "child_env",
			},
			"listener": {"kind", "address", "tls"}, "listener/tls": {"certificate_chain_path", "private_key_path"},
			"workload_identity": {"uid", "gid", "supplementary_gids", "source", "resource_digest"},
			"outer_fence":       {"generation", "established", "evidence_digest"},
		},
		"descriptor": {
			"": {
				"boundary_id", "generation", "session_id", "workload_identity", "resource_claims", "outer_fence", "transport", "tls", "host_gateway_ip",
			},
			"transport": {"kind", "authority", "addresses"}, "tls": {"server_name", "trust_anchor_pem"},
		},
		"auth": {
			"": {
				"session_id", "runtime_generation", "session_rotation", "auth_epoch", "gateway_token", "gateway_expires_at",
				"sandbox_token", "sandbox_expires_at",
			},
		},
	} {
		for path, keys := range objects {
			all = append(all, set(file, path, "surplus", "x", "surplus"))
			for _, key := range keys {
				all = append(all, without(file, path, key), breach{
					fmt.Sprintf("%s with %s/%s in capitals", file, path, key), file,
					func(o materialtest.Object) {
						o = at(o, path)
						o[strings.ToUpper(key)] = o[key]
						delete(o, key)
					}, strings.ToUpper(key),
				})
			}
		}
	}
	return all
}

func TestRead(t *testing.T) {
	t.Parallel()
	f := materialtest.Make(t, "127.0.0.1:5500").Write(t)
	b, err := bootstrap.ReadBoundary(f.Boundary)
	if err != nil {
		t.Fatal(err)
	}
	d, err := bootstrap.ReadDescriptor(f.Descriptor)
	if err != nil {
		t.Fatal(err)
	}
	a, err := bootstrap.ReadAuth(f.Auth)
	if err != nil {
		t.Fatal(err)
	}
	if b.BoundaryID != materialtest.SandboxID || d.BoundaryID != b.BoundaryID || a.SessionID != b.SessionID || len(d.ResourceClaims) != 6 || !maps.Equal(d.ResourceClaims, b.ResourceClaims) {
		t.Errorf("%+v\n%+v", b, d)
	}
	for _, tc := range breaches() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := materialtest.Make(t, "127.0.0.1:5500")
			m.PlaceIn(materialtest.Files{Certificate: "/c", Key: "/k", PodUID: "/u"})
			spoilt := map[string]materialtest.Object{"boundary": m.Boundary, "descriptor": m.Descriptor, "auth": m.Auth}[tc.file]
			tc.do(spoilt)
			token, _ := m.Auth["sandbox_token"].(string)
			f := m.Write(t)
			var err error
			switch tc.file {
			case "boundary":
				_, err = bootstrap.ReadBoundary(f.Boundary)
			case "descriptor":
				_, err = bootstrap.ReadDescriptor(f.Descriptor)
			default:
				_, err = bootstrap.ReadAuth(f.Auth)
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
			if token != "" && strings.Contains(err.Error(), token) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

// TestEvidence keeps the digest of a fence: the wanted value was computed by another program.
func TestEvidence(t *testing.T) {
	t.Parallel()
	const want = "4aeea2548bdce57ba14ff586b530bbc5b76cd731720f2eae8614687ab52319dd"
	got, err := bootstrap.Evidence("g00000000000002a7", "11112222-3333-4444-5555-666677778888", "4711")
	if err != nil || got != want || materialtest.Evidence(materialtest.Generation) != want {
		t.Errorf("digest %s, %v and %s; want %s", got, err, materialtest.Evidence(materialtest.Generation), want)
	}
}

func TestLimited(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := bootstrap.Limited(path, 4); err != nil || string(b) != "1234" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := bootstrap.Limited(path, 3); err == nil || b != nil {
		t.Errorf("%q of a file that is too large", b)
	}
}

// FuzzRead: whatever a file holds, reading it ends, and what is accepted holds what later code relies on.
func FuzzRead(f *testing.F) {
	m := materialtest.Make(f, "127.0.0.1:5500").Write(f)
	for _, path := range []string{m.Boundary, m.Descriptor, m.Auth} {
		seed, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	path := filepath.Join(f.TempDir(), "f")
	f.Fuzz(func(t *testing.T, in []byte) {
		if err := os.WriteFile(path, in, 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := bootstrap.ReadBoundary(path); err == nil {
			if keys, err := b.Keys(); err != nil || len(keys) == 0 || len(b.ResourceClaims) != 6 || b.AuthEpoch == 0 || b.ChildEnv == nil {
				t.Errorf("accepted %+v", b)
			}
		}
		if d, err := bootstrap.ReadDescriptor(path); err == nil && (len(d.ResourceClaims) != 6 || len(d.Transport.Addresses) == 0) {
			t.Errorf("accepted %+v", d)
		}
		if a, err := bootstrap.ReadAuth(path); err == nil && (a.SandboxToken.IsZero() || a.AuthEpoch == 0) {
			t.Errorf("accepted %+v", a)
		}
	})
}
