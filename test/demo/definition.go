package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/crd"
)

// definitions is the resource of which the definition of Sandboxes is an object.
var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

const (
	// labelBrings is on the namespace that stands for a demo's use of the definition, from before the demo brings that.
	labelBrings = "portcullis.test/demo-brings-definition"
	// annotationUsed and annotationGoing are on a definition that a demo brought: when a demo last began to use it, and when one last
	// looked whether it can go. Whoever writes one changes the definition, which stops who is about to delete what he saw before.
	annotationUsed  = "portcullis.test/demo-used"
	annotationGoing = "portcullis.test/demo-going"
)

// claimDefinition says which definition of Sandboxes somebody else's cluster has, empty for none, and keeps other demos from taking away one
// that a demo brought: a namespace is there first, by which they see that it is used. When there is none, the namespace says so before one is
// brought, so that what is left of a demo that is killed after that is known for its own.
func (w *World) claimDefinition(ctx context.Context) (crd.Variant, error) {
	if w.site.Own {
		return crd.Installed(ctx, w.site.REST)
	}
	if err := w.makeNamespace(ctx, w.home("definition"), w.marks()); err != nil {
		return "", err
	}
	have, err := crd.Installed(ctx, w.site.REST)
	if err != nil {
		return "", err
	}
	if have != "" {
		stays, err := w.touchDefinition(ctx)
		if err != nil || stays {
			return have, err
		}
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, labelBrings)
	if _, err := w.client.CoreV1().Namespaces().Patch(ctx, w.home("definition"), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return "", fmt.Errorf("note that the demo brings the definition of Sandboxes: %w", err)
	}
	return "", nil
}

// touchDefinition says on a definition that a demo brought that it is used, and whether it stays. One that somebody else brought is left alone.
func (w *World) touchDefinition(ctx context.Context) (stays bool, err error) {
	found, err := w.lookForDefinition(ctx)
	if err != nil || found == nil {
		return false, err
	}
	if found.GetLabels()[labelDemo] == "" {
		return true, nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotationUsed, time.Now().Format(time.RFC3339Nano))
	found, err = w.dynamic.Resource(definitions).Patch(ctx, crd.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("note that the definition of Sandboxes is used: %w", err)
	}
	return found.GetDeletionTimestamp() == nil, nil
}

// lookForDefinition is the definition of Sandboxes, nil when there is none.
func (w *World) lookForDefinition(ctx context.Context) (*unstructured.Unstructured, error) {
	found, err := w.dynamic.Resource(definitions).Get(ctx, crd.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look for the definition of Sandboxes: %w", err)
	}
	return found, nil
}

// markDefinition says on the definition of Sandboxes, in somebody else's cluster, that a demo brought it, if this one did, now or before it
// was killed.
func (w *World) markDefinition(ctx context.Context) error {
	if w.site.Own {
		return nil
	}
	claim, err := w.client.CoreV1().Namespaces().Get(ctx, w.home("definition"), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look whether the demo brought the definition of Sandboxes: %w", err)
	case claim.Labels[labelDemo] != w.options.Prefix || claim.Labels[labelBrings] == "":
		return nil
	}
	have, err := crd.Installed(ctx, w.site.REST)
	if err != nil || have.Versions() == nil { // there is none, or somebody else was quicker
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, labelDemo, w.options.Prefix)
	_, err = w.dynamic.Resource(definitions).Patch(ctx, crd.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if gone(err) != nil {
		return fmt.Errorf("mark the definition of Sandboxes as the demo's: %w", err)
	}
	return nil
}

// removeDefinition deletes the definition that a demo brought, this one or another, when it is of no use any more: no demo is there, and
// nobody has Sandboxes, which would go with it. That is looked at twice, the second time after others could see that it may go, and what is
// deleted is exactly what was looked at. What is used stays.
func (w *World) removeDefinition(ctx context.Context) error {
	var failed error
	err := eventually(ctx, func() error {
		var again bool
		if again, failed = w.tryRemoval(ctx); again {
			return failed
		}
		return nil
	})
	if err != nil {
		return err
	}
	return failed
}

// tryRemoval reports whether it is to be tried again, since the definition is going or somebody was quicker, with the reason.
func (w *World) tryRemoval(ctx context.Context) (again bool, err error) {
	found, err := w.lookForDefinition(ctx)
	if err != nil || found == nil || found.GetLabels()[labelDemo] == "" {
		return false, err
	}
	if found.GetDeletionTimestamp() != nil {
		return true, errors.New("the definition of Sandboxes is still there, being deleted")
	}
	if used, err := w.definitionUsed(ctx); err != nil || used {
		return false, err
	}
	found.SetAnnotations(with(found.GetAnnotations(), annotationGoing, time.Now().Format(time.RFC3339Nano)))
	seen, err := w.dynamic.Resource(definitions).Update(ctx, found, metav1.UpdateOptions{}) // of what was found, and nothing later
	if err != nil {
		return overtaken(err), fmt.Errorf("note that the definition of Sandboxes may go: %w", err)
	}
	if used, err := w.definitionUsed(ctx); err != nil || used {
		return false, err
	}
	err = w.dynamic.Resource(definitions).Delete(ctx, crd.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID: new(seen.GetUID()), ResourceVersion: new(seen.GetResourceVersion()),
	}})
	if err != nil {
		return overtaken(err), fmt.Errorf("delete the definition of Sandboxes: %w", err)
	}
	return true, errors.New("the definition of Sandboxes has just been deleted")
}

// overtaken is the error of a write to what somebody has changed or deleted meanwhile.
func overtaken(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

// definitionUsed reports whether there are demos or Sandboxes. When it cannot be seen, the definition has to stay.
func (w *World) definitionUsed(ctx context.Context) (bool, error) {
	demos, err1 := w.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: labelDemo, Limit: 1})
	boxes, err2 := w.dynamic.Resource(sandboxes).List(ctx, metav1.ListOptions{Limit: 1})
	if err := errors.Join(err1, err2); err != nil {
		return false, fmt.Errorf("look whether Sandboxes are used: %w", err)
	}
	return len(demos.Items) > 0 || len(boxes.Items) > 0, nil
}

// with is a map with one more entry.
func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}
