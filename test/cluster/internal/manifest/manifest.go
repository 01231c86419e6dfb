// Package manifest applies YAML manifests to a test cluster by server-side apply, strictly: a field that the API server
// does not know is an error, not a warning.
//
// Callers: package cluster, for tests, and package dns.
package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
)

// Applier applies manifests. It is safe for concurrent use.
type Applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// NewApplier returns an Applier for the cluster that both clients belong to.
func NewApplier(client dynamic.Interface, typed kubernetes.Interface) *Applier {
	return &Applier{client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(typed.Discovery()))}
}

// Apply applies the YAML documents in order. Namespaced objects without a namespace go to the given one. The error names
// the object.
func (a *Applier) Apply(ctx context.Context, namespace string, manifests []byte) error {
	objects, err := decode(manifests)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		if err := a.apply(ctx, namespace, obj); err != nil {
			return fmt.Errorf("apply %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return nil
}

// Delete asks for the objects' deletion, the last first, and does not wait for it. One that is not there is no error.
func (a *Applier) Delete(ctx context.Context, namespace string, manifests []byte) error {
	objects, err := decode(manifests)
	if err != nil {
		return err
	}
	var problems []error
	for _, obj := range slices.Backward(objects) {
		client, err := a.resource(namespace, obj)
		if err == nil {
			err = client.Delete(ctx, obj.GetName(), metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			problems = append(problems, fmt.Errorf("delete %s %s: %w", obj.GetKind(), obj.GetName(), err))
		}
	}
	return errors.Join(problems...)
}

func decode(manifests []byte) (objects []*unstructured.Unstructured, err error) {
	reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := reader.Decode(obj)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("decode manifest: %w", err)
		}
		if len(obj.Object) > 0 {
			objects = append(objects, obj)
		}
	}
}

func (a *Applier) apply(ctx context.Context, namespace string, obj *unstructured.Unstructured) error {
	client, err := a.resource(namespace, obj)
	if err != nil {
		return err
	}
	body, err := obj.MarshalJSON()
	if err != nil {
		return err
	}
	force := true
	_, err = client.Patch(ctx, obj.GetName(), "application/apply-patch+yaml", body, metav1.PatchOptions{
		FieldManager: "portcullis-test", Force: &force, FieldValidation: metav1.FieldValidationStrict,
	})
	return err
}

// resource is where the object belongs; one that belongs into a namespace and names none gets the given one.
func (a *Applier) resource(namespace string, obj *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := obj.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) { // a CRD may be younger than the cached discovery
		a.mapper.Reset()
		mapping, err = a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return a.client.Resource(mapping.Resource), nil
	}
	if obj.GetNamespace() == "" {
		obj.SetNamespace(namespace)
	}
	return a.client.Resource(mapping.Resource).Namespace(obj.GetNamespace()), nil
}
