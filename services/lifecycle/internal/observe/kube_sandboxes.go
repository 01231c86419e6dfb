package observe

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// boxesPerPage bounds what is decoded at once: a Sandbox is some 10 KiB of JSON, and several times that when it is decoded.
const boxesPerPage = 200

// kubeSandboxes lists and watches Sandboxes in the first version that is served. A list looks for it each time; a watch of another
// than the preferred version looks whether that has come to be served, at least every mostWatch (contract 8.1: the original needs a
// restart).
type kubeSandboxes struct {
	kube *Kube
	at   sandboxapi.Version
}

// List fulfils Source.
func (s *kubeSandboxes) List(ctx context.Context, _ uint64) (Listing[snapshot.Sandbox], error) {
	for _, v := range sandboxapi.Versions() {
		listing, err := listPages(ctx, s.kube.selector, boxesPerPage, s.page(v), s.read)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return Listing[snapshot.Sandbox]{}, fmt.Errorf("list %s: %w", boxes, err)
		}
		s.at = v
		return listing, nil
	}
	return Listing[snapshot.Sandbox]{}, fmt.Errorf("list %s: %w", boxes, ErrNotServed)
}

func (s *kubeSandboxes) page(v sandboxapi.Version) func(context.Context, metav1.ListOptions) (page, error) {
	return func(ctx context.Context, options metav1.ListOptions) (page, error) {
		list, err := s.kube.sandboxes(s.kube.watches.Dynamic, v).List(ctx, options)
		if err != nil {
			return page{}, err
		}
		p := page{meta: list}
		for i := range list.Items {
			p.objects = append(p.objects, &list.Items[i])
		}
		return p, nil
	}
}

// Watch fulfils Source.
func (s *kubeSandboxes) Watch(ctx context.Context, from uint64, tell func(Change[snapshot.Sandbox]) bool) error {
	if preferred := sandboxapi.Versions()[0]; s.at != preferred && s.served(ctx, preferred) {
		return fmt.Errorf("watch %s: %w: %s is served now", boxes, ErrRelist, preferred.APIVersion())
	}
	return watchFrom(ctx, boxes, s.kube.selector, from, s.kube.sandboxes(s.kube.watches.Dynamic, s.at).Watch, s.read, tell)
}

// served reports whether a version is known to be served.
func (s *kubeSandboxes) served(ctx context.Context, v sandboxapi.Version) bool {
	_, err := onePage(ctx, metav1.ListOptions{LabelSelector: s.kube.selector, Limit: 1}, s.page(v))
	return err == nil
}

func (s *kubeSandboxes) read(o runtime.Object) (Item[snapshot.Sandbox], error) {
	item, err := itemOf[snapshot.Sandbox](o)
	if err != nil {
		return item, err
	}
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return item, fmt.Errorf("%w: a %T for a Sandbox", errMalformed, o)
	}
	lighten(u)
	box, err := sandboxapi.ObjectFrom(u)
	if err != nil {
		item.Problem = fmt.Errorf("%w: %w", snapshot.ErrMalformed, err)
		return item, nil
	}
	item.Value, item.Problem = snapshot.Read(&box, s.kube.scheme)
	return item, nil
}

// lighten takes out of an object what is not kept of it and costs most to read: who wrote which field, and of the Pod's template all but
// what it runs as.
func lighten(u *unstructured.Unstructured) {
	metadata, _ := u.Object["metadata"].(map[string]any)
	delete(metadata, "managedFields")
	spec, _ := u.Object["spec"].(map[string]any)
	template, _ := spec["podTemplate"].(map[string]any)
	pod, _ := template["spec"].(map[string]any)
	for field := range pod {
		if field != "securityContext" {
			delete(pod, field)
		}
	}
}
