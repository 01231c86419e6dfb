package mesh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// shippedNamespace and shippedGateway are what the shipped manifests say; an installation has its own.
const (
	shippedNamespace = "portcullis"
	shippedGateway   = "openshell"
)

// resources are those that rights are made of.
var resources = map[string]schema.GroupVersionResource{
	"ServiceAccount":     corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
	"Role":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"ClusterRole":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
}

// grant gives a daemon the rights of its shipped manifests, under the names of this mesh.
func (m *Mesh) grant(ctx context.Context, daemon string, files ...string) error {
	for _, file := range files {
		path := filepath.Join(m.options.Manifests, daemon, file)
		objects, err := readManifests(path)
		if err != nil {
			return err
		}
		for _, object := range objects {
			m.rename(object)
			if err := m.apply(ctx, object); err != nil {
				return fmt.Errorf("grant the rights of %s: %w", path, err)
			}
		}
	}
	return nil
}

func readManifests(path string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the rights of a daemon: %w", err)
	}
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		object := new(unstructured.Unstructured)
		switch err := decoder.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("read the rights in %s: %w", path, err)
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}

// rename gives an object the names of this mesh, so that several can share a cluster.
func (m *Mesh) rename(object *unstructured.Unstructured) {
	own := func(name string) string { return strings.Replace(name, shippedNamespace, m.Namespace(), 1) }
	if object.GetNamespace() != "" {
		object.SetNamespace(m.Namespace())
	} else {
		object.SetName(own(object.GetName()))
		object.SetLabels(m.options.Labels)
		if name, found, _ := unstructured.NestedString(object.Object, "roleRef", "name"); found {
			_ = unstructured.SetNestedField(object.Object, own(name), "roleRef", "name")
		}
	}
	subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
	for _, subject := range subjects {
		subject.(map[string]any)["namespace"] = m.Namespace()
	}
	if len(subjects) > 0 {
		_ = unstructured.SetNestedSlice(object.Object, subjects, "subjects")
	}
	rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
	for _, rule := range rules {
		names, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resourceNames")
		for i, name := range names {
			if rest, ok := strings.CutSuffix(name, "-"+shippedGateway); ok && strings.HasPrefix(rest, shippedNamespace+"-") {
				names[i] = rest + "-" + m.options.GatewayID
			}
		}
		if len(names) > 0 {
			_ = unstructured.SetNestedStringSlice(rule.(map[string]any), names, "resourceNames")
		}
	}
	if len(rules) > 0 {
		_ = unstructured.SetNestedSlice(object.Object, rules, "rules")
	}
}

func (m *Mesh) apply(ctx context.Context, object *unstructured.Unstructured) error {
	resource, ok := resources[object.GetKind()]
	if !ok {
		return fmt.Errorf("%s is no part of a daemon's rights", object.GetKind())
	}
	client := m.dynamic.Resource(resource).Namespace(object.GetNamespace())
	_, err := client.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = client.Delete(ctx, object.GetName(), metav1.DeleteOptions{})
		if err == nil || apierrors.IsNotFound(err) {
			_, err = client.Create(ctx, object, metav1.CreateOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("make %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	if object.GetNamespace() == "" {
		m.cleanups = append(m.cleanups, func(ctx context.Context) error {
			if err := client.Delete(ctx, object.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			return nil
		})
	}
	return nil
}
