package rights_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// kinds are those that rights are made of.
var kinds = map[string]schema.GroupVersionResource{
	"ServiceAccount":     {Version: "v1", Resource: "serviceaccounts"},
	"Role":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"ClusterRole":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
}

// object is one of what kustomize renders.
type object struct {
	kind, namespace, name string
	text                  []byte
}

// render are the rights that a directory of deploy/kustomize renders, in a namespace of its own when one is given, with a component when
// one is.
func render(t *testing.T, directory, namespace, component string) []object {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "deploy", "kustomize", directory))
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case namespace != "":
		path = around(t, "namespace: "+namespace, "components", path)
	case component != "":
		parent := filepath.Join(filepath.Dir(filepath.Dir(path)), "components", component)
		path = around(t, "", "resources", path, "components", parent)
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), path)
	if err != nil {
		t.Fatal(err)
	}
	var all []object
	for _, r := range rendered.Resources() {
		if _, of := kinds[r.GetKind()]; !of {
			continue
		}
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, object{r.GetKind(), r.GetNamespace(), r.GetName(), text})
	}
	if len(all) == 0 {
		t.Fatalf("%s renders no rights", directory)
	}
	return all
}

// around is a kustomization as people write it around ours: a line, then pairs of a list and the directory in it.
func around(t *testing.T, line string, lists ...string) string {
	t.Helper()
	directory, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n" + line + "\n"
	for i := 0; i < len(lists); i += 2 {
		path, err := filepath.Rel(directory, lists[i+1])
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%s:\n  - %s\n", lists[i], path)
	}
	if err := os.WriteFile(filepath.Join(directory, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return directory
}

// install applies the rights of an overlay, and takes them away when the test ends. It returns whose ServiceAccounts are in the mesh's
// namespace.
func install(t *testing.T, c *cluster.Cluster, where map[string]string, o overlay) (accounts []string) {
	t.Helper()
	all := render(t, o.directory, "", o.with)
	if o.workspace != "" {
		all = append(all, render(t, "components/"+o.workspace, where[sandboxes], "")...)
	}
	namespaces := []string{where[meshs], where[sandboxes]}
	for _, object := range all {
		if object.namespace != "" && !slices.Contains(namespaces, object.namespace) {
			t.Fatalf("%s %s is in namespace %s, of which this test does not know", object.kind, object.name, object.namespace)
		}
	}
	for _, namespace := range namespaces {
		c.Apply(t, "", fmt.Appendf(nil, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", namespace))
		cluster.Eventually(t, "ServiceAccount default of "+namespace, func(ctx context.Context) error {
			_, err := c.Client().CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
			return err
		})
	}
	for _, object := range all {
		c.Apply(t, "", object.text)
		t.Cleanup(func() { remove(t, c, object) })
		if object.kind == "ServiceAccount" && object.namespace == where[meshs] {
			accounts = append(accounts, object.name)
		}
	}
	slices.Sort(accounts)
	return accounts
}

func remove(t *testing.T, c *cluster.Cluster, o object) {
	t.Helper()
	err := c.Dynamic().Resource(kinds[o.kind]).Namespace(o.namespace).Delete(context.WithoutCancel(t.Context()), o.name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("delete %s %s: %v", o.kind, o.name, err)
	}
}
