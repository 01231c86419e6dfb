package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// CreatePolicy makes a NetworkPolicy. ErrExists when there is one of its name.
func (c *Cluster) CreatePolicy(ctx context.Context, wanted *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error) {
	return write(ctx, c, "create", policies, wanted.Namespace, wanted.Name, func(ctx context.Context) (*networkingv1.NetworkPolicy, error) {
		return c.client.Typed.NetworkingV1().NetworkPolicies(wanted.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
	})
}

// CreateService makes a Service. ErrExists when there is one of its name.
func (c *Cluster) CreateService(ctx context.Context, wanted *corev1.Service) (*corev1.Service, error) {
	return write(ctx, c, "create", services, wanted.Namespace, wanted.Name, func(ctx context.Context) (*corev1.Service, error) {
		return c.client.Typed.CoreV1().Services(wanted.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
	})
}

// CreatePod makes a Pod. ErrExists when there is one of its name.
func (c *Cluster) CreatePod(ctx context.Context, wanted *corev1.Pod) (*corev1.Pod, error) {
	return write(ctx, c, "create", pods, wanted.Namespace, wanted.Name, func(ctx context.Context) (*corev1.Pod, error) {
		return c.client.Typed.CoreV1().Pods(wanted.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
	})
}

// CreateSecret makes a Secret. ErrExists when there is one of its name. What the API server sends back of it is dropped.
func (c *Cluster) CreateSecret(ctx context.Context, wanted *corev1.Secret) error {
	_, err := write(ctx, c, "create", secrets, wanted.Namespace, wanted.Name, func(ctx context.Context) (*struct{}, error) {
		_, err := c.client.Typed.CoreV1().Secrets(wanted.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
		return nil, err
	})
	return err
}

// DeletePod deletes the Pod with this uid; in the foreground, so that it is there until all that it owns is gone.
func (c *Cluster) DeletePod(ctx context.Context, namespace, name, uid string) error {
	foreground := metav1.DeletePropagationForeground
	return c.remove(ctx, pods, namespace, name, func(ctx context.Context) error {
		options := onlyThe(uid)
		options.PropagationPolicy = &foreground
		return c.client.Typed.CoreV1().Pods(namespace).Delete(ctx, name, options)
	})
}

// DeleteService deletes the Service with this uid.
func (c *Cluster) DeleteService(ctx context.Context, namespace, name, uid string) error {
	return c.remove(ctx, services, namespace, name, func(ctx context.Context) error {
		return c.client.Typed.CoreV1().Services(namespace).Delete(ctx, name, onlyThe(uid))
	})
}

// DeleteSecret deletes a Secret of ours by its name: without the right to read Secrets nobody knows its uid (contract 7.10 step 7).
func (c *Cluster) DeleteSecret(ctx context.Context, namespace, name string) error {
	return c.remove(ctx, secrets, namespace, name, func(ctx context.Context) error {
		return c.client.Typed.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	})
}

func onlyThe(uid string) metav1.DeleteOptions {
	id := types.UID(uid)
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &id}}
}

// Ungate lifts one scheduling gate of the Pod with this uid, which must stand at the index in its list. ErrConflict when the Pod is
// another one, or the gate is not there.
func (c *Cluster) Ungate(ctx context.Context, namespace, name, uid, gate string, index int) (*corev1.Pod, error) {
	at := fmt.Sprintf("/spec/schedulingGates/%d", index)
	patch, err := json.Marshal([]map[string]string{
		{"op": "test", "path": "/metadata/uid", "value": uid},
		{"op": "test", "path": at + "/name", "value": gate},
		{"op": "remove", "path": at},
	})
	if err != nil {
		return nil, fmt.Errorf("write the patch that lifts a gate: %w", err)
	}
	return write(ctx, c, verbUngate, pods, namespace, name, func(ctx context.Context) (*corev1.Pod, error) {
		return c.client.Typed.CoreV1().Pods(namespace).Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{})
	})
}

// Change is a write to a Sandbox. Annotations are those of a merge patch: nil takes one away.
type Change struct {
	Annotations map[string]any
	// Mode is zero when it stays.
	Mode sandboxapi.Mode
	// Volumes and PullSecrets replace those of the Pod's template when Volumes is not nil.
	Volumes     []corev1.Volume
	PullSecrets []corev1.LocalObjectReference
}

// ChangeSandbox writes a Change to the Sandbox as it was read. ErrConflict when it has been written to since.
func (c *Cluster) ChangeSandbox(ctx context.Context, at *sandboxapi.Object, change Change) (*sandboxapi.Object, error) {
	patch, err := change.patch(at)
	if err != nil {
		return nil, err
	}
	return write(ctx, c, "change", sandboxes, at.Namespace, at.Name, func(ctx context.Context) (*sandboxapi.Object, error) {
		changed, err := c.client.Dynamic.Resource(at.Version.GroupVersionResource()).Namespace(at.Namespace).
			Patch(ctx, at.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return nil, err
		}
		read, err := sandboxapi.ObjectFrom(changed)
		return &read, err
	})
}

func (c *Change) patch(at *sandboxapi.Object) ([]byte, error) {
	metadata := map[string]any{"resourceVersion": at.ResourceVersion, "uid": at.UID}
	if len(c.Annotations) > 0 {
		metadata["annotations"] = c.Annotations
	}
	patch := map[string]any{"metadata": metadata}
	spec := map[string]any{}
	if c.Mode != 0 {
		var err error
		if spec, err = c.Mode.Spec(at.Version); err != nil {
			return nil, fmt.Errorf("change the Sandbox %s/%s: %w", at.Namespace, at.Name, err)
		}
	}
	if c.Volumes != nil {
		spec["podTemplate"] = map[string]any{"spec": map[string]any{"volumes": c.Volumes, "imagePullSecrets": c.PullSecrets}}
	}
	if len(spec) > 0 {
		patch["spec"] = spec
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("write the change of the Sandbox %s/%s: %w", at.Namespace, at.Name, err)
	}
	return text, nil
}

// write bounds one request and says what it was for when it fails.
func write[T any](ctx context.Context, c *Cluster, verb string, of schema.GroupResource, namespace, name string, send func(context.Context) (*T, error)) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	result, err := send(ctx)
	if err != nil {
		return nil, writeFailure(err, verb, of, namespace, name)
	}
	return result, nil
}

func (c *Cluster) remove(ctx context.Context, of schema.GroupResource, namespace, name string, send func(context.Context) error) error {
	_, err := write(ctx, c, "delete", of, namespace, name, func(ctx context.Context) (*struct{}, error) { return nil, send(ctx) })
	if gone(err) {
		return nil
	}
	return err
}
