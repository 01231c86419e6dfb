package manual_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/shared/handbook"
	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// TestInstall: the kustomization that docs/install.md has renders, next to a checkout, and takes the settings and images that it names.
func TestInstall(t *testing.T) {
	_, rest, _ := strings.Cut(handbook.Read(t, "../../docs/install.md"), "```yaml\n")
	block, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the document has no kustomization")
	}
	directory, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"portcullis": repository, "mine": ""} {
		if target == "" {
			err = os.Mkdir(filepath.Join(directory, name), 0o700)
		} else {
			err = os.Symlink(target, filepath.Join(directory, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	settings := handbook.Read(t, "../../deploy/kustomize/overlays/operator-label/gateway.toml") + "# mine\n"
	for name, text := range map[string]string{"kustomization.yaml": strings.ReplaceAll(block, "\n   ", "\n"), "gateway.toml": settings} {
		if err := os.WriteFile(filepath.Join(directory, "mine", name), []byte(strings.TrimPrefix(text, "   ")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rendering, err := deploy.Render(filepath.Join(directory, "mine"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(rendering.Text)
	if !strings.Contains(text, "# mine") {
		t.Error("the settings are not those of the kustomization")
	}
	for _, daemon := range []string{"lifecycle", "nswatch", "supervisorctl", "tokenauth"} {
		if !slices.ContainsFunc(rendering.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" && o.GetName() == daemon }) {
			t.Errorf("it has no Deployment %s", daemon)
		}
		if !strings.Contains(text, "image: registry.example/you/"+daemon+":") {
			t.Errorf("the image of %s is not the one that is named", daemon)
		}
	}
}
