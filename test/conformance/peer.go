package conformance

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	extensionv1 "github.com/portcullis-mesh/portcullis/proto/openshell/extension/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/driver"
)

// peers are gateways, each a good one with one thing changed.
var peers = []struct {
	name   string
	change func(*extensionv1.PeerMetadata)
	good   bool
}{
	{"other-major", func(m *extensionv1.PeerMetadata) { m.ProtocolVersion.Major = 2 }, false},
	{"no-version", func(m *extensionv1.PeerMetadata) { m.ProtocolVersion = nil }, false},
	{"no-name", func(m *extensionv1.PeerMetadata) { m.ImplementationName = "" }, false},
	{"long-name", func(m *extensionv1.PeerMetadata) { m.ImplementationName = strings.Repeat("n", 129) }, false},
	{"no-implementation-version", func(m *extensionv1.PeerMetadata) { m.ImplementationVersion = "" }, false},
	{"control-character", func(m *extensionv1.PeerMetadata) { m.ImplementationVersion = "1\n2" }, false},
	{"without-contract", func(m *extensionv1.PeerMetadata) { m.SupportedCapabilities = []string{driver.CapabilityLaunch} }, false},
	{"requires-unknown", func(m *extensionv1.PeerMetadata) { m.RequiredCapabilities = []string{"openshell.compute.not-there"} }, false},
	{"twice", func(m *extensionv1.PeerMetadata) {
		m.SupportedCapabilities = append(m.SupportedCapabilities, driver.CapabilityContract)
	}, false},
	{"bad-capability", func(m *extensionv1.PeerMetadata) {
		m.SupportedCapabilities = append(m.SupportedCapabilities, "openshell.Compute.x")
	}, false},
	{"two-segments", func(m *extensionv1.PeerMetadata) {
		m.SupportedCapabilities = append(m.SupportedCapabilities, "openshell.compute")
	}, false},
	{"foreign-capability", func(m *extensionv1.PeerMetadata) {
		m.SupportedCapabilities = append(m.SupportedCapabilities, "example.compute.x")
	}, false},
	{"too-many", func(m *extensionv1.PeerMetadata) {
		for i := range 128 {
			m.SupportedCapabilities = append(m.SupportedCapabilities, fmt.Sprintf("openshell.x.c%d", i))
		}
	}, false},
	{"later-minor", func(m *extensionv1.PeerMetadata) { m.ProtocolVersion.Minor = 99 }, true},
	{"more-capabilities", func(m *extensionv1.PeerMetadata) {
		m.SupportedCapabilities = append(m.SupportedCapabilities, "openshell.compute.of-later")
	}, true},
}

func peerChecks() []Check {
	all := []Check{{
		ID: "capabilities.peer.none", Section: "2.3", Required: true,
		Says:   "a gateway that does not introduce itself is refused with FAILED_PRECONDITION",
		Breaks: "a gateway that the driver does not fit begins to work with it",
		run: func(ctx context.Context, p *probe) error {
			_, err := p.driver.GetCapabilities(ctx, &computev1.GetCapabilitiesRequest{})
			return expect("GetCapabilities", err, codes.FailedPrecondition)
		},
	}, {
		ID: "capabilities.unknown-fields", Section: "1", Required: true, run: passesOver,
		Says:   "fields of a later version are passed over",
		Breaks: "a gateway that was upgraded first cannot speak to the driver",
	}}
	for _, one := range peers {
		check := Check{
			ID: "capabilities.peer." + one.name, Section: "2.3", Required: true,
			Says:   "metadata that breaks the rules is refused with FAILED_PRECONDITION",
			Breaks: "a gateway that the driver does not fit begins to work with it",
		}
		want := codes.FailedPrecondition
		if one.good {
			check.Says, check.Breaks, want = "minor versions and further capabilities are passed over", "a newer gateway does not start", codes.OK
		}
		check.run = func(ctx context.Context, p *probe) error {
			request := handshake()
			one.change(request.Gateway)
			_, err := p.driver.GetCapabilities(ctx, request)
			return expect("GetCapabilities", err, want)
		}
		all = append(all, check)
	}
	return all
}

// later is a field with a number that no version has: a text.
func later() protoreflect.RawFields {
	const number, text = 19999, "of a later version"
	return protoreflect.RawFields(appendText(nil, number, text))
}

func passesOver(ctx context.Context, p *probe) error {
	request := handshake()
	request.ProtoReflect().SetUnknown(later())
	request.Gateway.ProtoReflect().SetUnknown(later())
	if _, err := p.driver.GetCapabilities(ctx, request); err != nil {
		return fmt.Errorf("GetCapabilities: %w", err)
	}
	wish, err := p.wish()
	if err != nil {
		return err
	}
	for _, m := range []proto.Message{wish, wish.GetSpec()} {
		m.ProtoReflect().SetUnknown(later())
	}
	_, err = p.driver.ValidateSandboxCreate(ctx, &computev1.ValidateSandboxCreateRequest{Sandbox: wish})
	return expect("ValidateSandboxCreate", err, codes.OK)
}
