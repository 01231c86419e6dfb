package request

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const (
	// maxMessage is how large a message is looked at; most of it would be the policy, which is not read.
	maxMessage = 4 << 20
	// MaxLaunch is how large a credential bundle may be, in bytes; supervisorctl reads it.
	MaxLaunch = 256 << 10
)

// Reader reads requests by one set of settings. It holds no state and may be shared.
type Reader struct {
	settings driverconf.Kubernetes
	scheme   workspace.Scheme
}

// New keeps a copy of the settings. An error says why no workspace could be placed with them.
func New(settings *driverconf.Kubernetes) (*Reader, error) {
	if settings == nil {
		return nil, errors.New("reading requests: there are no settings")
	}
	r := &Reader{settings: *settings, scheme: workspace.SchemeOf(settings)}
	if err := r.scheme.Validate(); err != nil {
		return nil, fmt.Errorf("reading requests: %w", err)
	}
	r.settings.AllowedExtendedResources = slices.Clone(settings.AllowedExtendedResources)
	r.settings.ResourceAdmission.RequiredLabels = maps.Clone(settings.ResourceAdmission.RequiredLabels)
	return r, nil
}

// Validate reads the sandbox of a ValidateSandboxCreate, which carries no credentials yet. What else that call has to find out is
// in the cluster: see Spec.GPU, packages identity and inventory.
func (r *Reader) Validate(sandbox *computev1.DriverSandbox) (Sandbox, verdict.Decision) {
	return r.read(sandbox, false)
}

// Create reads the sandbox of a CreateSandbox, which needs the credential bundle; what is in it is for supervisorctl to judge.
func (r *Reader) Create(sandbox *computev1.DriverSandbox) (Sandbox, verdict.Decision) {
	return r.read(sandbox, true)
}

// reading is the reading of one request.
type reading struct {
	problems
	reader *Reader
	spec   Spec
}

func (r *Reader) read(in *computev1.DriverSandbox, create bool) (Sandbox, verdict.Decision) {
	c := &reading{reader: r}
	switch {
	case in == nil:
		c.invalid("sandbox", "is missing")
	case proto.Size(in) > maxMessage:
		c.invalid("sandbox", "is larger than %d bytes", maxMessage)
	case in.GetSpec() == nil:
		c.invalid("sandbox.spec", "is missing")
	default:
		c.everything(in, create)
	}
	if d, ok := c.decision(); !ok {
		return Sandbox{}, d
	}
	return Sandbox{spec: c.spec}, verdict.Grant(verdict.Evidence{})
}

// everything is in the order of contract 7.2: the order decides which problem gives the code.
func (c *reading) everything(in *computev1.DriverSandbox, create bool) {
	spec, template := in.GetSpec(), in.GetSpec().GetTemplate()
	caller := c.callerConfig(template.GetDriverConfig())
	platform := c.platformConfig(template.GetPlatformConfig())
	c.resources(template.GetResources(), spec.GetResourceRequirements().GetGpu(), platform, caller)
	c.names(in)
	c.image(template.GetImage())
	c.environment(template.GetEnvironment(), spec.GetEnvironment(), spec.GetLogLevel())
	c.spec.Labels = c.labels("sandbox.spec.template.labels", template.GetLabels())
	c.scheduling(platform, caller)
	c.volumes(caller)
	c.process(spec)
	c.unused(in)
	c.spec.UserNamespace = c.reader.settings.EnableUserNamespaces
	if template != nil && template.UserNamespaces != nil {
		c.spec.UserNamespace = template.GetUserNamespaces()
	}
	if create {
		c.launch(spec.GetLaunchAuthentication())
	}
	c.size()
}

func (c *reading) launch(bundle []byte) {
	const path = "sandbox.spec.launch_authentication"
	switch {
	case len(bundle) == 0:
		c.add(verdict.LaunchInvalid, path, "is missing; the gateway sends it when it has a key for session tokens")
	case len(bundle) > MaxLaunch:
		c.add(verdict.LaunchInvalid, path, "is longer than %d bytes", MaxLaunch)
	}
}
