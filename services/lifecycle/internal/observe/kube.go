package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Kube is the cluster as sources and as a finder. Make it with NewKube.
//
// Every list is consistent: it is asked for without a resource version. It comes in pages, of which each is stripped to what is kept
// before the next is asked for. In every mode the gateway's label selects (contract 4.5: without it, two gateways in one namespace
// see each other's sandboxes).
type Kube struct {
	scheme workspace.Scheme
	// namespace is empty for all.
	namespace string
	selector  string
	calls     kubeclient.Client
	watches   kubeclient.Client
}

// NewKube starts nothing and sends nothing. calls and watches are those of kubeclient.Clients.
func NewKube(scheme workspace.Scheme, calls, watches kubeclient.Client) (*Kube, error) {
	if err := scheme.Validate(); err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	if calls.Dynamic == nil || watches.Dynamic == nil || watches.Typed == nil {
		return nil, errors.New("observe: the clients must be given")
	}
	selector, err := workspace.SelectGateway(scheme.GatewayID)
	if err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	k := &Kube{scheme: scheme, selector: selector.String(), calls: calls, watches: watches}
	if scheme.Mode == driverconf.ModeShared {
		k.namespace = scheme.Namespace
	}
	return k, nil
}

// Sources are for one Observer.
func (k *Kube) Sources() Sources {
	return Sources{Sandboxes: &kubeSandboxes{kube: k}, Pods: &kubePods{kube: k}, Events: &kubeEvents{kube: k}}
}

// sandboxes is the resource in one version.
func (k *Kube) sandboxes(client dynamic.Interface, v sandboxapi.Version) dynamic.ResourceInterface {
	if k.namespace == "" {
		return client.Resource(v.GroupVersionResource())
	}
	return client.Resource(v.GroupVersionResource()).Namespace(k.namespace)
}

const (
	// foundPerPage is how many objects with one id are read at once, and mostPages how often more are asked for. There is one, unless
	// somebody copies: then copies elsewhere must not hide it, and neither may they keep a call for ever.
	foundPerPage = 16
	mostPages    = 64
)

// Find fulfils Finder. That there is none is proven by the answer to a consistent list, and never by a resource that is not served. Objects
// with the id in places where this gateway has none (snapshot.Placed) are left out: they are neither the sandbox nor a second one.
func (k *Kube) Find(ctx context.Context, sandboxID string) ([]sandboxapi.Object, error) {
	selector, err := workspace.SelectSandbox(k.scheme.GatewayID, sandboxID)
	if err != nil {
		return nil, fmt.Errorf("look for a sandbox: %w", err)
	}
	for _, v := range sandboxapi.Versions() {
		found, err := k.find(ctx, k.sandboxes(k.calls.Dynamic, v), v, selector)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return found, fmt.Errorf("look for the sandbox %s: %w", sandboxID, err)
		}
		return found, nil
	}
	return nil, fmt.Errorf("look for the sandbox %s: %w", sandboxID, ErrNotServed)
}

// find reads all pages of one version.
func (k *Kube) find(ctx context.Context, from dynamic.ResourceInterface, v sandboxapi.Version, selector labels.Selector) ([]sandboxapi.Object, error) {
	var found []sandboxapi.Object
	var unreadable error
	options := metav1.ListOptions{LabelSelector: selector.String(), Limit: foundPerPage}
	for range mostPages {
		list, err := from.List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list sandboxes: %w", err)
		}
		for i := range list.Items {
			u := &list.Items[i]
			if !selector.Matches(labels.Set(u.GetLabels())) { // a server that took no notice of the selector proves nothing
				return nil, fmt.Errorf("%w: the Sandbox %s/%s was not asked for", ErrUnreadable, u.GetNamespace(), u.GetName())
			}
			if snapshot.Placed(u.GetNamespace(), u.GetLabels(), u.GetAnnotations(), k.scheme) != nil {
				continue
			}
			o, err := sandboxapi.ObjectFrom(u)
			if err != nil {
				unreadable = fmt.Errorf("%w: %w", ErrUnreadable, err)
				if o, err = bare(u, v); err != nil {
					return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
				}
			}
			found = append(found, o)
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return found, unreadable
		}
		if len(list.Items) == 0 {
			return nil, errors.New("list sandboxes: a page is empty, and the API server says that more follow")
		}
	}
	return nil, fmt.Errorf("list sandboxes: more than %d objects have the id: somebody makes copies; delete them", foundPerPage*mostPages)
}

// bare is an object of which only the metadata can be read.
func bare(u *unstructured.Unstructured, v sandboxapi.Version) (sandboxapi.Object, error) {
	meta, err := sandboxapi.FromMetadata(&metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), Labels: u.GetLabels(), Annotations: u.GetAnnotations(), DeletionTimestamp: u.GetDeletionTimestamp(),
	})
	return sandboxapi.Object{Sandbox: meta, Version: v, Generation: u.GetGeneration(), ResourceVersion: u.GetResourceVersion()}, err
}

// ended makes of a request's error what a follower must know. What was asked for from a version that is of no use needs a list, and so
// does a resource that is not served any more in the version that was watched.
func ended(verb string, k kind, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsNotFound(err), tooLarge(err):
		return fmt.Errorf("%s %s: %w: %w", verb, k, ErrRelist, err)
	}
	return fmt.Errorf("%s %s: %w", verb, k, err)
}

// tooLarge knows a version that the server does not know yet, by the cause that servers give and by the text of those that give none.
func tooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		apierrors.IsTimeout(err) && strings.Contains(err.Error(), "Too large resource version")
}

var _ Finder = (*Kube)(nil)
