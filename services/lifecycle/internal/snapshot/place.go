package snapshot

import (
	"errors"
	"fmt"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Placed says why an object, by its metadata alone, is not in a place where this gateway has sandboxes; nil when it is, or may be. The
// error wraps ErrMisplaced.
//
// It is for whoever acts on what a selector found: labels can be copied, by a restore into another namespace or by anyone who may create
// Sandboxes in one, and a copy is neither the sandbox nor in its way. What Read calls misplaced is so here too; what Read cannot make
// sense of is in its place while one of the workspaces that it names lives there, so that it is not taken for absent.
func Placed(namespace string, labels, annotations map[string]string, scheme workspace.Scheme) error {
	var problem error
	for _, named := range [...]string{labels[workspace.LabelSandboxWorkspace], annotations[workspace.AnnotationSandboxWorkspace]} {
		if named == "" {
			continue
		}
		if problem = scheme.Places(named, namespace); problem == nil {
			return nil
		}
	}
	if problem == nil {
		if scheme.MayHold(namespace) {
			return nil
		}
		problem = errors.New("it names no workspace")
	}
	return fmt.Errorf("%w: %w", ErrMisplaced, problem)
}
