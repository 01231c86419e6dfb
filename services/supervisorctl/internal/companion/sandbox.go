package companion

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/shared/mainprocess"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Sandbox is one run of one sandbox: what its companions are rendered from, beside the settings. The zero value renders
// nothing.
type Sandbox struct {
	// ID is the gateway's id of the sandbox (contract 4.2).
	ID string
	// Name is the gateway's name of it, and Workspace the workspace that the name is unique in.
	Name, Workspace string
	// Namespace, ObjectName and UID are those of the Sandbox object; the first two must be the ones that the settings'
	// workspace mode leads to (contract 4.1).
	Namespace, ObjectName string
	UID                   types.UID
	// Version is the one through which the object was read, for owner references.
	Version sandboxapi.Version
	// Generation names the run: 1 to 64 of a-z, 0-9 and "-", with a letter or digit (contract 7.2, 7.11).
	Generation string
	// User and Group are the numeric identity of both Pods. Contract 9.4 has them from 1 to 4294967294; the API server takes
	// none above 2147483647, so neither is it here.
	User, Group uint32
	// MainProcess is what mainprocess.Encode made (contract 7.6).
	MainProcess string
	// LogLevel goes to the supervisor; empty leaves the choice to it. At most 256 printable characters.
	LogLevel string
	// TraceParent and TraceState are the caller's W3C trace context, and reach the supervisor only where spans are sent
	// somewhere. One that is malformed is left out: a trace never stops a sandbox.
	TraceParent, TraceState string
}

// PodRef is a Pod by name and uid.
type PodRef struct {
	Name string
	UID  types.UID
}

const (
	maxUID      = 128
	maxLogLevel = 256
	maxID       = math.MaxInt32
)

var generationRule = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// check returns everything that is wrong with s in the given scheme, joined.
func (s *Sandbox) check(scheme workspace.Scheme) error {
	var problems []error
	problem := func(field, format string, args ...any) {
		problems = append(problems, fmt.Errorf("sandbox "+field+": "+format, args...))
	}
	if err := workspace.CheckSandboxID(s.ID); err != nil {
		problem("id", "%w", err)
	}
	if err := scheme.Places(s.Workspace, s.Namespace); err != nil {
		problem("namespace", "%w", err)
	} else if name, err := scheme.SandboxName(s.Workspace, s.Name); err != nil {
		problem("name", "%w", err)
	} else if name != s.ObjectName {
		problem("object name", "is %.80q, and workspace %q with name %q lead to %q", s.ObjectName, s.Workspace, s.Name, name)
	}
	if err := checkUID(s.UID); err != nil {
		problem("uid", "%w", err)
	}
	if !s.Version.Known() {
		problem("version", "%.40q is none of the Sandbox resource", string(s.Version))
	}
	if !generationRule.MatchString(s.Generation) {
		problem("generation", "must be 1 to 64 of a-z, 0-9 and '-'")
	} else if err := workspace.CheckGeneration(s.Generation); err != nil {
		problem("generation", "%w", err)
	}
	for _, id := range []struct {
		field string
		value uint32
	}{{"user", s.User}, {"group", s.Group}} {
		if id.value < 1 || id.value > maxID {
			problem(id.field, "is %d, and Kubernetes runs no container but with one from 1 to %d", id.value, maxID)
		}
	}
	if _, err := mainprocess.Decode(s.MainProcess); err != nil {
		problem("main process", "%w", err)
	}
	if len(s.LogLevel) > maxLogLevel || !printable(s.LogLevel) {
		problem("log level", "must be at most %d printable characters", maxLogLevel)
	}
	return errors.Join(problems...)
}

func checkUID(uid types.UID) error {
	if uid == "" {
		return errors.New("must not be empty")
	}
	if len(uid) > maxUID || !printable(string(uid)) || strings.Contains(string(uid), " ") {
		return fmt.Errorf("must be at most %d printable characters without a space", maxUID)
	}
	return nil
}

// printable says that s is ASCII without control characters.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// ownedBySandbox is on Service and supervisor Pod. It controls nothing and blocks nothing: blocking would need rights on
// the Sandbox's finalizers, which the mesh has not (contract 7.1).
func (s *Sandbox) ownedBySandbox() []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: s.Version.APIVersion(), Kind: sandboxapi.Kind, Name: s.ObjectName, UID: s.UID, BlockOwnerDeletion: new(false),
	}}
}

func ownedByPods(pods ...PodRef) []metav1.OwnerReference {
	references := make([]metav1.OwnerReference, 0, len(pods))
	for _, pod := range pods {
		references = append(references, metav1.OwnerReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, BlockOwnerDeletion: new(false),
		})
	}
	return references
}

// labels are those of every companion (contract 4.3).
func (s *Sandbox) labels(component string) map[string]string {
	return map[string]string{
		workspace.LabelManagedBy: workspace.ManagedByOpenShell,
		workspace.LabelSandboxID: s.ID,
		workspace.LabelComponent: component,
	}
}
