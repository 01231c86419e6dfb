package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Leftover is what is left of a Sandbox that is gone.
type Leftover struct {
	Namespace string
	// Sandbox and UID are the name and the uid that the Sandbox object had. Another may have the name by now.
	Sandbox, UID string
}

// Leftovers finds supervisor Pods of a sandbox, by its id, in all namespaces that this gateway's sandboxes can be in. They say
// where the sandbox was. Pods whose Sandbox is there are not left over, whosever it is. With an error it may have found some, but not all.
func (c *Cluster) Leftovers(ctx context.Context, gatewayID, sandboxID string) ([]Leftover, error) {
	selector := labels.Set{
		workspace.LabelSandboxID: sandboxID, workspace.LabelGatewayID: gatewayID, workspace.LabelManagedBy: workspace.ManagedByOpenShell,
	}.AsSelector()
	list, err := c.client.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(c.namespace).
		List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("list what is left of sandbox %s: %w", sandboxID, err)
	}
	var found []Leftover
	var problems []error
	seen := map[Leftover]bool{}
	for i := range list.Items {
		owner, err := sandboxapi.OwnerOf(list.Items[i].OwnerReferences)
		if err != nil {
			continue // of no Sandbox: not ours to judge
		}
		of := Leftover{Namespace: list.Items[i].Namespace, Sandbox: owner.Name, UID: owner.UID}
		if seen[of] {
			continue
		}
		seen[of] = true
		switch there, err := c.there(ctx, of); {
		case err != nil:
			problems = append(problems, fmt.Errorf("look whether Sandbox %s/%s is gone: %w", of.Namespace, of.Sandbox, err))
		case !there:
			found = append(found, of)
		}
	}
	return found, errors.Join(problems...)
}

// there reports whether the Sandbox itself is there.
func (c *Cluster) there(ctx context.Context, of Leftover) (bool, error) {
	for _, version := range c.versions() {
		seen, err := c.client.Metadata.Resource(version.GroupVersionResource()).Namespace(of.Namespace).Get(ctx, of.Sandbox, metav1.GetOptions{})
		switch {
		case apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) && apierrors.IsNotFound(err):
			continue // it is the resource that is not there
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, err
		}
		return string(seen.UID) == of.UID, nil
	}
	return false, ErrNotServed
}
