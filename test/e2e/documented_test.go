//go:build portcullis_long

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/deploy"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/manual/commands"
)

// typingLimit ends a command that would hang; some of them wait for five minutes themselves.
const typingLimit = 6 * time.Minute

// reader sits before a node with the documents, in a directory beside a checkout, as README.md has it, and has a gateway.
type reader struct {
	*house
	shell commands.Shell
	// here are the pairs of shell.Here.
	here  []string
	typed map[string]int
	// known are the blocks of README.md, documents those that were read.
	known, documents map[string]bool
	box              gateway.Sandbox
}

// teamObjects are what the documents speak of and do not make: a Pod that ends again and again.
const teamObjects = `
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
	{"README.md", "--for=condition=Available", "deployment.apps/lifecycle condition met"},
	{"README.md", "--for=condition=Ready sandbox", "sandbox.agents.x-k8s.io/box condition met"},
	{"README.md", "fence probe", "fence        enforced"},
	{"allowlist.md", "allowlist show", "team-a"},
	{"operator-mode.md", "allowlist show", "team-b"},
	{"operator-mode.md", "get portcullis_allowlist openshell.snapshot", `"team-b"`},
	{"operator-mode.md", "get namespace team-b", "Active"},
	{"runbook.md", "allowlist show", "team-a"},
	{"runbook.md", "--previous", "no such command"},
	{"supervisorctl.md", "auth can-i get secrets/registry-a", "yes"},
	{"upgrade.md", "rollout undo", "rolled back"},
}

// TestOperatorLabelOverlayAsDocumented installs the overlay on a cluster with nothing of ours by README.md alone, with the reference gateway for
// the reader's, until a sandbox is ready. Then it types all that the other documents say of such a cluster, as it stands there, while the
// sandbox runs, and at last removes it by docs/uninstall.md. Others are the images' names alone.
func TestOperatorLabelOverlayAsDocumented(t *testing.T) {
	t.Parallel()
	installing.Lock()
	t.Cleanup(installing.Unlock)
	r := newReader(t)
	r.read(t, "README.md")
	r.demandReady(t)
	for _, document := range []string{"docs/install.md", "docs/operator-mode.md", "docs/allowlist.md"} {
		r.read(t, document)
	}
	c := r.c
	c.Apply(t, "team-a", fmt.Appendf(nil, teamObjects, loadShipped(t, c)["nswatch"]))
	cluster.Eventually(t, "a Pod has ended once", func(ctx context.Context) error {
		pod, err := c.Client().CoreV1().Pods("team-a").Get(ctx, "crashed", metav1.GetOptions{})
		if err == nil && (len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].RestartCount == 0) {
			err = fmt.Errorf("%+v", pod.Status)
		}
		return err
	})
	for _, document := range []string{"docs/lifecycle.md", "docs/runbook.md", "docs/supervisorctl.md", "docs/certificates.md"} {
		r.read(t, document)
	}
	// Another release is another rendering; here it is settings with a line more.
	settings, err := os.ReadFile(filepath.Join(r.shell.Dir, "gateway.toml"))
	noError(t, err)
	r.write(t, "gateway.toml", string(settings)+"# another release\n")
	r.read(t, "docs/upgrade.md")
	r.demandReady(t)
	r.remove(t, r.box)
	r.read(t, "docs/uninstall.md")
	if r.typed["sh node"] < 20 || r.typed["sh node follows"] < 2 || r.typed["sh node fails"] != 1 {
		t.Errorf("only these were typed: %v", r.typed)
	}
	for _, s := range shows {
		if r.typed[s.document+" "+s.block] == 0 {
			t.Errorf("%s has no block with %s", s.document, s.block)
		}
	}
	r.demandAllRead(t)
}

// demandAllRead: no document has a block for this reader that was not read. docs/nats.md is typed as a whole by package broker.
func (r *reader) demandAllRead(t *testing.T) {
	t.Helper()
	documents, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	noError(t, err)
	for _, document := range documents {
		all, err := commands.Read(document)
		noError(t, err)
		mine := slices.ContainsFunc(all, func(b commands.Block) bool {
			return b.Is("sh node") || b.Is("sh node fails") || b.Is("sh node follows")
		})
		if name := filepath.Base(document); mine && !r.documents["docs/"+name] && name != "nats.md" {
			t.Errorf("nobody reads docs/%s, which has commands for a node", name)
		}
	}
}

// leave removes what the documents have had the reader make.
func (r *reader) leave(t detached) {
	if rendered, err := deploy.Render(r.shell.Dir); err == nil {
		r.c.Withdraw(t, installed, rendered.Text)
	}
	for _, name := range []string{"team-a", "team-b", "monitoring", installed, sources} {
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

// read does what a document says, block by block. What docs/install.md has in the words of README.md has been done.
func (r *reader) read(t *testing.T, document string) {
	t.Helper()
	r.documents[document] = true
	all, err := commands.Read(filepath.Join("..", "..", document))
	noError(t, err)
	for _, b := range all {
		if document == "docs/install.md" && r.known[b.Text] {
			continue
		}
		r.known[b.Text] = r.known[b.Text] || document == "README.md"
		if strings.Contains(b.Text, "--for=condition=Ready sandbox") {
			r.ask(t)
		}
		if strings.Contains(b.Text, "delete namespace "+installed) {
			r.demandGatewayAlone(t)
		}
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
	case b.Is("toml gateway.toml"):
		r.set(t, b.Words[1], b.Text)
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
