package identity

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/excerpt"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Default is the user where nothing says another one (contract 9.4).
const Default = 10001

// Max is the greatest id that the API server takes.
const Max = math.MaxInt32

// maxContract is the greatest id that contract 9.4 has; one beyond it is not read at all.
const maxContract = math.MaxUint32 - 1

// Identity is what a sandbox runs as. The zero Identity is none.
type Identity struct {
	User, Group uint32
}

// Valid reports that a Pod can have the identity.
func (i Identity) Valid() bool {
	return i.User >= 1 && i.User <= Max && i.Group >= 1 && i.Group <= Max
}

// Namespace is what is known of the namespace that the sandbox will live in. The zero Namespace was not read.
type Namespace struct {
	annotations map[string]string
	read        bool
	err         error
}

// Read is a namespace with these annotations, of which there may be none.
func Read(annotations map[string]string) Namespace {
	return Namespace{annotations: annotations, read: true}
}

// Unread is a namespace that could not be read.
func Unread(err error) Namespace { return Namespace{err: err} }

// NeedsNamespace reports whether Resolve looks at the namespace: not when the user is set (contract 9.4).
func NeedsNamespace(settings *driverconf.Kubernetes) bool {
	return settings == nil || settings.SandboxUID == nil
}

// Resolve is the identity of a sandbox in the namespace. A range that cannot be read counts as none, as with the stock driver;
// a namespace that could not be read is a refusal with UNAVAILABLE, and an id that no Pod can have one with FAILED_PRECONDITION.
func Resolve(settings *driverconf.Kubernetes, ns Namespace) (Identity, verdict.Decision) {
	const step = "identity"
	if settings == nil {
		return Identity{}, verdict.Refuse(verdict.IdentityUnreadable, step, "there are no settings")
	}
	var user, group uint32
	from := "the default"
	switch {
	case settings.SandboxUID != nil:
		user, from = *settings.SandboxUID, "the setting sandbox_uid"
		group = user
	case !ns.read:
		return Identity{}, verdict.Refuse(verdict.IdentityUnreadable, step, unread(ns.err))
	default:
		user = Default
		if start, ok := rangeStart(ns.annotations[workspace.AnnotationUIDRange]); ok {
			user, from = start, "the annotation "+workspace.AnnotationUIDRange
		}
		group = user
		if start, ok := rangeStart(ns.annotations[workspace.AnnotationSupplementalGroups]); ok {
			group = start
		}
	}
	if settings.SandboxGID != nil {
		group = *settings.SandboxGID
	}
	found := Identity{User: user, Group: group}
	if !found.Valid() {
		text := fmt.Sprintf("user %d (by %s) and group %d: Kubernetes runs no Pod but with ids from 1 to %d; set sandbox_uid and sandbox_gid",
			user, from, group, Max)
		return Identity{}, verdict.Refuse(verdict.IdentityImpossible, step, text).WithMessage(text)
	}
	return found, verdict.Grant(verdict.Evidence{})
}

func unread(err error) string {
	if err == nil {
		return "the namespace was not read, and sandbox_uid is not set"
	}
	const longest = 300
	return "the namespace could not be read, and sandbox_uid is not set: " + excerpt.Of(err.Error(), longest)
}

// rangeStart reads the beginning of "<start>/<size>" by the rule of contract 9.4: what stands before the first slash, as a
// decimal in range. Of a list of ranges that is the first one's.
func rangeStart(text string) (uint32, bool) {
	before, _, found := strings.Cut(text, "/")
	if !found {
		return 0, false
	}
	start, err := strconv.ParseUint(strings.TrimSpace(before), 10, 32)
	if err != nil || start < 1 || start > maxContract {
		return 0, false
	}
	return uint32(start), true
}
