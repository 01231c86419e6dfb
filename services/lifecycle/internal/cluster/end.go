package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// undoing bounds what is done for a caller that is gone.
const undoing = 30 * time.Second

// Delete deletes the Sandbox with this uid. True says that it was there and is going now, false that it was gone already, or that
// another object has the name. Conflicts with writes of others are tried again.
func (c *Cluster) Delete(ctx context.Context, version sandboxapi.Version, namespace, name string, uid types.UID) (bool, error) {
	if uid == "" {
		return false, fmt.Errorf("delete Sandbox %s/%s: its uid is not known, and nothing is deleted by its name alone", namespace, name)
	}
	of := c.client.Dynamic.Resource(version.GroupVersionResource()).Namespace(namespace)
	for {
		err := of.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		switch {
		case err == nil:
			return true, nil
		case apierrors.IsNotFound(err):
			return false, nil
		case !apierrors.IsConflict(err):
			return false, fmt.Errorf("delete Sandbox %s/%s: %w", namespace, name, err)
		}
		// Another uid, or a write that came between: the object says which.
		seen, err := of.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("read Sandbox %s/%s after a conflict: %w", namespace, name, err)
		case seen.GetUID() != uid:
			return false, nil
		}
		if ctx.Err() != nil {
			return false, fmt.Errorf("delete Sandbox %s/%s: %w", namespace, name, ctx.Err())
		}
	}
}

// Answered takes the mark of an unanswered create off a Sandbox.
func (c *Cluster) Answered(ctx context.Context, made Made) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": made.UID, "labels": map[string]any{workspace.LabelCreate: nil},
	}})
	if err != nil {
		return fmt.Errorf("write a patch: %w", err)
	}
	_, err = c.client.Metadata.Resource(made.Version.GroupVersionResource()).Namespace(made.Namespace).
		Patch(ctx, made.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("mark Sandbox %s/%s as created: %w", made.Namespace, made.Name, err)
	}
	return nil
}

// Abandoned finds the Sandboxes of this gateway that are marked as being created for longer than age, by the API server's clock
// as far as now agrees with it.
func (c *Cluster) Abandoned(ctx context.Context, age time.Duration) ([]Made, error) {
	marked, err := labels.NewRequirement(workspace.LabelCreate, selection.Equals, []string{workspace.CreatePending})
	if err != nil {
		return nil, fmt.Errorf("select abandoned creates: %w", err)
	}
	selector := c.ours.Add(*marked)
	for _, version := range c.versions() {
		list, err := c.client.Metadata.Resource(version.GroupVersionResource()).Namespace(c.namespace).
			List(ctx, metav1.ListOptions{LabelSelector: selector.String(), ResourceVersion: "0"})
		if apierrors.IsNotFound(err) && unserved(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list Sandboxes whose create was not answered: %w", err)
		}
		var found []Made
		for i := range list.Items {
			item := &list.Items[i]
			if item.DeletionTimestamp == nil && c.now().Sub(item.CreationTimestamp.Time) > age {
				found = append(found, Made{Namespace: item.Namespace, Name: item.Name, UID: item.UID, Version: version})
			}
		}
		return found, nil
	}
	return nil, ErrNotServed
}

// PodGone waits until no Pod of the name belongs to the Sandbox with the uid owner. False says that it was still there when the time was up, or that nobody
// could say.
func (c *Cluster) PodGone(ctx context.Context, namespace, name string, owner types.UID, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		pod, err := c.client.Typed.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && !ownedBy(pod, owner) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}

func ownedBy(pod *corev1.Pod, owner types.UID) bool {
	for _, ref := range pod.OwnerReferences {
		if ref.UID == owner {
			return true
		}
	}
	return false
}

// Leftover is what is left of a Sandbox that is gone.
type Leftover struct {
	Namespace string
	// Sandbox is the name that the Sandbox object had.
	Sandbox string
}

// Leftovers finds supervisor Pods of a sandbox, by its id, in all namespaces that this gateway's sandboxes can be in. They say
// where the sandbox was.
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
	for i := range list.Items {
		owner, err := sandboxapi.OwnerOf(list.Items[i].OwnerReferences)
		if err != nil {
			continue // of no Sandbox: not ours to judge
		}
		found = append(found, Leftover{Namespace: list.Items[i].Namespace, Sandbox: owner.Name})
	}
	return found, nil
}
