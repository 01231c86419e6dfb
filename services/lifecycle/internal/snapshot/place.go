package snapshot

import (
	"fmt"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Placed is [workspace.Scheme.Placed] with an error that wraps ErrMisplaced. What Read calls misplaced is so here too.
func Placed(namespace string, labels, annotations map[string]string, scheme workspace.Scheme) error {
	problem := scheme.Placed(namespace, labels, annotations)
	if problem == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrMisplaced, problem)
}
