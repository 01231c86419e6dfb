package workspace

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

const (
	// managedPrefix begins the name of every managed namespace (contract 4.1).
	managedPrefix = "openshell-"
	// sharedSeparator stands between workspace and sandbox in the names of shared mode (contract 4.1).
	sharedSeparator = "--"
	// maxLabel is the longest DNS-1123 label (contract 4.1).
	maxLabel = validation.DNS1123LabelMaxLength
)

// Scheme is how one gateway maps workspaces to namespaces (contract 4.1). The zero Scheme maps nothing.
type Scheme struct {
	// Mode of the gateway.
	Mode driverconf.Mode
	// GatewayID is a label value in every mode and a DNS-1123 label in managed mode (contract 3.1).
	GatewayID string
	// Namespace holds all sandboxes in shared mode; the other modes do not use it.
	Namespace string
}

// SchemeOf is the mapping that the stock settings describe.
func SchemeOf(k *driverconf.Kubernetes) Scheme {
	return Scheme{Mode: k.WorkspaceMode, GatewayID: k.GatewayID, Namespace: k.Namespace}
}

// Validate says why s cannot be used. Settings that driverconf has loaded pass.
func (s Scheme) Validate() error {
	switch s.Mode {
	case driverconf.ModeShared:
		if !isLabel(s.Namespace) {
			return fmt.Errorf("namespace %s of shared mode %s", quote(s.Namespace), labelRule)
		}
	case driverconf.ModeManaged:
		if !isLabel(s.GatewayID) {
			return fmt.Errorf("gateway id %s of managed mode %s", quote(s.GatewayID), labelRule)
		}
		return nil // such a name is a label value too
	case driverconf.ModeOperator:
	default:
		return fmt.Errorf("%s is not a workspace mode; use shared, managed or operator", quote(string(s.Mode)))
	}
	if s.GatewayID == "" || len(validation.IsValidLabelValue(s.GatewayID)) > 0 {
		return fmt.Errorf("gateway id %s must be a label value that is not empty", quote(s.GatewayID))
	}
	return nil
}

// NamespaceOf is the namespace of a workspace. In operator mode the caller must still ask the allowlist. The error is for
// the person who named the workspace; its gRPC code is INVALID_ARGUMENT (contract 4.1).
func (s Scheme) NamespaceOf(workspace string) (string, error) {
	if err := s.Validate(); err != nil {
		return "", err
	}
	// The workspace becomes a label in every mode, and a part of a name in all but one.
	if !isLabel(workspace) {
		return "", fmt.Errorf("workspace %s %s", quote(workspace), labelRule)
	}
	switch s.Mode {
	case driverconf.ModeShared:
		return s.Namespace, nil
	case driverconf.ModeOperator:
		return workspace, nil
	default:
		namespace := s.managedPrefix() + workspace
		if len(namespace) > maxLabel {
			return "", fmt.Errorf("workspace %s needs a namespace of %d characters, %q, but at most %d are allowed: use a workspace name of at most %d",
				quote(workspace), len(namespace), namespace, maxLabel, maxLabel-len(s.managedPrefix()))
		}
		return namespace, nil
	}
}

// SandboxName is the name of the Sandbox object (contract 4.1). In shared mode it is not unique: workspace a with sandbox
// b--c and workspace a--b with sandbox c have one name, and the second create finds it taken. The error's gRPC code is
// INVALID_ARGUMENT.
func (s Scheme) SandboxName(workspace, sandbox string) (string, error) {
	if _, err := s.NamespaceOf(workspace); err != nil {
		return "", err
	}
	if !isLabel(sandbox) {
		return "", fmt.Errorf("sandbox name %s %s", quote(sandbox), labelRule)
	}
	if s.Mode != driverconf.ModeShared {
		return sandbox, nil
	}
	name := workspace + sharedSeparator + sandbox
	if len(name) > maxLabel {
		return "", fmt.Errorf("workspace %s and sandbox %s make a name of %d characters, %q, but at most %d are allowed: shorten one of them",
			quote(workspace), quote(sandbox), len(name), name, maxLabel)
	}
	return name, nil
}

// MayHold reports whether the name of a namespace alone allows it to hold sandboxes of this gateway: the namespace of
// shared mode, or one with the prefix of managed mode. In operator mode it is false, because names prove nothing there and
// the allowlist decides. In managed mode a true answer is not yet ownership: see Owns.
func (s Scheme) MayHold(namespace string) bool {
	switch s.Mode {
	case driverconf.ModeShared:
		return isLabel(namespace) && namespace == s.Namespace
	case driverconf.ModeManaged:
		workspace, found := strings.CutPrefix(namespace, s.managedPrefix())
		return found && isLabel(s.GatewayID) && isLabel(workspace) && len(namespace) <= maxLabel
	default:
		return false
	}
}

// Owns says why a namespace with these labels is not one that this gateway manages, and nil when it is: it is labelled as
// ours, and its name is the one that its own workspace label leads to. Outside of managed mode no namespace is owned
// (contract 9.1, 9.2).
func (s Scheme) Owns(namespace string, labels map[string]string) error {
	if s.Mode != driverconf.ModeManaged {
		return errors.New("only managed mode owns namespaces")
	}
	if got := labels[LabelManagedBy]; got != ManagedByOpenShell {
		return fmt.Errorf("label %s is %s, not %s", LabelManagedBy, quote(got), ManagedByOpenShell)
	}
	if got := labels[LabelGatewayID]; got != s.GatewayID {
		return fmt.Errorf("label %s is %s, not %s", LabelGatewayID, quote(got), quote(s.GatewayID))
	}
	return s.Places(labels[LabelSandboxWorkspace], namespace)
}

// Places says why s does not place a workspace in a namespace, and nil when it does.
func (s Scheme) Places(workspace, namespace string) error {
	want, err := s.NamespaceOf(workspace)
	if err != nil {
		return err
	}
	if want != namespace {
		return fmt.Errorf("workspace %s lives in namespace %s, not in %s", quote(workspace), want, quote(namespace))
	}
	return nil
}

// Placed says why an object with these labels and annotations is in no place of this gateway's sandboxes, and nil when it is, or may be.
//
// It is for whoever acts on what a selector found: labels can be copied, by a restore into another namespace or by anyone who may create
// Sandboxes in one, and a copy is neither the sandbox nor in its way. An object whose label and annotation do not agree is in its place
// while one of the two workspaces lives there, so that it is not taken for absent.
func (s Scheme) Placed(namespace string, labels, annotations map[string]string) error {
	var problem error
	for _, named := range [...]string{labels[LabelSandboxWorkspace], annotations[AnnotationSandboxWorkspace]} {
		if named == "" {
			continue
		}
		if problem = s.Places(named, namespace); problem == nil {
			return nil
		}
	}
	if problem == nil && !s.MayHold(namespace) {
		problem = errors.New("it names no workspace")
	}
	return problem
}

func (s Scheme) managedPrefix() string { return managedPrefix + s.GatewayID + "-" }

const labelRule = "must be a DNS-1123 label: 1 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends"

// isLabel reports what validation.IsDNS1123Label does, without its regular expression: it is asked several times for each
// bearer.
func isLabel(s string) bool {
	if len(s) == 0 || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// quote shows text from elsewhere inside a message, on one line and cut short.
func quote(s string) string {
	const limit = 80
	if len(s) > limit {
		return fmt.Sprintf("%q... (%d bytes)", strings.ToValidUTF8(s[:limit], ""), len(s))
	}
	return fmt.Sprintf("%q", s)
}
