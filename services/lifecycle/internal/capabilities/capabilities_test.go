package capabilities_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	extensionv1 "github.com/portcullis-mesh/portcullis/proto/openshell/extension/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/capabilities"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

const admission = `v1:{"allow_driver_config":false,"resource_admission":{"enabled":true,"required_labels":{"openshell.ai/sandbox-attachable":"true","openshell.ai/sandbox-attachable-workspace":"${workspace}"}}}`

func driver(t *testing.T, options capabilities.Options) *capabilities.Driver {
	t.Helper()
	loaded, err := driverconf.Load(driverconf.Source{})
	if err != nil {
		t.Fatal(err)
	}
	loaded.Kubernetes.DefaultImage = "registry.example/base:1"
	d, err := capabilities.New(&loaded.Kubernetes, options)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func gateway() *extensionv1.PeerMetadata {
	return &extensionv1.PeerMetadata{
		ProtocolVersion:    &extensionv1.ProtocolVersion{Major: 1, Minor: 7},
		ImplementationName: "openshell/gateway", ImplementationVersion: "0.1.2",
		SupportedCapabilities: []string{"openshell.compute.contract", "openshell.compute.launch-authentication", "openshell.other-thing.x"},
		RequiredCapabilities:  []string{"openshell.compute.contract"},
	}
}

func TestAnswer(t *testing.T) {
	d := driver(t, capabilities.Options{Version: "1.2.3"})
	want := &computev1.GetCapabilitiesResponse{
		DriverName: "kubernetes", DriverVersion: "1.2.3", DefaultImage: "registry.example/base:1", SupportsSandboxAuthentication: true,
		ResourceCapabilities: &computev1.ResourceCapabilities{
			Cpu: &computev1.CpuResourceCapabilities{LimitSupported: true}, Memory: &computev1.MemoryResourceCapabilities{LimitSupported: true},
			Gpu: &computev1.GpuResourceCapabilities{DefaultSelectionSupported: true, CountSelectionSupported: true},
		},
		Extension: &extensionv1.PeerMetadata{
			ProtocolVersion: &extensionv1.ProtocolVersion{Major: 1}, ImplementationName: "openshell/kubernetes", ImplementationVersion: "1.2.3",
			SupportedCapabilities: []string{"openshell.compute.contract", "openshell.compute.launch-authentication"},
			RequiredCapabilities:  []string{"openshell.compute.contract", "openshell.compute.launch-authentication"},
		},
		ResourceAdmissionPolicy: admission,
	}
	for range 3 {
		got := d.Answer()
		if !proto.Equal(got, want) {
			t.Fatalf("answer = %v\nwant %v", got, want)
		}
		got.DriverName, got.Extension.RequiredCapabilities[0] = "spoilt", "spoilt"
	}
}

func TestNegotiate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*extensionv1.PeerMetadata)
		want   string // in the message; empty grants
	}{
		{"as it is", func(*extensionv1.PeerMetadata) {}, ""},
		{"no protocol version", func(p *extensionv1.PeerMetadata) { p.ProtocolVersion = nil }, "gateway: protocol_version: is missing"},
		{"another major", func(p *extensionv1.PeerMetadata) { p.ProtocolVersion.Major = 2 }, "gateway: protocol_version: is 2.7"},
		{"no name", func(p *extensionv1.PeerMetadata) { p.ImplementationName = "" }, "gateway: implementation_name: must be 1 to 128"},
		{"a long name", func(p *extensionv1.PeerMetadata) { p.ImplementationName = strings.Repeat("a", 129) }, "implementation_name"},
		{"a name of two lines", func(p *extensionv1.PeerMetadata) { p.ImplementationName = "a\nb" }, "implementation_name"},
		{"a name that is no UTF-8", func(p *extensionv1.PeerMetadata) { p.ImplementationName = "a\xff" }, "implementation_name"},
		{"no version", func(p *extensionv1.PeerMetadata) { p.ImplementationVersion = "" }, "gateway: implementation_version"},
		{"a capability of two segments", func(p *extensionv1.PeerMetadata) {
			p.RequiredCapabilities = append(p.RequiredCapabilities, "openshell.x")
		}, "gateway: required_capabilities[1]: must be"},
		{"of others", func(p *extensionv1.PeerMetadata) { p.SupportedCapabilities[2] = "example.compute.x" }, "supported_capabilities[2]"},
		{"with an empty segment", func(p *extensionv1.PeerMetadata) { p.SupportedCapabilities[2] = "openshell.compute." }, "supported_capabilities[2]"},
		{"with capitals", func(p *extensionv1.PeerMetadata) { p.SupportedCapabilities[2] = "openshell.compute.X" }, "supported_capabilities[2]"},
		{"too long", func(p *extensionv1.PeerMetadata) {
			p.SupportedCapabilities[2] = "openshell.compute." + strings.Repeat("x", 111)
		}, "supported_capabilities[2]"},
		{"twice", func(p *extensionv1.PeerMetadata) { p.SupportedCapabilities[2] = p.SupportedCapabilities[0] }, "is there twice"},
		{"too many", func(p *extensionv1.PeerMetadata) {
			for i := range 126 {
				p.SupportedCapabilities = append(p.SupportedCapabilities, fmt.Sprintf("openshell.compute.x%d", i))
			}
		}, "has 129 entries"},
		{"as many as may be", func(p *extensionv1.PeerMetadata) {
			for i := range 125 {
				p.SupportedCapabilities = append(p.SupportedCapabilities, fmt.Sprintf("openshell.compute.x%d", i))
			}
		}, ""},
		{"without the contract", func(p *extensionv1.PeerMetadata) { p.SupportedCapabilities = p.SupportedCapabilities[1:] }, "the driver requires openshell.compute.contract"},
		{"without the bundle", func(p *extensionv1.PeerMetadata) { p.SupportedCapabilities = p.SupportedCapabilities[:1] }, "the driver requires openshell.compute.launch-authentication"},
		{"that wants backends", func(p *extensionv1.PeerMetadata) {
			p.RequiredCapabilities = append(p.RequiredCapabilities, "openshell.compute.isolation-backend-registration")
		}, "does not support openshell.compute.isolation-backend-registration"},
		{"two things at once", func(p *extensionv1.PeerMetadata) {
			p.ImplementationName, p.ProtocolVersion.Major = "", 3
		}, "; gateway: implementation_name"},
	} {
		peer := gateway()
		c.change(peer)
		d := driver(t, capabilities.Options{Version: "1"}).Negotiate(peer)
		switch {
		case c.want == "" && !d.Granted():
			t.Errorf("%s: %s", c.name, d.Explain())
		case c.want != "" && (d.Granted() || d.Code() != codes.FailedPrecondition || d.Reason != verdict.GatewayIncompatible || !strings.Contains(d.Message(), c.want)):
			t.Errorf("%s: %v %q, want %q", c.name, d.Code(), d.Message(), c.want)
		}
	}
}

func TestLegacyGateways(t *testing.T) {
	old := gateway()
	old.SupportedCapabilities = old.SupportedCapabilities[:1]
	strict, lenient := driver(t, capabilities.Options{Version: "1"}), driver(t, capabilities.Options{Version: "1", LegacyGateway: true})
	for name, peer := range map[string]*extensionv1.PeerMetadata{"nothing": nil, "no bundle": old} {
		if strict.Negotiate(peer).Granted() {
			t.Errorf("%s: accepted by a strict driver", name)
		}
		if d := lenient.Negotiate(peer); !d.Granted() {
			t.Errorf("%s: %s", name, d.Explain())
		}
	}
	if lenient.Negotiate(&extensionv1.PeerMetadata{}).Granted() {
		t.Error("empty metadata are accepted")
	}
	if new(capabilities.Driver).Negotiate(gateway()).Granted() {
		t.Error("the zero driver accepts")
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := capabilities.New(nil, capabilities.Options{Version: "1"}); err == nil {
		t.Error("no settings are taken")
	}
	if _, err := capabilities.New(&driverconf.Kubernetes{}, capabilities.Options{}); err == nil || !strings.Contains(err.Error(), "implementation_version") {
		t.Errorf("no version: %v", err)
	}
}

// FuzzCheckPeer: nothing panics, and what is accepted keeps the limits by a plain reading of them.
func FuzzCheckPeer(f *testing.F) {
	f.Add("openshell/gateway", "openshell.compute.contract")
	f.Add("x", "openshell.a.b.c")
	f.Add("", "openshell..")
	f.Fuzz(func(t *testing.T, name, capability string) {
		p := gateway()
		p.ImplementationName, p.SupportedCapabilities = name, []string{capability}
		if err := capabilities.CheckPeer(p); err != nil {
			if len(err.Error()) > 1000 {
				t.Fatalf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		parts := strings.Split(capability, ".")
		if name == "" || len(name) > 128 || len(capability) > 128 || len(parts) < 3 || parts[0] != "openshell" || strings.ToLower(capability) != capability {
			t.Fatalf("%q with %q is accepted", name, capability)
		}
	})
}
