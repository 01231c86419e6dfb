package contract

import (
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

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

func TestOlderPolicyDecodesAndSurvives(t *testing.T) {
	older := loadOlderPeer(t)
	original := older.message(t, "CreateSandboxRequest", olderCreate)

	req := new(computev1.CreateSandboxRequest)
	if err := proto.Unmarshal(encode(t, original), req); err != nil {
		t.Fatalf("a create with an older policy does not decode: %v", err)
	}
	if got := req.GetSandbox().GetId(); got != "s1" {
		t.Errorf("sandbox id = %q", got)
	}
	rule := req.GetSandbox().GetSpec().GetPolicy().GetNetworkPolicies()["api"]
	endpoint, binary := rule.GetEndpoints()[0], rule.GetBinaries()[0]
	if endpoint.GetHost() != "api.example.com" || len(endpoint.GetPorts()) != 2 || binary.GetPath() != "/usr/bin/node" {
		t.Errorf("the fields that did not change are %v and %v", endpoint, binary)
	}
	if endpoint.GetTls() != 0 || endpoint.GetEnforcement() != 0 || endpoint.GetAccess() != 0 {
		t.Errorf("a string was taken for an enum: %v", endpoint)
	}
	if len(endpoint.ProtoReflect().GetUnknown()) == 0 || len(binary.ProtoReflect().GetUnknown()) == 0 {
		t.Error("the older fields were dropped")
	}
	if back := older.receive(t, req); !proto.Equal(original, back) {
		t.Errorf("changed on the way:\n%v\n%v", original, back)
	}
}

// A value of a later release is a number like any other and is passed on.
func TestNewerPolicyKeepsItsEnums(t *testing.T) {
	req := &computev1.CreateSandboxRequest{Sandbox: &computev1.DriverSandbox{Spec: &computev1.DriverSandboxSpec{
		Policy: &sandboxv1.SandboxPolicy{NetworkPolicies: map[string]*sandboxv1.NetworkPolicyRule{"api": {
			Endpoints: []*sandboxv1.NetworkEndpoint{{
				Tls:         sandboxv1.NetworkTlsMode_NETWORK_TLS_MODE_SKIP,
				Enforcement: 77, // a value of a later release
				Access:      sandboxv1.NetworkAccessPreset_NETWORK_ACCESS_PRESET_FULL,
			}},
		}}},
	}}}
	got := new(computev1.CreateSandboxRequest)
	if err := proto.Unmarshal(encode(t, req), got); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(req, got) {
		t.Errorf("changed on the way:\n%v\n%v", req, got)
	}
}

// FuzzOlderPolicy: whatever text an older peer has in the fields that are enums now, the request
// decodes and the policy is passed on unchanged.
func FuzzOlderPolicy(f *testing.F) {
	f.Add("skip", "enforce", "read-only", "claude", uint32(443))
	f.Add("", "\x00", "\u00e9", "", uint32(0))
	f.Add("\x08\x01", "0", "full", "h", ^uint32(0))
	older := loadOlderPeer(f)
	f.Fuzz(func(t *testing.T, tls, enforcement, access, harness string, port uint32) {
		for _, s := range []string{tls, enforcement, access, harness} {
			if !utf8.ValidString(s) {
				return // no peer can encode it
			}
		}
		original := older.message(t, "CreateSandboxRequest", olderCreate)
		rules := get(original, "sandbox", "spec", "policy").Message()
		rules.Get(rules.Descriptor().Fields().ByName("network_policies")).Map().Range(
			func(_ protoreflect.MapKey, rule protoreflect.Value) bool {
				endpoint := get(rule.Message(), "endpoints").Message()
				set(endpoint, "tls", tls)
				set(endpoint, "enforcement", enforcement)
				set(endpoint, "access", access)
				set(endpoint, "port", port)
				set(get(rule.Message(), "binaries").Message(), "harness", harness)
				return true
			})
		req := new(computev1.CreateSandboxRequest)
		if err := proto.Unmarshal(encode(t, original), req); err != nil {
			t.Fatalf("does not decode: %v", err)
		}
		if back := older.receive(t, req); !proto.Equal(original, back) {
			t.Fatalf("changed on the way:\n%v\n%v", original, back)
		}
	})
}

// FuzzPolicyBytes puts arbitrary bytes where the policy is: what decodes comes back as it was, and
// nothing panics.
func FuzzPolicyBytes(f *testing.F) {
	older := loadOlderPeer(f)
	seed := older.message(f, "CreateSandboxRequest", olderCreate)
	f.Add(encode(f, get(seed, "sandbox", "spec", "policy").Message().Interface()))
	f.Add([]byte{0x08, 0x01, 0x2a, 0x00, 0x32, 0x02, 0x0a, 0x00})
	f.Add([]byte{0x2a, 0x07, 0x12, 0x05, 0x12, 0x03, 0x22, 0x01, 0x78})
	f.Fuzz(func(t *testing.T, policy []byte) {
		spec := protowire.AppendBytes(protowire.AppendTag(nil, 7, protowire.BytesType), policy)
		sandbox := protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), spec)
		request := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), sandbox)
		first, second := new(computev1.CreateSandboxRequest), new(computev1.CreateSandboxRequest)
		if err := proto.Unmarshal(request, first); err != nil {
			return
		}
		if err := proto.Unmarshal(encode(t, first), second); err != nil {
			t.Fatalf("what was decoded cannot be encoded and decoded again: %v", err)
		}
		if !proto.Equal(first, second) {
			t.Fatalf("changed on the way:\n%v\n%v", first, second)
		}
	})
}
