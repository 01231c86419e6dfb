package inventory

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/excerpt"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// nameHash is on every claim that the Agent Sandbox controller makes (contract 8.4).
const nameHash = sandboxapi.Group + "/sandbox-name-hash"

// Look is what came of looking an object up. The zero Look was not made.
type Look struct {
	found *metav1.ObjectMeta
	err   error
}

// Found is a look that found an object with these metadata.
func Found(m *metav1.ObjectMeta) Look { return Look{found: m} }

// Failed is a look that ended with an error of the API client; that the object does not exist is one of those.
func Failed(err error) Look { return Look{err: err} }

// Judge makes of a look the uid to record, or a refusal (contract 11.5). The workspace is the one that the sandbox is in.
func (p *Policy) Judge(a Attachment, workspace string, look Look) (types.UID, verdict.Decision) {
	refuse := func(reason verdict.Reason, format string, args ...any) (types.UID, verdict.Decision) {
		text := a.String() + ": " + fmt.Sprintf(format, args...)
		return "", verdict.Refuse(reason, "attachment", text).WithMessage(text)
	}
	m := look.found
	switch {
	case p.settings == nil:
		return refuse(verdict.AttachmentUnreadable, "there is nothing to judge it by")
	case look.err != nil && apierrors.IsNotFound(look.err):
		return refuse(verdict.AttachmentAbsent, "it does not exist")
	case look.err != nil:
		// What the client says may name what the caller may not know.
		_, d := refuse(verdict.AttachmentUnreadable, "it could not be read")
		d.Explanation = a.String() + ": it could not be read: " + short(look.err.Error())
		return "", d
	case m == nil:
		return refuse(verdict.AttachmentUnreadable, "it was not looked up")
	case m.Name != a.Name || m.Namespace != a.Namespace:
		return refuse(verdict.AttachmentIncomplete, "the answer is about another object")
	case m.UID == "" || !wellFormed(m.UID):
		return refuse(verdict.AttachmentIncomplete, "it has no uid that could be recorded")
	case m.DeletionTimestamp != nil:
		return refuse(verdict.AttachmentDeleting, "it is being deleted")
	case !p.settings.ResourceAdmission.Enabled:
		if a.Kind == PersistentVolumeClaim && ofSandbox(m) {
			return refuse(verdict.AttachmentOfSandbox, "it is the workspace of a sandbox")
		}
	default:
		required := p.required(a.Kind, workspace)
		for _, key := range slices.Sorted(maps.Keys(required)) {
			if value, there := m.Labels[key]; !there || value != required[key] {
				return refuse(verdict.AttachmentUnlabelled, "it needs the label %s=%s", key, required[key])
			}
		}
	}
	return m.UID, verdict.Grant(verdict.Evidence{})
}

// required are the labels for one kind: of the cluster's kinds, which no workspace owns, those without the placeholder.
func (p *Policy) required(kind Kind, workspace string) map[string]string {
	labels := map[string]string{}
	for key, value := range p.settings.ResourceAdmission.RequiredLabels {
		switch {
		case value != placeholder:
			labels[key] = value
		case kind.Namespaced():
			labels[key] = workspace
		}
	}
	return labels
}

func ofSandbox(m *metav1.ObjectMeta) bool {
	if _, made := m.Labels[nameHash]; made {
		return true
	}
	return slices.ContainsFunc(m.OwnerReferences, func(r metav1.OwnerReference) bool {
		group, _, _ := strings.Cut(r.APIVersion, "/")
		return group == sandboxapi.Group && r.Kind == sandboxapi.Kind
	})
}

// longest is how much of another's text is repeated, in bytes.
const longest = 300

func short(text string) string { return excerpt.Of(text, longest) }
