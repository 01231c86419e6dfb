package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/handbook"
	"github.com/portcullis-mesh/portcullis/test/deploy"
	"github.com/portcullis-mesh/portcullis/test/manual/commands"
)

// ownSettings are an overlay's with the lines that docs/install.md asks for; that the network plug-in enforces policies is left unsaid, as in
// all that the rules are for.
func ownSettings(t *testing.T, overlay string) string {
	t.Helper()
	settings := handbook.Read(t, filepath.Join(root, "deploy", "kustomize", "overlays", overlay, "gateway.toml")) + "# mine\n"
	for _, block := range blocks(t, "toml gateway.toml") {
		table := "[openshell.drivers.kubernetes]\n"
		for line := range strings.Lines(block) {
			key, _, found := strings.Cut(line, " = ")
			there := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(key) + ` = .*\n`)
			switch {
			case !found:
				table = line
			case key == "sandbox_runtime":
			case there.MatchString(settings):
				settings = there.ReplaceAllLiteralString(settings, line)
			default:
				settings = strings.Replace(settings, table, table+line, 1)
			}
		}
	}
	return settings
}

// blocks are the texts of docs/install.md behind whose fence these words are.
func blocks(t *testing.T, words string) (texts []string) {
	t.Helper()
	all, err := commands.Read(filepath.Join(root, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		if b.Is(words) {
			texts = append(texts, b.Text)
		}
	}
	if len(texts) == 0 {
		t.Fatalf("docs/install.md has no block %q", words)
	}
	return texts
}

// gatewaySecret is the one of the gateway's certificate, which the reader makes.
const gatewaySecret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: openshell-tls, namespace: portcullis}\n"

// documented is the overlay that docs/install.md installs.
const documented = "operator-label"

// sourceLine is the component that other modes leave out.
const sourceLine = "  - ../portcullis/deploy/kustomize/components/gateway-sidecar/source\n"

// asInstalled renders the kustomization that docs/install.md has, next to a checkout, of an overlay with its settings, with further components and
// with lines changed: pairs of what is there and what is there instead.
func asInstalled(t *testing.T, overlay string, components []string, changes ...string) (*deploy.Rendering, error) {
	t.Helper()
	text := blocks(t, "yaml")[0]
	const first, last = "  - ../portcullis/deploy/kustomize/components/", "gateway-sidecar/source\n"
	for _, component := range components {
		changes = append(changes, first+last, first+last+first+component+"\n")
	}
	if overlay != documented {
		changes = append(changes, "overlays/"+documented+"\n", "overlays/"+overlay+"\n")
	}
	// What lets users in is a policy in gateway.yaml: it has no egress, and more policies than ours are there.
	settings, gateway := ownSettings(t, overlay), blocks(t, "yaml gateway.yaml")[0]+gatewaySecret+"---\n"+blocks(t, "yaml users.yaml")[0]
	for i := 0; i < len(changes); i += 2 {
		found := 0
		for _, file := range []*string{&text, &settings, &gateway} {
			found += strings.Count(*file, changes[i])
			*file = strings.Replace(*file, changes[i], changes[i+1], 1)
		}
		if found != 1 {
			t.Fatalf("the kustomization, the settings and the gateway have %q %d times", changes[i], found)
		}
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
	for name, text := range map[string]string{
		"kustomization.yaml": text, "gateway.toml": settings, "gateway.yaml": gateway, "user.yaml": blocks(t, "yaml user.yaml")[0],
		"api-server.yaml": blocks(t, "yaml api-server.yaml")[0],
	} {
		if err := os.WriteFile(filepath.Join(mine, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return deploy.Render(mine)
}

// TestInstall: what whoever follows docs/install.md installs keeps all rules, and takes the settings and images that are named there.
func TestInstall(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{
		"as it is": nil, "with alerts": {"prometheus"}, "for OpenShift": {"openshift"}, "for few": {"allow-label-guard", "rights-per-workspace"},
		"from a registry with a password": {"pull-secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rendering, err := asInstalled(t, documented, more)
			if err != nil {
				t.Fatal(err)
			}
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
					if program == "openshell-gateway" {
						continue // the reader's own
					}
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

// TestInstallInAnotherMode: with the overlay of another mode, and without what docs/install.md has such a reader leave out, the same kustomization
// keeps all rules; with it kustomize refuses, which is why the document says so.
func TestInstallInAnotherMode(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"managed", "shared"} {
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			if _, err := asInstalled(t, overlay, nil); err == nil || !strings.Contains(err.Error(), "already registered id") {
				t.Errorf("with the component source kustomize says %v", err)
			}
			rendering, err := asInstalled(t, overlay, nil, sourceLine, "")
			if err != nil {
				t.Fatal(err)
			}
			w := survey(t, rendering.Objects)
			for title, rule := range rules {
				for _, breach := range rule(w) {
					t.Errorf("%s: %s", title, breach)
				}
			}
		})
	}
}

// TestInstallOfOwnNames: the gateway may be called otherwise. The mesh's namespace may not, nor what is in it, since texts name them: whoever
// does it would have daemons that no policy bounds. The rules notice that, or kustomize does, as it would make one of the two namespaces.
func TestInstallOfOwnNames(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		changes    []string
		rule, want string
		fails      string // of kustomize
	}{
		"gateway":   {changes: []string{`gateway_id = "openshell"`, `gateway_id = "acme"`}},
		"namespace": {changes: []string{"kind: Kustomization\n", "kind: Kustomization\nnamespace: mesh\n"}, fails: "ID conflict"},
		"namespace, without the source of supervisors": {
			changes: []string{"kind: Kustomization\n", "kind: Kustomization\nnamespace: mesh\n", sourceLine, ""},
			rule:    "writes are guarded", want: "does not mean ServiceAccount supervisorctl of namespace mesh",
		},
		"prefix": {
			changes: []string{"kind: Kustomization\n", "kind: Kustomization\nnamePrefix: my-\n"},
			rule:    "settings are read as one", want: `calls "nats.portcullis.svc:4222"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rendering, err := asInstalled(t, documented, nil, test.changes...)
			if test.fails != "" || err != nil {
				if err == nil || test.fails == "" || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("kustomize says %v", err)
				}
				return
			}
			w := survey(t, rendering.Objects)
			for title, rule := range rules {
				found := strings.Join(rule(w), "\n")
				if test.rule == "" && found != "" || title == test.rule && !strings.Contains(found, test.want) {
					t.Errorf("%s: %q", title, found)
				}
			}
		})
	}
}
