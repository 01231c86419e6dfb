package reconcile

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// PodWatcher watches the Pods of a namespace, or of all with an empty one.
type PodWatcher func(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error)

// stream lists and watches one kind. What the selectors find is looked at again by the ledger, which trusts no selector.
type stream struct {
	kind      kind
	client    metadata.Interface
	pods      PodWatcher
	namespace string // empty for all
	selector  string
	// resources are those to try, the preferred one first; at is the one that was listed last.
	resources []schema.GroupVersionResource
	at        atomic.Int32
	// report is told the outcome of each request.
	report func(k kind, err error)
}

// selectors are what is watched of each kind (contract 4.3, 4.5).
func selectors(s workspace.Scheme) ([kinds]string, error) {
	sandboxes := workspace.SelectShared()
	if s.Mode != driverconf.ModeShared {
		var err error
		if sandboxes, err = workspace.SelectGateway(s.GatewayID); err != nil {
			return [kinds]string{}, fmt.Errorf("reconcile: %w", err)
		}
	}
	managed := labels.Set{workspace.LabelManagedBy: workspace.ManagedByOpenShell}.AsSelector()
	roles, err := labels.NewRequirement(workspace.LabelBoundaryRole, selection.In, []string{workspace.RoleWorkload, workspace.RoleSupervisor})
	if err != nil {
		return [kinds]string{}, fmt.Errorf("reconcile: select Pods: %w", err)
	}
	service, err := labels.NewRequirement(workspace.LabelComponent, selection.Equals, []string{workspace.ComponentBoundaryService})
	if err != nil {
		return [kinds]string{}, fmt.Errorf("reconcile: select Services: %w", err)
	}
	return [kinds]string{
		boxes: sandboxes.String(), pods: labels.NewSelector().Add(*roles).String(),
		services: managed.Add(*service).String(),
		// All of them: any policy may open a fence again, and one without our labels may have the fence's name.
		policies: "",
	}, nil
}

// streams are one for each kind.
func streams(s workspace.Scheme, client metadata.Interface, whole PodWatcher, report func(kind, error)) ([]*stream, error) {
	chosen, err := selectors(s)
	if err != nil {
		return nil, err
	}
	namespace := ""
	if s.Mode == driverconf.ModeShared {
		namespace = s.Namespace
	}
	var sandboxes []schema.GroupVersionResource
	for _, version := range sandboxapi.Versions() {
		sandboxes = append(sandboxes, version.GroupVersionResource())
	}
	resources := [kinds][]schema.GroupVersionResource{
		boxes: sandboxes,
		pods:  {corev1.SchemeGroupVersion.WithResource(pods.String())}, services: {corev1.SchemeGroupVersion.WithResource(services.String())},
		policies: {networkingv1.SchemeGroupVersion.WithResource(policies.String())},
	}
	all := make([]*stream, 0, kinds)
	for k := range kinds {
		all = append(all, &stream{kind: k, client: client, pods: whole, namespace: namespace, selector: chosen[k], resources: resources[k], report: report})
	}
	return all, nil
}

// ListWithContext fulfils cache.ListerWithContext. Of several versions it lists the first that is served, so that every list follows
// an upgrade of the resource's definition.
func (s *stream) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.LabelSelector = s.selector
	var err error
	for i, resource := range s.resources {
		var list *metav1.PartialObjectMetadataList
		if list, err = s.of(resource).List(ctx, options); err == nil {
			s.at.Store(int32(i))
			return list, nil
		}
		if !apierrors.IsNotFound(err) {
			break
		}
	}
	if apierrors.IsNotFound(err) && s.kind == boxes {
		err = fmt.Errorf("no known version of the Sandbox resource is served, install the Agent Sandbox definitions: %w", err)
	}
	err = fmt.Errorf("list %s: %w", s.kind, err)
	s.report(s.kind, err)
	return nil, err
}

// WatchWithContext fulfils cache.WatcherWithContext. A version that is not served any more ends it, and a list follows. Pods are watched as
// they are: what they say of themselves tells when a look is worth its reads. A list is for what has to be looked at anyway.
func (s *stream) WatchWithContext(ctx context.Context, options metav1.ListOptions) (w watch.Interface, err error) {
	options.LabelSelector = s.selector
	if s.kind == pods {
		w, err = s.pods(ctx, s.namespace, options)
	} else {
		w, err = s.of(s.resources[s.at.Load()]).Watch(ctx, options)
	}
	if err != nil {
		err = fmt.Errorf("watch %s: %w", s.kind, err)
	}
	s.report(s.kind, err)
	return w, err
}

// List fulfils cache.Lister, for callers without a context, of which there are none.
func (s *stream) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

// Watch fulfils cache.Watcher, likewise.
func (s *stream) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// IsWatchListSemanticsUnSupported keeps the reflector from listing by a watch: between two tries of that it would not notice the end
// of its context, and the term would not end.
func (s *stream) IsWatchListSemanticsUnSupported() bool { return true }

func (s *stream) of(resource schema.GroupVersionResource) metadata.ResourceInterface {
	if s.namespace == "" {
		return s.client.Resource(resource)
	}
	return s.client.Resource(resource).Namespace(s.namespace)
}

var _ cache.ListerWatcherWithContext = (*stream)(nil)
