package request

import (
	"strings"
	"unicode/utf8"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/mainprocess"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const (
	maxImage    = 1024
	maxLogLevel = 256
	maxCommand  = 4096
	maxUnused   = 4096
)

// names composes the names of contract 4.1 and 4.2.
func (c *reading) names(in *computev1.DriverSandbox) {
	if in.GetId() == "" {
		c.invalid("sandbox.id", "is missing")
	} else if err := workspace.CheckSandboxID(in.GetId()); err != nil {
		c.invalid("sandbox.id", "%v", err)
	}
	c.spec.ID, c.spec.Name, c.spec.Workspace = in.GetId(), in.GetName(), in.GetWorkspace()
	namespace, err := c.reader.scheme.NamespaceOf(in.GetWorkspace())
	switch {
	case in.GetWorkspace() == "":
		c.invalid("sandbox.workspace", "is missing")
	case err != nil:
		c.invalid("sandbox.workspace", "%v", err)
	case in.GetNamespace() != "" && in.GetNamespace() != namespace:
		c.invalid("sandbox.namespace", "must be empty: the driver finds the namespace of the workspace")
	}
	c.spec.Namespace = namespace
	if in.GetName() == "" {
		c.invalid("sandbox.name", "is missing")
		return
	}
	if namespace == "" {
		return
	}
	name, err := c.reader.scheme.SandboxName(in.GetWorkspace(), in.GetName())
	if err != nil {
		c.invalid("sandbox.name", "%v", err)
		return
	}
	for _, prefix := range []string{workspace.SupervisorPod(""), workspace.BoundaryService("")} {
		if strings.HasPrefix(name, prefix) {
			c.reserved("sandbox.name", "leads to the object name %s, and names with %s are those of companions of sandboxes", quote(name), prefix)
		}
	}
	c.spec.ObjectName = name
}

func (c *reading) image(image string) {
	const path = "sandbox.spec.template.image"
	switch c.spec.Image = image; {
	case image == "" && c.reader.settings.DefaultImage == "":
		c.add(verdict.ImageUnset, path, "is empty, and the driver has no default_image")
	case image == "":
		c.spec.Image = c.reader.settings.DefaultImage
	case len(image) > maxImage || strings.ContainsFunc(image, func(r rune) bool { return r <= ' ' || r > '~' }):
		c.invalid(path, "must be an image reference of at most %d printable characters without a space", maxImage)
	}
}

// process encodes the main process. Its command is in no message.
func (c *reading) process(spec *computev1.DriverSandboxSpec) {
	const path = "sandbox.spec.command"
	if len(spec.GetCommand()) > maxCommand {
		c.invalid(path, "has %d elements, and at most %d can be passed on", len(spec.GetCommand()), maxCommand)
		return
	}
	encoded, err := mainprocess.Encode(mainprocess.Process{
		Command: spec.GetCommand(), TTY: spec.GetTty(), AwaitAttachment: spec.GetAwaitMainProcessAttachment(),
	})
	if err != nil {
		c.invalid(path, "%v", err)
	}
	c.spec.MainProcess = encoded
}

// unused measures what this driver does not read.
func (c *reading) unused(in *computev1.DriverSandbox) {
	for _, text := range []struct{ path, value string }{
		{"sandbox.spec.template.agent_socket_path", in.GetSpec().GetTemplate().GetAgentSocketPath()},
		{"sandbox.spec.workload_identity.user", in.GetSpec().GetWorkloadIdentity().GetUser()},
		{"sandbox.spec.workload_identity.group", in.GetSpec().GetWorkloadIdentity().GetGroup()},
	} {
		if len(text.value) > maxUnused || !utf8.ValidString(text.value) || strings.ContainsRune(text.value, 0) {
			c.invalid(text.path, "must be at most %d bytes of text", maxUnused)
		}
	}
}
