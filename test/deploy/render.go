package deploy

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Rendering is what a kustomization renders.
type Rendering struct {
	// Text is what `kubectl kustomize` prints.
	Text []byte
	// Objects are its objects, in their order.
	Objects []*unstructured.Unstructured
}

// Render renders the kustomization in dir, with the restrictions of a kustomize without flags: files come from below the directory of
// the kustomization that names them.
func Render(dir string) (*Rendering, error) {
	options := krusty.MakeDefaultOptions()
	// What the command line does where a kustomization asks for nothing else: namespaces and definitions first.
	options.Reorder = krusty.ReorderOptionUnspecified
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", dir, err)
	}
	r := &Rendering{}
	if r.Text, err = resources.AsYaml(); err != nil {
		return nil, fmt.Errorf("render %s: %w", dir, err)
	}
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("render %s of %s: %w", resource.CurId(), dir, err)
		}
		object := new(unstructured.Unstructured)
		// By way of JSON, so that numbers have the types that the API machinery expects.
		text, err = yaml.YAMLToJSON(text)
		if err == nil {
			err = object.UnmarshalJSON(text)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s of %s: %w", resource.CurId(), dir, err)
		}
		r.Objects = append(r.Objects, object)
	}
	return r, nil
}

// Kustomizations are the directories that are rendered, by name: every overlay of root, the repository, and every case of testdata.
func Kustomizations(root string) (map[string]string, error) {
	found := map[string]string{}
	for _, parent := range []string{filepath.Join(root, "deploy", "kustomize", "overlays"), filepath.Join(root, "test", "deploy", "testdata", "cases")} {
		entries, err := os.ReadDir(parent)
		if err != nil {
			return nil, fmt.Errorf("find the kustomizations: %w", err)
		}
		for _, entry := range entries {
			if _, twice := found[entry.Name()]; twice {
				return nil, fmt.Errorf("find the kustomizations: there are two of name %s", entry.Name())
			}
			found[entry.Name()] = filepath.Join(parent, entry.Name())
		}
	}
	return found, nil
}
