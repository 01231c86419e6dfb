//go:build portcullis_long

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/deploy"
	"github.com/portcullis-mesh/portcullis/test/images"
	"github.com/portcullis-mesh/portcullis/test/manual/commands"
)

// typingLimit ends a command that would hang; some of them wait for five minutes themselves.
const typingLimit = 6 * time.Minute

// reader sits before a node with the documents, in a directory beside a checkout, as docs/install.md has it.
type reader struct {
	c     *cluster.Cluster
	shell commands.Shell
	typed map[string]int
}

// What the documents speak of and do not make: a sandbox of the team, by a stand-in that nobody starts, and a Pod that ends again and again.
const teamObjects = `
apiVersion: agents.x-k8s.io/v1beta1
kind: Sandbox
metadata:
  name: box
  labels: {openshell.ai/sandbox-id: b0c4a1de-0000-4000-8000-000000000001, openshell.ai/sandbox-name: box, openshell.ai/sandbox-workspace: team-a}
spec:
  operatingMode: Suspended
  podTemplate: {spec: {containers: [{name: agent, image: "registry.example/none:1"}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: crashed}
spec:
  automountServiceAccountToken: false
  containers: [{name: agent, image: "%s", args: [no such command]}]
`

// shows are what blocks must show besides that they succeed: by the document and a part of the block, a part of what is printed. Such a block is
// typed again until it does.
var shows = []struct{ document, block, said string }{
	{"install.md", "wait --for=condition=Available", "deployment.apps/lifecycle condition met"},
	{"operator-mode.md", "allowlist show", "team-b"},
	{"operator-mode.md", "get portcullis_allowlist openshell.snapshot", `"team-b"`},
	{"operator-mode.md", "get namespace team-b", "Active"},
	{"runbook.md", "allowlist show", "team-a"},
	{"runbook.md", "--previous", "no such command"},
	{"supervisorctl.md", "auth can-i get secrets/registry-a", "yes"},
	{"upgrade.md", "rollout undo", "rolled back"},
}

// TestOperatorLabelOverlayAsDocumented types docs/install.md on a cluster with nothing of ours, then all that the other documents say of one on
// which it is installed, as it stands there. Others are the images' names alone.
func TestOperatorLabelOverlayAsDocumented(t *testing.T) {
	t.Parallel()
	installing.Lock()
	t.Cleanup(installing.Unlock)
	r := newReader(t)
	r.read(t, "docs/install.md")
	r.read(t, "docs/operator-mode.md")
	c := r.c
	c.Apply(t, "team-a", fmt.Appendf(nil, teamObjects, loadShipped(t, c)["nswatch"]))
	cluster.Eventually(t, "a Pod has ended once", func(ctx context.Context) error {
		pod, err := c.Client().CoreV1().Pods("team-a").Get(ctx, "crashed", metav1.GetOptions{})
		if err == nil && (len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].RestartCount == 0) {
			err = fmt.Errorf("%+v", pod.Status)
		}
		return err
	})
	for _, document := range []string{"docs/lifecycle.md", "docs/runbook.md", "docs/supervisorctl.md", "README.md", "docs/certificates.md"} {
		r.read(t, document)
	}
	// Another release is another rendering; here it is settings with a line more.
	settings, err := os.ReadFile(filepath.Join(r.shell.Dir, "gateway.toml"))
	noError(t, err)
	r.write(t, "gateway.toml", string(settings)+"# another release\n")
	r.read(t, "docs/upgrade.md")
	if r.typed["sh node"] < 20 || r.typed["sh node follows"] < 2 || r.typed["sh node fails"] != 1 {
		t.Errorf("only these were typed: %v", r.typed)
	}
	for _, s := range shows {
		if r.typed[s.document+" "+s.block] == 0 {
			t.Errorf("%s has no block with %s", s.document, s.block)
		}
	}
}

func newReader(t *testing.T) *reader {
	t.Helper()
	c := cluster.Start(t, cluster.Node)
	c.DNS(t)
	names := loadShipped(t, c)
	const box = "docker.io/natsio/nats-box:" + shippedTag
	c.LoadProgram(t, box, "nats", "test/broker/natscli", "github.com/nats-io/natscli/nats")
	agentsandbox.Start(t, c.RESTConfig(), agentsandbox.Config{Owns: agentsandbox.NamespacePrefix("nobody-"), Dialect: reconcile.Newest()})
	volume(t, c, installed, "data-nats-0")
	place, err := filepath.EvalSymlinks(t.TempDir())
	noError(t, err)
	repository, err := filepath.Abs(filepath.Join("..", ".."))
	noError(t, err)
	dir, bin := filepath.Join(place, "mine"), filepath.Join(place, "bin")
	noError(t, errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(bin, 0o700), os.Symlink(repository, filepath.Join(place, "portcullis"))))
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		kubectl = cluster.Build(t, "kubectl", "test/cluster/binaries/kubernetes", "k8s.io/kubernetes/cmd/kubectl")
	}
	noError(t, os.Symlink(kubectl, filepath.Join(bin, "kubectl")))
	r := &reader{c: c, typed: map[string]int{}, shell: commands.Shell{
		Dir: dir, Env: []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + place, "KUBECONFIG=" + c.Kubeconfig()}, Here: replacements(names, box),
	}}
	// The team has its namespace already, and there is one for the Secrets that supervisorctl copies.
	for _, name := range []string{"team-a", sources} {
		_, err = c.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		noError(t, err)
	}
	t.Cleanup(func() { r.leave(detached{t}) })
	return r
}

// replacements are the images of this work tree under the names that the documents give those of a reader, and what stands for a reader's own objects.
func replacements(names map[string]string, box string) *strings.Replacer {
	_, tag, _ := strings.Cut(names[images.NATS], ":")
	replace := []string{
		"newName: docker.io/library/nats", "newName: nats\n    newTag: " + tag, "natsio/nats-box:0.19.1", box,
		"[nats, kv", "[/nats, kv", "-c nats -- nats ", "-c nats -- /nats ", "v0.1.0", shippedTag,
		"<name>", "box", "<pod>", "crashed", "<id>", "b0c4a1de-0000-4000-8000-000000000001", "<gateway id>", "openshell",
	}
	for _, daemon := range []string{"nswatch", "tokenauth", "supervisorctl", "lifecycle"} {
		image, _, _ := strings.Cut(names[daemon], ":")
		replace = append(replace, "registry.example/you/"+daemon, image)
	}
	return strings.NewReplacer(replace...)
}

// leave removes what the documents have had the reader make.
func (r *reader) leave(t detached) {
	if rendered, err := deploy.Render(r.shell.Dir); err == nil {
		r.c.Withdraw(t, installed, rendered.Text)
	}
	for _, name := range []string{installed, sources, "team-a", "team-b"} {
		namespaces := r.c.Client().CoreV1().Namespaces()
		if err := namespaces.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete namespace %s: %v", name, err)
		}
		cluster.Eventually(t, "namespace "+name+" is gone", func(ctx context.Context) error {
			_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
			if err == nil {
				return errors.New("it is still there")
			}
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	}
}

func (r *reader) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(r.shell.Dir, name)
	noError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(r.shell.Here.Replace(text)), 0o600)))
}

// read does what a document says, block by block.
func (r *reader) read(t *testing.T, document string) {
	t.Helper()
	all, err := commands.Read(filepath.Join("..", "..", document))
	noError(t, err)
	for _, b := range all {
		ctx, cancel := context.WithTimeout(t.Context(), typingLimit)
		r.do(ctx, t, b)
		cancel()
	}
}

func (r *reader) do(ctx context.Context, t *testing.T, b commands.Block) {
	t.Helper()
	switch {
	case b.Is("yaml"):
		r.write(t, "kustomization.yaml", b.Text)
	case len(b.Words) == 2 && b.Words[0] == "yaml":
		r.write(t, b.Words[1], b.Text)
	case b.Is("sh node"):
		r.succeed(ctx, t, b)
	case b.Is("sh node fails"):
		for _, line := range b.Commands() {
			if out, err := r.shell.Run(ctx, line); err == nil {
				t.Errorf("%s: it does not fail: %s\n%s", b.Where(), line, out)
			}
		}
	case b.Is("sh node follows"):
		for _, line := range b.Commands() {
			if err := r.shell.Follow(ctx, line); err != nil {
				t.Errorf("%s: %v", b.Where(), err)
			}
		}
	default:
		return
	}
	r.typed[strings.Join(b.Words, " ")]++
}

// succeed types a block that must succeed, and print what it must show.
func (r *reader) succeed(ctx context.Context, t *testing.T, b commands.Block) {
	t.Helper()
	out, err := r.shell.Run(ctx, b.Text)
	if err != nil {
		t.Errorf("%s: %v\n%s", b.Where(), err, unready(ctx, r.c))
		return
	}
	for _, s := range shows {
		if filepath.Base(b.Document) != s.document || !strings.Contains(b.Text, s.block) {
			continue
		}
		r.typed[s.document+" "+s.block]++
		_ = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			if again, err := r.shell.Run(ctx, b.Text); err == nil {
				out = again
			}
			return strings.Contains(out, s.said), nil
		})
		if !strings.Contains(out, s.said) {
			t.Errorf("%s: it does not show %q:\n%s\n%s", b.Where(), s.said, b.Text, out)
		}
	}
}
