package deploy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/handbook"
	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// asInstalled renders the kustomization that docs/install.md has, next to a checkout, with further components and with lines changed: pairs
// of what is there and what is there instead.
func asInstalled(t *testing.T, components []string, changes ...string) *deploy.Rendering {
	t.Helper()
	_, rest, _ := strings.Cut(handbook.Read(t, filepath.Join(root, "docs", "install.md")), "```yaml\n")
	block, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the document has no kustomization")
	}
	text := strings.TrimPrefix(strings.ReplaceAll(block, "\n   ", "\n"), "   ")
	const first = "  - ../portcullis/deploy/kustomize/components/"
	for _, component := range components {
		changes = append(changes, first+"certs-job\n", first+"certs-job\n"+first+component+"\n")
	}
	settings := handbook.Read(t, filepath.Join(root, "deploy", "kustomize", "overlays", "operator-label", "gateway.toml")) + "# mine\n"
	for i := 0; i < len(changes); i += 2 {
		if strings.Count(text, changes[i])+strings.Count(settings, changes[i]) != 1 {
			t.Fatalf("neither the document nor the settings have %q once", changes[i])
		}
		text, settings = strings.Replace(text, changes[i], changes[i+1], 1), strings.Replace(settings, changes[i], changes[i+1], 1)
	}
	directory, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(repository, filepath.Join(directory, "portcullis")); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(directory, "mine")
	if err := os.Mkdir(mine, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"kustomization.yaml": text, "gateway.toml": settings} {
		if err := os.WriteFile(filepath.Join(mine, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rendering, err := deploy.Render(mine)
	if err != nil {
		t.Fatal(err)
	}
	return rendering
}

// TestInstall: what whoever follows docs/install.md installs keeps all rules, and takes the settings and images that are named there.
func TestInstall(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{"as it is": nil, "with alerts": {"prometheus"}, "for OpenShift": {"openshift"}, "for few": {"allow-label-guard", "rights-per-workspace"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rendering := asInstalled(t, more)
			w := survey(t, rendering.Objects)
			for title, rule := range rules {
				for _, breach := range rule(w) {
					t.Errorf("%s: %s", title, breach)
				}
			}
			if !strings.Contains(string(rendering.Text), "# mine") {
				t.Error("the settings are not those of the kustomization")
			}
			var run []string
			for _, p := range w.Pods {
				for _, c := range containers(p) {
					image, program, _ := imageOf(c)
					run = append(run, program)
					if image != "registry.example/you/"+program && image != "docker.io/library/nats" {
						t.Errorf("container %s of %s runs %s, and not the image that is named", c.Name, p.Workload, image)
					}
				}
			}
			for _, program := range append(slices.Clone(daemons), "nats") {
				if !slices.Contains(run, program) {
					t.Errorf("nothing runs %s", program)
				}
			}
		})
	}
}

// TestInstallOfOwnNames: the gateway may be called otherwise. The mesh's namespace may not, nor what is in it, since texts name them: whoever
// does it would have daemons that no policy bounds, which the rules notice.
func TestInstallOfOwnNames(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ from, to, rule, want string }{
		"gateway":   {from: `gateway_id = "openshell"`, to: `gateway_id = "acme"`},
		"namespace": {"kind: Kustomization\n", "kind: Kustomization\nnamespace: mesh\n", "writes are guarded", "does not mean ServiceAccount supervisorctl of namespace mesh"},
		"prefix":    {"kind: Kustomization\n", "kind: Kustomization\nnamePrefix: my-\n", "settings are read as one", `calls "nats.portcullis.svc:4222"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := survey(t, asInstalled(t, nil, test.from, test.to).Objects)
			for title, rule := range rules {
				found := strings.Join(rule(w), "\n")
				if test.rule == "" && found != "" || title == test.rule && !strings.Contains(found, test.want) {
					t.Errorf("%s: %q", title, found)
				}
			}
		})
	}
}
