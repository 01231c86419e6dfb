package observe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/progress"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// podsPerPage and eventsPerPage bound what is decoded at once.
const (
	podsPerPage   = 250
	eventsPerPage = 500
)

// podSelector finds both Pods of every sandbox. A workload Pod has no label of its gateway; whose it is its owner says.
const podSelector = workspace.LabelBoundaryRole + " in (" + workspace.RoleSupervisor + "," + workspace.RoleWorkload + ")"

// kubePods lists and watches Pods.
type kubePods struct{ kube *Kube }

// List fulfils Source.
func (s *kubePods) List(ctx context.Context, _ uint64) (Listing[snapshot.Pod], error) {
	listing, err := listPages(ctx, podSelector, podsPerPage, func(ctx context.Context, options metav1.ListOptions) (page, error) {
		list, err := s.kube.watches.Typed.CoreV1().Pods(s.kube.namespace).List(ctx, options)
		if err != nil {
			return page{}, err
		}
		p := page{meta: list}
		for i := range list.Items {
			p.objects = append(p.objects, &list.Items[i])
		}
		return p, nil
	}, s.read)
	if err != nil {
		return listing, fmt.Errorf("list %s: %w", pods, err)
	}
	return listing, nil
}

// Watch fulfils Source.
func (s *kubePods) Watch(ctx context.Context, from uint64, tell func(Change[snapshot.Pod]) bool) error {
	open := func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return s.kube.watches.Typed.CoreV1().Pods(s.kube.namespace).Watch(ctx, options)
	}
	return watchFrom(ctx, pods, podSelector, from, open, s.read, tell)
}

func (s *kubePods) read(o runtime.Object) (Item[snapshot.Pod], error) {
	item, err := itemOf[snapshot.Pod](o)
	if err != nil {
		return item, err
	}
	p, ok := o.(*corev1.Pod)
	if !ok {
		return item, fmt.Errorf("%w: a %T for a Pod", errMalformed, o)
	}
	item.Value, item.Problem = snapshot.ReadPod(p, s.kube.scheme)
	return item, nil
}

// kubeEvents lists and watches events. They have no labels, so it is all events of the namespace, or of the cluster.
type kubeEvents struct{ kube *Kube }

// List fulfils Source. What has happened before the first list is not told, so that one only asks where to begin.
func (s *kubeEvents) List(ctx context.Context, after uint64) (Listing[progress.Event], error) {
	ask := func(ctx context.Context, options metav1.ListOptions) (page, error) {
		list, err := s.kube.watches.Typed.CoreV1().Events(s.kube.namespace).List(ctx, options)
		if err != nil {
			return page{}, err
		}
		p := page{meta: list}
		if after == 0 {
			p.meta = &metav1.ListMeta{ResourceVersion: list.ResourceVersion}
			return p, nil
		}
		for i := range list.Items {
			if v, err := version(list.Items[i].ResourceVersion); err != nil || v > after {
				p.objects = append(p.objects, &list.Items[i])
			}
		}
		return p, nil
	}
	size := int64(eventsPerPage)
	if after == 0 {
		size = 1
	}
	listing, err := listPages(ctx, "", size, ask, readEvent)
	if err != nil {
		return listing, fmt.Errorf("list %s: %w", events, err)
	}
	return listing, nil
}

// Watch fulfils Source.
func (s *kubeEvents) Watch(ctx context.Context, from uint64, tell func(Change[progress.Event]) bool) error {
	open := func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return s.kube.watches.Typed.CoreV1().Events(s.kube.namespace).Watch(ctx, options)
	}
	return watchFrom(ctx, events, "", from, open, readEvent, tell)
}

func readEvent(o runtime.Object) (Item[progress.Event], error) {
	item, err := itemOf[progress.Event](o)
	if err != nil {
		return item, err
	}
	e, ok := o.(*corev1.Event)
	if !ok {
		return item, fmt.Errorf("%w: a %T for an event", errMalformed, o)
	}
	item.Value, item.Problem = progress.Read(e)
	return item, nil
}

var (
	_ Source[snapshot.Sandbox] = (*kubeSandboxes)(nil)
	_ Source[snapshot.Pod]     = (*kubePods)(nil)
	_ Source[progress.Event]   = (*kubeEvents)(nil)
)
