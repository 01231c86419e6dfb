package runtimeid

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	scheme    = "kubernetes://"
	separator = "/"
)

// MaxUID is the longest uid in bytes. Kubernetes' own have 36.
const MaxUID = 64

// MaxLength is the longest identity in bytes.
const MaxLength = len(scheme) + validation.DNS1123LabelMaxLength + 2*(len(separator)+MaxUID)

// Identity is one run of one sandbox. It is a plain value, comparable with ==; the zero value is no identity.
type Identity struct {
	namespace, sandbox, supervisor string
}

// New makes an identity. The namespace must be a DNS-1123 label, the uids 1 to MaxUID of letters, digits and "-".
func New(namespace, sandboxUID, supervisorUID string) (Identity, error) {
	if len(validation.IsDNS1123Label(namespace)) > 0 {
		return Identity{}, fmt.Errorf("runtime identity: namespace %s is not a DNS-1123 label", quote(namespace))
	}
	if err := checkUID("sandbox", sandboxUID); err != nil {
		return Identity{}, err
	}
	if err := checkUID("supervisor", supervisorUID); err != nil {
		return Identity{}, err
	}
	return Identity{namespace: namespace, sandbox: sandboxUID, supervisor: supervisorUID}, nil
}

// Parse reads an identity that String wrote. Any text is safe to give; everything else is an error that says what is
// wrong. The identity of another driver, which has another scheme, is one of those.
func Parse(text string) (Identity, error) {
	if text == "" {
		return Identity{}, errors.New("runtime identity is empty")
	}
	if len(text) > MaxLength {
		return Identity{}, fmt.Errorf("runtime identity has %d bytes, at most %d are possible", len(text), MaxLength)
	}
	rest, found := strings.CutPrefix(text, scheme)
	if !found {
		return Identity{}, fmt.Errorf("runtime identity %s does not begin with %s", quote(text), scheme)
	}
	parts := strings.Split(rest, separator)
	if len(parts) != 3 {
		return Identity{}, fmt.Errorf("runtime identity %s has %d parts after %s, not namespace, sandbox uid and supervisor uid",
			quote(text), len(parts), scheme)
	}
	return New(parts[0], parts[1], parts[2])
}

// Namespace of the sandbox.
func (i Identity) Namespace() string { return i.namespace }

// SandboxUID is the uid of the Sandbox object.
func (i Identity) SandboxUID() string { return i.sandbox }

// SupervisorUID is the uid of the supervisor Pod.
func (i Identity) SupervisorUID() string { return i.supervisor }

// IsZero reports that i is no identity.
func (i Identity) IsZero() bool { return i == Identity{} }

// String is the text that the gateway stores; empty for the zero Identity, which the gateway refuses (contract 2.13).
func (i Identity) String() string {
	if i.IsZero() {
		return ""
	}
	return scheme + i.namespace + separator + i.sandbox + separator + i.supervisor
}

// SameSandbox reports whether i and other are runs of one sandbox: namespace and sandbox uid are equal (contract 6.2).
// False when either is no identity.
func (i Identity) SameSandbox(other Identity) bool {
	return !i.IsZero() && i.namespace == other.namespace && i.sandbox == other.sandbox
}

func checkUID(of, uid string) error {
	if uid == "" {
		return fmt.Errorf("runtime identity: the %s uid is empty", of)
	}
	if len(uid) > MaxUID {
		return fmt.Errorf("runtime identity: the %s uid has %d bytes, at most %d are allowed", of, len(uid), MaxUID)
	}
	for i := range len(uid) {
		if c := uid[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return fmt.Errorf("runtime identity: the %s uid %s may hold only letters, digits and -", of, quote(uid))
		}
	}
	return nil
}

// quote shows text from elsewhere inside a message, on one line and cut short.
func quote(s string) string {
	const limit = 80
	if len(s) > limit {
		return fmt.Sprintf("%q... (%d bytes)", strings.ToValidUTF8(s[:limit], ""), len(s))
	}
	return fmt.Sprintf("%q", s)
}
