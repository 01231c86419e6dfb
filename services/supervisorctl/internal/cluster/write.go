package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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

// CreateSecret makes a Secret and answers with its uid, the only thing that is kept of what the API server sends back. ErrExists when
// there is one of its name: it is another one, unless an earlier request for it ended with ErrUnsettled. The client sends the request
// once: one that it sends again without a word, after an answer of which nobody knows whether it was carried out, would find its own
// Secret in its way, and nobody may read whose that is.
func (c *Cluster) CreateSecret(ctx context.Context, wanted *corev1.Secret) (uid string, err error) {
	made, err := write(ctx, c, "create", secrets, wanted.Namespace, wanted.Name, func(ctx context.Context) (*corev1.Secret, error) {
		made := &corev1.Secret{}
		return made, c.client.Typed.CoreV1().RESTClient().Post().MaxRetries(0).
			Namespace(wanted.Namespace).Resource(secrets.Resource).Body(wanted).Do(ctx).Into(made)
	})
	if err != nil {
		return "", err
	}
	for _, content := range made.Data {
		clear(content)
	}
	return string(made.UID), nil
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

// DeleteSecret deletes the Secret with this name and uid. Without a uid nothing is sent: nobody may look whose Secret it is.
func (c *Cluster) DeleteSecret(ctx context.Context, namespace, name, uid string) error {
	if uid == "" {
		return fmt.Errorf("delete the Secret %s/%s: no uid was given, and one of that name may be anybody's", namespace, name)
	}
	return c.remove(ctx, secrets, namespace, name, func(ctx context.Context) error {
		return c.client.Typed.CoreV1().Secrets(namespace).Delete(ctx, name, onlyThe(uid))
	})
}

// CreateEvent makes an Event.
func (c *Cluster) CreateEvent(ctx context.Context, wanted *corev1.Event) (*corev1.Event, error) {
	return write(ctx, c, "create", events, wanted.Namespace, wanted.Name, func(ctx context.Context) (*corev1.Event, error) {
		return c.client.Typed.CoreV1().Events(wanted.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
	})
}

// CountEvent writes a strategic merge patch to an Event that happens again. ErrAbsent when it was forgotten meanwhile.
func (c *Cluster) CountEvent(ctx context.Context, namespace, name string, patch []byte) (*corev1.Event, error) {
	return write(ctx, c, "count", events, namespace, name, func(ctx context.Context) (*corev1.Event, error) {
		return c.client.Typed.CoreV1().Events(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	})
}

func onlyThe(uid string) metav1.DeleteOptions {
	id := types.UID(uid)
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &id}}
}

// Ungate lifts one scheduling gate, at the index in its list, of a Pod as it was read, and gives it annotations in the same write. ErrConflict
// when the Pod is another one or has been written to since: what was not looked at is not let go.
func (c *Cluster) Ungate(ctx context.Context, at *corev1.Pod, gate string, index int, annotations map[string]string) (*corev1.Pod, error) {
	namespace, name, path := at.Namespace, at.Name, fmt.Sprintf("/spec/schedulingGates/%d", index)
	all := map[string]string{}
	maps.Copy(all, at.Annotations)
	maps.Copy(all, annotations)
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": at.UID},
		{"op": "test", "path": "/metadata/resourceVersion", "value": at.ResourceVersion},
		{"op": "test", "path": path + "/name", "value": gate},
		{"op": "remove", "path": path},
		{"op": "add", "path": "/metadata/annotations", "value": all}, // replaces those of this very version
	})
	if err != nil {
		return nil, fmt.Errorf("write the patch that lifts a gate: %w", err)
	}
	return write(ctx, c, verbUngate, pods, namespace, name, func(ctx context.Context) (*corev1.Pod, error) {
		return c.client.Typed.CoreV1().Pods(namespace).Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{})
	})
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
