package rights

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// shippedNamespace, shippedGateway and shippedSandboxes are what the manifests say of where the mesh is, which gateway it is of, and where
// the sandboxes of shared mode are; an installation has its own.
const (
	shippedNamespace = "portcullis"
	shippedGateway   = "openshell"
	shippedSandboxes = "openshell"
)

// resources are those that rights are made of.
var resources = map[string]schema.GroupVersionResource{
	"ServiceAccount":     {Version: "v1", Resource: "serviceaccounts"},
	"Role":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"ClusterRole":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
}

// ResourceOf is the resource of an object that rights are made of; of any other it is an error.
func ResourceOf(object *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	resource, ok := resources[object.GetKind()]
	if !ok {
		return resource, fmt.Errorf("%s %s is no part of a daemon's rights", object.GetKind(), object.GetName())
	}
	return resource, nil
}

// Shipped are the objects that make up the rights of a daemon in a mode, its ServiceAccount included, as deploy/kustomize has them. The
// directory manifests is deploy/kustomize/base. The one right that is about a namespace of the operator's, to read Secrets there, is not among
// them: Sources has it.
func Shipped(manifests, mode, daemon string) ([]*unstructured.Unstructured, error) {
	if mode == "shared" {
		return ofOverlay(filepath.Join(manifests, "..", "overlays", mode), daemon)
	}
	files := []string{"rbac.yaml"}
	if daemon == "lifecycle" && mode == "managed" {
		files = append(files, "managed/managed.yaml")
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		objects, err := readManifests(filepath.Join(manifests, daemon, file))
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// PerWorkspace are the objects of Shipped, in operator mode, with what the component rights-per-workspace leaves of them.
func PerWorkspace(manifests, daemon string) ([]*unstructured.Unstructured, error) {
	all, err := Shipped(manifests, "operator", daemon)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(manifests, "..", "components", "rights-per-workspace", daemon+".yaml")
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) { // it writes nothing in workspaces
		return all, nil
	}
	left, err := readManifests(path)
	if err != nil {
		return nil, err
	}
	patched := 0
	for _, patch := range left {
		for _, object := range all {
			if object.GetKind() == patch.GetKind() && object.GetName() == patch.GetName() {
				object.Object["rules"] = patch.Object["rules"]
				patched++
			}
		}
	}
	if patched != len(left) {
		return nil, fmt.Errorf("%s is about %d roles, of which %s has %d", path, len(left), daemon, patched)
	}
	return all, nil
}

// Workspace are the rights that the component workspace grants to an installation in a namespace of sandboxes.
func Workspace(manifests, namespace string, as Names) ([]*unstructured.Unstructured, error) {
	all, err := readManifests(filepath.Join(manifests, "..", "components", "workspace", "rights.yaml"))
	if err != nil {
		return nil, err
	}
	for _, object := range all {
		object.SetNamespace(namespace)
		as.own(object)
	}
	return all, nil
}

// Sources are the rights of supervisorctl to read the Secrets that settings name, in the namespace where they are: what is shipped for a mode,
// with the names that an operator writes there instead. There are none in shared mode.
func Sources(manifests, mode, namespace string, secrets []string, as Names) ([]*unstructured.Unstructured, error) {
	path, known := map[string]string{
		"managed": filepath.Join("overlays", "managed", "source.yaml"), "operator": filepath.Join("components", "gateway-sidecar", "source", "source.yaml"),
	}[mode]
	if !known {
		return nil, fmt.Errorf("read the rights to source Secrets: none are shipped for mode %q", mode)
	}
	objects, err := readManifests(filepath.Join(manifests, "..", path))
	if err != nil {
		return nil, err
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Namespace" })
	for _, object := range objects {
		object.SetNamespace(namespace)
		as.own(object)
		rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
		for _, rule := range rules {
			if err := unstructured.SetNestedStringSlice(rule.(map[string]any), secrets, "resourceNames"); err != nil {
				return nil, fmt.Errorf("name the source Secrets in %s of %s: %w", object.GetName(), path, err)
			}
		}
		if len(rules) > 0 {
			object.Object["rules"] = rules
		}
	}
	return objects, nil
}

// overlays are the renderings of overlays by their directories, each made once.
var overlays struct {
	sync.Mutex
	rendered map[string]*deploy.Rendering
}

// rendered is a rendering that is not to be changed.
func rendered(directory string) (*deploy.Rendering, error) {
	overlays.Lock()
	defer overlays.Unlock()
	if rendering := overlays.rendered[directory]; rendering != nil {
		return rendering, nil
	}
	rendering, err := deploy.Render(directory)
	if err != nil {
		return nil, err
	}
	if overlays.rendered == nil {
		overlays.rendered = map[string]*deploy.Rendering{}
	}
	overlays.rendered[directory] = rendering
	return rendering, nil
}

// ofOverlay are the rights of a daemon that an overlay renders: what is called after it.
func ofOverlay(directory, daemon string) ([]*unstructured.Unstructured, error) {
	rendering, err := rendered(directory)
	if err != nil {
		return nil, fmt.Errorf("read the rights of %s: %w", daemon, err)
	}
	var all []*unstructured.Unstructured
	for _, object := range rendering.Objects {
		name := strings.TrimPrefix(object.GetName(), shippedNamespace+"-")
		group := object.GroupVersionKind().Group
		if (group == "rbac.authorization.k8s.io" || object.GetKind() == "ServiceAccount") && (name == daemon || strings.HasPrefix(name, daemon+"-")) {
			all = append(all, object.DeepCopy())
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("read the rights of %s: %s grants it none", daemon, directory)
	}
	return all, nil
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

// Names are what an installation calls what the manifests call otherwise, so that several can share a cluster. All are required.
type Names struct {
	// Namespace is the mesh's, Sandboxes that of shared mode.
	Namespace, Sandboxes string
	// GatewayID is in the names of Leases.
	GatewayID string
}

// Rename gives an object of Shipped the names of an installation.
func (n Names) Rename(object *unstructured.Unstructured) {
	own := func(name string) string { return strings.Replace(name, shippedNamespace, n.Namespace, 1) }
	switch object.GetNamespace() {
	case "":
		object.SetName(own(object.GetName()))
	case shippedSandboxes:
		object.SetName(own(object.GetName()))
		object.SetNamespace(n.Sandboxes)
	default:
		object.SetNamespace(n.Namespace)
	}
	if kind, _, _ := unstructured.NestedString(object.Object, "roleRef", "kind"); kind == "ClusterRole" {
		name, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
		_ = unstructured.SetNestedField(object.Object, own(name), "roleRef", "name")
	}
	n.own(object)
	rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
	for _, rule := range rules {
		names, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resourceNames")
		for i, name := range names {
			if rest, ok := strings.CutSuffix(name, "-"+shippedGateway); ok && strings.HasPrefix(rest, shippedNamespace+"-") {
				names[i] = rest + "-" + n.GatewayID
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

// own has an object bind the ServiceAccounts of the installation.
func (n Names) own(object *unstructured.Unstructured) {
	subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
	for _, subject := range subjects {
		subject.(map[string]any)["namespace"] = n.Namespace
	}
	if len(subjects) > 0 {
		_ = unstructured.SetNestedSlice(object.Object, subjects, "subjects")
	}
}
