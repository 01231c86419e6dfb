package inventory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// placeholder stands for the workspace in a required label (contract 2.4).
const placeholder = "${workspace}"

// Policy is what the settings let sandboxes be attached to. It never changes and may be shared. The zero Policy admits nothing.
type Policy struct {
	settings *driverconf.Kubernetes
}

// New keeps a copy of the settings.
func New(settings *driverconf.Kubernetes) (*Policy, error) {
	if settings == nil {
		return nil, errors.New("resource admission: there are no settings")
	}
	own := *settings
	own.ResourceAdmission.RequiredLabels = maps.Clone(settings.ResourceAdmission.RequiredLabels)
	own.AllowedExtendedResources = slices.Clone(settings.AllowedExtendedResources)
	return &Policy{settings: &own}, nil
}

// Own is what of a Pod belongs to the driver, for one generation of one sandbox.
type Own struct {
	// Namespace and ObjectName are those of the Sandbox object.
	Namespace, ObjectName string
	// SandboxID and Generation lead to the bootstrap Secret.
	SandboxID, Generation string
	// PullSecrets are the names that the Pod may pull images with: those that are rendered. At a restart they are the template's own,
	// since supervisorctl puts those of the new run in their place.
	PullSecrets []string
}

// maxProblems is how many are told; the rest are counted.
const maxProblems = 20

// Attachments walks a template and names the objects that need a look-up, in order and each once. A refusal names everything in it
// that no sandbox may have.
func (p *Policy) Attachments(template *corev1.PodTemplateSpec, own Own) ([]Attachment, verdict.Decision) {
	const step = "attachments"
	switch {
	case p.settings == nil || template == nil:
		return nil, verdict.Refuse(verdict.AttachmentForbidden, step, "there is no Pod, or nothing to judge it by")
	case own.Namespace == "" || own.ObjectName == "" || own.SandboxID == "" || own.Generation == "":
		return nil, verdict.Refuse(verdict.AttachmentForbidden, step, "nothing says whose Pod it is")
	}
	w := &walk{policy: p, own: own}
	w.pod(template.Spec.DeepCopy())
	if len(w.problems) > 0 {
		text := w.told()
		return nil, verdict.Refuse(verdict.AttachmentForbidden, step, text).WithMessage(text)
	}
	return sorted(w.found), verdict.Grant(verdict.Evidence{})
}

// walk is the walk over one Pod.
type walk struct {
	policy   *Policy
	own      Own
	found    []Attachment
	problems []string
}

// refuse shows no value of the Pod; names in the path are cut by who makes it.
func (w *walk) refuse(path, format string, args ...any) {
	w.problems = append(w.problems, path+" "+fmt.Sprintf(format, args...))
}

func (w *walk) told() string {
	list := w.problems
	if len(list) > maxProblems {
		list = append(slices.Clone(list[:maxProblems]), fmt.Sprintf("and %d more problems", len(list)-maxProblems))
	}
	return strings.Join(list, "; ")
}
