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

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
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
// as far as now agrees with it. It asks for a consistent list: an older one may show a mark that is off by now.
func (c *Cluster) Abandoned(ctx context.Context, age time.Duration) ([]Made, error) {
	marked, err := labels.NewRequirement(workspace.LabelCreate, selection.Equals, []string{workspace.CreatePending})
	if err != nil {
		return nil, fmt.Errorf("select abandoned creates: %w", err)
	}
	selector := c.ours.Add(*marked)
	for _, version := range c.versions() {
		list, err := c.client.Metadata.Resource(version.GroupVersionResource()).Namespace(c.namespace).
			List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
		if apierrors.IsNotFound(err) && unserved(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list Sandboxes whose create was not answered: %w", err)
		}
		var found []Made
		for i := range list.Items {
			item := &list.Items[i]
			if item.Labels[workspace.LabelCreate] != workspace.CreatePending || snapshot.Placed(item.Namespace, item.Labels, item.Annotations, c.scheme) != nil {
				continue // a copy of one somewhere else is not ours
			}
			if item.DeletionTimestamp == nil && c.now().Sub(item.CreationTimestamp.Time) > age {
				found = append(found, Made{Namespace: item.Namespace, Name: item.Name, UID: item.UID, Version: version, ResourceVersion: item.ResourceVersion})
			}
		}
		return found, nil
	}
	return nil, ErrNotServed
}

// Reap deletes what Abandoned found, if it is still as it was found, the mark with it (contract 7.13). Nil says that it is gone or going;
// ErrChanged that it has to be looked at anew.
func (c *Cluster) Reap(ctx context.Context, found Made) error {
	if found.UID == "" || found.ResourceVersion == "" {
		return fmt.Errorf("delete Sandbox %s/%s: its uid or its resource version is not known, and without them it may be another", found.Namespace, found.Name)
	}
	err := c.client.Dynamic.Resource(found.Version.GroupVersionResource()).Namespace(found.Namespace).
		Delete(ctx, found.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion}})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return fmt.Errorf("delete Sandbox %s/%s: %w: %w", found.Namespace, found.Name, ErrChanged, err)
	default:
		return fmt.Errorf("delete Sandbox %s/%s: %w", found.Namespace, found.Name, err)
	}
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
