package deploy_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// daemons are the programs of the mesh, each of which has an image of its name.
var daemons = []string{"nswatch", "tokenauth", "supervisorctl", "lifecycle"}

// imageOf is the image that a container runs: its whole name, the last part of that, which is its program's, and its tag or digest.
func imageOf(c corev1.Container) (name, program, tag string) {
	name = c.Image
	if before, digest, ok := strings.Cut(name, "@"); ok {
		name, tag = before, digest
	}
	// A colon before a slash is a registry's port.
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		if tag == "" {
			tag = name[colon+1:]
		}
		name = name[:colon]
	}
	return name, path.Base(name), tag
}

// imagesAgree: what is installed is one release: its programs speak to one another, and are tested with one another.
func imagesAgree(w *deploy.World) (found breaches) {
	where := map[string][]string{}
	for _, p := range w.Pods {
		for _, c := range containers(p) {
			if _, program, tag := imageOf(c); slices.Contains(daemons, program) && !strings.HasPrefix(tag, "sha256:") {
				where[tag] = append(where[tag], p.Workload)
			}
		}
	}
	if len(where) > 1 {
		found.add("the Pods run several releases: %v", where)
	}
	return found
}

// TestImagesAreNobodys: a manifest names an image that cannot be pulled from anywhere (no registry has a name below example, RFC 2606), so
// that whoever forgets to name his own runs no stranger's.
func TestImagesAreNobodys(t *testing.T) {
	t.Parallel()
	seen := 0
	for name, rendering := range rendered(t) {
		for _, p := range survey(t, rendering.Objects).Pods {
			for _, c := range containers(p) {
				seen++
				if image, program, _ := imageOf(c); image != "registry.example/portcullis/"+program && image != "registry.example/openshell-gateway" {
					t.Errorf("container %s of %s in %s runs %s, which somebody may own", c.Name, p.Workload, name, image)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("nothing is installed")
	}
}
