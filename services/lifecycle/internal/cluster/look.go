package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/inventory"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
)

// Look looks one attachment up, by its metadata alone (contract 11.5).
func (c *Cluster) Look(ctx context.Context, a inventory.Attachment) inventory.Look {
	found, err := c.client.Metadata.Resource(a.Kind.Resource()).Namespace(a.Namespace).Get(ctx, a.Name, metav1.GetOptions{})
	if err != nil {
		return inventory.Failed(err)
	}
	return inventory.Found(&found.ObjectMeta)
}

// nodesAtOnce is the size of one page of nodes.
const nodesAtOnce = 500

// OffersGPU reports whether some node has graphics processors to allocate (contract 11.2).
func (c *Cluster) OffersGPU(ctx context.Context) (bool, error) {
	options := metav1.ListOptions{Limit: nodesAtOnce}
	for {
		list, err := c.client.Typed.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return false, fmt.Errorf("list nodes: %w", err)
		}
		for i := range list.Items {
			if request.NodeOffersGPU(&list.Items[i]) {
				return true, nil
			}
		}
		if list.Continue == "" {
			return false, nil
		}
		options.Continue = list.Continue
	}
}

// NamespaceAnnotations are those of a namespace; nil without an error when it does not exist.
func (c *Cluster) NamespaceAnnotations(ctx context.Context, name string) (map[string]string, error) {
	ns, err := c.client.Typed.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read namespace %s: %w", name, err)
	}
	return ns.Annotations, nil
}
