package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

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

// mostFound is how many objects with one id are read; two are as bad as more.
const mostFound = 16

// Find fulfils Finder. That there is none is proven by the answer to a consistent list, and never by a resource that is not served.
func (k *Kube) Find(ctx context.Context, sandboxID string) ([]sandboxapi.Object, error) {
	selector, err := workspace.SelectSandbox(k.scheme.GatewayID, sandboxID)
	if err != nil {
		return nil, fmt.Errorf("look for a sandbox: %w", err)
	}
	for _, v := range sandboxapi.Versions() {
		list, err := k.sandboxes(k.calls.Dynamic, v).List(ctx, metav1.ListOptions{LabelSelector: selector.String(), Limit: mostFound})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("look for the sandbox %s: list sandboxes: %w", sandboxID, err)
		}
		found := make([]sandboxapi.Object, 0, len(list.Items))
		for i := range list.Items {
			o, err := sandboxapi.ObjectFrom(&list.Items[i])
			if err != nil {
				return nil, fmt.Errorf("look for the sandbox %s: %w: %w", sandboxID, ErrUnreadable, err)
			}
			found = append(found, o)
		}
		return found, nil
	}
	return nil, fmt.Errorf("look for the sandbox %s: %w", sandboxID, ErrNotServed)
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
