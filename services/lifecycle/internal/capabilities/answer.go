package capabilities

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	extensionv1 "github.com/portcullis-mesh/portcullis/proto/openshell/extension/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/excerpt"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Names of the driver (contract 2.3).
const (
	ImplementationName = "openshell/kubernetes"
	DriverName         = "kubernetes"
)

// Options are what the stock settings do not say.
type Options struct {
	// Version of the program, as the build has it.
	Version string
	// LegacyGateway accepts a gateway that says nothing about itself, and one that does not know the credential bundle's
	// capability.
	LegacyGateway bool
}

// Driver is what one driver says of itself. It never changes and may be shared. The zero Driver refuses every gateway.
type Driver struct {
	answer *computev1.GetCapabilitiesResponse
	legacy bool
}

// New makes the answer from the settings. An error says which part of it the contract forbids.
func New(settings *driverconf.Kubernetes, options Options) (*Driver, error) {
	if settings == nil {
		return nil, errors.New("capabilities: there are no settings")
	}
	self := &extensionv1.PeerMetadata{
		ProtocolVersion:       &extensionv1.ProtocolVersion{Major: Major},
		ImplementationName:    ImplementationName,
		ImplementationVersion: options.Version,
		SupportedCapabilities: []string{Contract, LaunchAuthentication},
		RequiredCapabilities:  []string{Contract},
	}
	if !options.LegacyGateway {
		self.RequiredCapabilities = append(self.RequiredCapabilities, LaunchAuthentication)
	}
	if err := CheckPeer(self); err != nil {
		return nil, fmt.Errorf("capabilities: the driver's own metadata: %w", err)
	}
	return &Driver{legacy: options.LegacyGateway, answer: &computev1.GetCapabilitiesResponse{
		DriverName:                    DriverName,
		DriverVersion:                 options.Version,
		DefaultImage:                  settings.DefaultImage,
		SupportsSandboxAuthentication: true,
		ResourceCapabilities: &computev1.ResourceCapabilities{
			Cpu:    &computev1.CpuResourceCapabilities{LimitSupported: true},
			Memory: &computev1.MemoryResourceCapabilities{LimitSupported: true},
			Gpu:    &computev1.GpuResourceCapabilities{DefaultSelectionSupported: true, CountSelectionSupported: true},
		},
		Extension:               self,
		ResourceAdmissionPolicy: settings.AdmissionPolicy().Acknowledgement(),
	}}, nil
}

// Answer is the whole answer; the caller's own copy.
func (d *Driver) Answer() *computev1.GetCapabilitiesResponse {
	return proto.CloneOf(d.answer)
}

// longestRefusal is how much of a refusal a gateway is told, in bytes.
const longestRefusal = 2000

// Negotiate judges the gateway by its metadata. A refusal is FAILED_PRECONDITION and names everything that does not fit
// (contract 2.3).
func (d *Driver) Negotiate(gateway *extensionv1.PeerMetadata) verdict.Decision {
	refuse := func(text string) verdict.Decision {
		return verdict.Refuse(verdict.GatewayIncompatible, "gateway", text).WithMessage(text)
	}
	if d.answer == nil {
		return refuse("the driver has no metadata to compare with")
	}
	if gateway == nil {
		if d.legacy {
			return verdict.Grant(verdict.Evidence{})
		}
		return refuse("gateway: is missing; a gateway older than v0.1.2 is served only with allow_legacy_gateway")
	}
	if err := CheckPeer(gateway); err != nil {
		return refuse("gateway: " + excerpt.Of(strings.ReplaceAll(err.Error(), "\n", "; gateway: "), longestRefusal))
	}
	self := d.answer.GetExtension()
	var problems []string
	if missing := lacking(self.GetRequiredCapabilities(), gateway.GetSupportedCapabilities()); len(missing) > 0 {
		problems = append(problems, "gateway.supported_capabilities: the driver requires "+strings.Join(missing, ", "))
	}
	if missing := lacking(gateway.GetRequiredCapabilities(), self.GetSupportedCapabilities()); len(missing) > 0 {
		problems = append(problems, "gateway.required_capabilities: the driver does not support "+strings.Join(missing, ", "))
	}
	if len(problems) > 0 {
		return refuse(excerpt.Of(strings.Join(problems, "; "), longestRefusal))
	}
	return verdict.Grant(verdict.Evidence{})
}
