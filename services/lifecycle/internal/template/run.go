package template

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/identity"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Run is what a create finds out or makes up, beside the request.
type Run struct {
	// Identity of the sandbox (contract 9.4).
	Identity identity.Identity
	// Generation is 1 to 64 of a-z, 0-9 and "-", with a letter or digit. A create makes 32 random bytes in hexadecimal.
	Generation string
	// Version of the Sandbox resource that the cluster serves; for Sandbox only.
	Version sandboxapi.Version
	// StartedAt is when the create began; for Sandbox only.
	StartedAt time.Time
	// Attachments is what inventory.Record encoded; for Sandbox only. Empty leaves the annotation away.
	Attachments string
	// TraceParent is the caller's W3C trace context; one that is malformed is left out.
	TraceParent string
	// NamespaceAnnotations are those of the namespace; OpenShift's ranges are copied from them for diagnosis (contract 4.4).
	NamespaceAnnotations map[string]string
}

var (
	generationRule  = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
	traceParentRule = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
)

// checkPod says why no Pod can be rendered, all of it.
func (r *Renderer) checkPod(spec *request.Spec, run *Run) error {
	if spec.ID == "" {
		return errors.New("there is no request")
	}
	var problems []error
	// The request was read by settings; these may be others.
	if err := r.scheme.Places(spec.Workspace, spec.Namespace); err != nil {
		problems = append(problems, fmt.Errorf("namespace: %w", err))
	}
	if name, err := r.scheme.SandboxName(spec.Workspace, spec.Name); err != nil {
		problems = append(problems, fmt.Errorf("name: %w", err))
	} else if name != spec.ObjectName {
		problems = append(problems, fmt.Errorf("object name: is %q, and must be %q", spec.ObjectName, name))
	}
	if !run.Identity.Valid() {
		problems = append(problems, fmt.Errorf("identity: user %d and group %d are none that a Pod can have", run.Identity.User, run.Identity.Group))
	}
	if !generationRule.MatchString(run.Generation) {
		problems = append(problems, errors.New("generation: must be 1 to 64 of a-z, 0-9 and '-'"))
	} else if err := workspace.CheckGeneration(run.Generation); err != nil {
		problems = append(problems, fmt.Errorf("generation: %w", err))
	}
	return errors.Join(problems...)
}

func (run *Run) check() error {
	var problems []error
	if !run.Version.Known() {
		problems = append(problems, fmt.Errorf("version: %.40q is none of the Sandbox resource", string(run.Version)))
	}
	if run.StartedAt.UnixMilli() <= 0 {
		problems = append(problems, errors.New("started at: is not set"))
	}
	return errors.Join(problems...)
}

// printable says that s is short ASCII without control characters.
func printable(s string) bool {
	const longest = 256
	return len(s) <= longest && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
