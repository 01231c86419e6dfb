package contract

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	sandboxv1 "github.com/portcullis-mesh/portcullis/proto/openshell/sandbox/v1"
)

const olderCreate = `sandbox { id: "s1" spec { policy {
  version: 1
  network_policies { key: "api" value {
    name: "api"
    endpoints { host: "api.example.com" port: 443 tls: "skip" enforcement: "enforce" access: "read-only" ports: 443 ports: 8443 }
    binaries { path: "/usr/bin/node" harness: "claude" }
  } }
} } }`

// An older gateway's policy has strings where there are enums now.
func TestOlderPolicyPassesThrough(t *testing.T) {
	older := loadOlderPeer(t)
	original := older.message(t, "CreateSandboxRequest", olderCreate)

	req := new(computev1.CreateSandboxRequest)
	if err := proto.Unmarshal(encode(t, original), req); err != nil {
		t.Fatalf("a create with an older policy does not decode: %v", err)
	}
	if got := req.GetSandbox().GetId(); got != "s1" {
		t.Errorf("sandbox id = %q", got)
	}
	if len(req.GetSandbox().GetSpec().GetPolicy()) == 0 {
		t.Error("the policy is lost")
	}
	if back := older.receive(t, req); !proto.Equal(original, back) {
		t.Errorf("changed on the way:\n%v\n%v", original, back)
	}
}

// What a gateway makes as a message, a driver receives as its bytes.
func TestPolicyIsAMessageOnTheWire(t *testing.T) {
	policy := &sandboxv1.SandboxPolicy{Version: 1, NetworkPolicies: map[string]*sandboxv1.NetworkPolicyRule{"api": {
		Endpoints: []*sandboxv1.NetworkEndpoint{{
			Tls:         sandboxv1.NetworkTlsMode_NETWORK_TLS_MODE_SKIP,
			Enforcement: 77, // a value of a later release
		}},
	}}}
	spec := new(computev1.DriverSandboxSpec)
	if err := proto.Unmarshal(withPolicy(encode(t, policy)), spec); err != nil {
		t.Fatal(err)
	}
	got := new(sandboxv1.SandboxPolicy)
	if err := proto.Unmarshal(spec.GetPolicy(), got); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(policy, got) {
		t.Errorf("changed on the way:\n%v\n%v", policy, got)
	}
}

// withPolicy is a DriverSandboxSpec with these bytes as the message in field 7.
func withPolicy(policy []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 7, protowire.BytesType), policy)
}

// FuzzPolicy: whatever a release may make of the policy, every request with it decodes, and it comes
// back byte for byte.
func FuzzPolicy(f *testing.F) {
	older := loadOlderPeer(f)
	seed := older.message(f, "CreateSandboxRequest", olderCreate)
	f.Add(encode(f, get(seed, "sandbox", "spec", "policy").Message().Interface()))
	f.Add([]byte{0x08, 0x01, 0x2a, 0x00, 0x32, 0x02, 0x0a, 0x00})
	f.Add([]byte("\xc2\x01\x06github"))   // a later release's string where we know a message
	f.Add([]byte("\x9a\x01\x02\xff\xfe")) // no UTF-8 where we know a string
	f.Add([]byte{0x2a, 0x7f})             // cut short
	f.Fuzz(func(t *testing.T, policy []byte) {
		sandbox := protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), withPolicy(policy))
		request := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), sandbox)
		req := new(computev1.CreateSandboxRequest)
		if err := proto.Unmarshal(request, req); err != nil {
			t.Fatalf("does not decode: %v", err)
		}
		again := new(computev1.CreateSandboxRequest)
		if err := proto.Unmarshal(encode(t, req), again); err != nil {
			t.Fatal(err)
		}
		if got := again.GetSandbox().GetSpec().GetPolicy(); !bytes.Equal(got, policy) {
			t.Fatalf("sent %x, received %x", policy, got)
		}
	})
}
