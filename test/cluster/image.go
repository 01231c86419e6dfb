package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/binary"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/image"
)

// Build builds a main package of this repository (pkg relative to the module directory, which is
// relative to the repository's root), statically, and returns the program's path.
func Build(t testing.TB, name, module, pkg string) string {
	t.Helper()
	root, err := binary.Root()
	if err != nil {
		t.Fatal(err)
	}
	cache, err := binary.NewCache(root, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	program, err := cache.Own(t.Context(), name, module, pkg)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// LoadProgram builds a main package as Build does, packs it into an image whose entry point is /NAME,
// and loads that into the node under the given reference. Node profile only.
func (c *Cluster) LoadProgram(t testing.TB, ref, name, module, pkg string) {
	t.Helper()
	if c.socket == "" {
		t.Fatalf("load image %s: only the node profile runs images", ref)
	}
	program := Build(t, name, module, pkg)
	archive := filepath.Join(t.TempDir(), name+".tar")
	spec := image.Spec{Ref: ref, Programs: map[string]string{"/" + name: program}, Entrypoint: []string{"/" + name}}
	if err := image.Write(archive, spec); err != nil {
		t.Fatal(err)
	}
	c.LoadArchive(t, archive)
}

// LoadArchive loads an archive of images, in Docker's form or OCI's, into the node, under the names that it gives them.
// Node profile only.
func (c *Cluster) LoadArchive(t testing.TB, path string) {
	t.Helper()
	if c.socket == "" {
		t.Fatalf("load image archive %s: only the node profile runs images", path)
	}
	if err := image.Load(t.Context(), c.socket, path); err != nil {
		t.Fatal(err)
	}
}
