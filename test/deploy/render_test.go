package deploy_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

var update = flag.Bool("update", false, "rewrite testdata/golden")

var root = filepath.Join("..", "..")

// renderings are all kustomizations, rendered once for all tests.
var renderings = sync.OnceValues(func() (map[string]*deploy.Rendering, error) {
	directories, err := deploy.Kustomizations(root)
	if err != nil {
		return nil, err
	}
	all := map[string]*deploy.Rendering{}
	for name, directory := range directories {
		if all[name], err = deploy.Render(directory); err != nil {
			return nil, err
		}
	}
	return all, nil
})

func rendered(t *testing.T) map[string]*deploy.Rendering {
	t.Helper()
	all, err := renderings()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestGolden(t *testing.T) {
	t.Parallel()
	all := rendered(t)
	for name, rendering := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("testdata", "golden", name+".yaml")
			if *update {
				if err := os.WriteFile(path, rendering.Text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%v; write it with go test ./test/deploy -update", err)
			}
			if diff := cmp.Diff(string(want), string(rendering.Text)); diff != "" {
				t.Errorf("what %s installs has changed (- golden, + now); if that is meant, go test ./test/deploy -update:\n%s", name, diff)
			}
		})
	}
}

// TestNoStrayGolden: every golden file is of a kustomization that there is.
func TestNoStrayGolden(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir(filepath.Join("testdata", "golden"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(file.Name(), ".yaml"); rendered(t)[name] == nil {
			t.Errorf("testdata/golden/%s is of nothing that is rendered: remove it", file.Name())
		}
	}
}

// TestEveryComponentIsUsed: a component that no kustomization here uses is not tested.
func TestEveryComponentIsUsed(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	directories, err := deploy.Kustomizations(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, directory := range directories {
		text, err := os.ReadFile(filepath.Join(directory, "kustomization.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if _, component, found := strings.Cut(strings.TrimSpace(line), "components/"); found {
				used[component] = true
			}
		}
	}
	var unused []string
	components := filepath.Join(root, "deploy", "kustomize", "components")
	err = filepath.WalkDir(components, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.Name() != "kustomization.yaml" {
			return err
		}
		name, err := filepath.Rel(components, filepath.Dir(path))
		if !used[name] {
			unused = append(unused, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(unused)
	if len(unused) > 0 {
		t.Errorf("no kustomization that is rendered here uses the components %v", unused)
	}
}

// Several releases of kustomize that are in use, such as 5.5 in kubectl 1.32, fail at a patch file that deletes two objects.
func TestDeletionsAreApart(t *testing.T) {
	t.Parallel()
	seen := 0
	err := filepath.WalkDir(filepath.Join("..", "..", "deploy", "kustomize"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen++
		if strings.Count("\n"+string(text), "\n$patch: delete") > 1 {
			t.Errorf("%s deletes several objects: give each a patch of its own", path)
		}
		return nil
	})
	if err != nil || seen < 20 {
		t.Fatalf("%d files were read: %v", seen, err)
	}
}
