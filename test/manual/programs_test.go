//go:build portcullis_long

package manual_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/manual/commands"
	"github.com/portcullis-mesh/portcullis/test/mesh"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// patience ends a command that would hang.
const patience = 2 * time.Minute

// desk is where a reader of the documents sits: a mesh that runs, with a sandbox, and the programs at hand.
type desk struct {
	*lifecycle.Site
	shell     commands.Shell
	namespace string
	token     string // of the sandbox's supervisor
}

// TestProgramsAsDocumented types the commands of the daemons' programs and of the NATS CLI, as every document but docs/nats.md has them.
func TestProgramsAsDocumented(t *testing.T) {
	t.Parallel()
	d := sit(t)
	ran := map[string]int{}
	for _, document := range documents(t) {
		if strings.HasSuffix(document, natsDocument) {
			continue
		}
		for _, b := range blocks(t, document) {
			d.typeBlock(t, b, ran)
		}
	}
	if ran["sh"] < 10 || ran["sh follows"] < 4 {
		t.Errorf("only these were typed: %v", ran)
	}
}

func (d *desk) typeBlock(t *testing.T, b commands.Block, ran map[string]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	switch {
	case b.Is("sh"):
		if _, err := d.shell.Run(ctx, b.Text); err != nil {
			t.Errorf("%s: %v", b.Where(), err)
		}
		if strings.Contains(b.Text, "audit bootstrap") {
			d.awaitEvent(t)
		}
	case b.Is("sh fails"):
		for _, line := range b.Commands() {
			if out, err := d.shell.Run(ctx, line); err == nil {
				t.Errorf("%s: it does not fail: %s\n%s", b.Where(), line, out)
			}
		}
	case b.Is("sh follows"):
		for _, line := range b.Commands() {
			if err := d.shell.Follow(ctx, line); err != nil {
				t.Errorf("%s: %v", b.Where(), err)
			}
		}
	default:
		return
	}
	ran[strings.Join(b.Words, " ")]++
}

func sit(t *testing.T) *desk {
	t.Helper()
	c := cluster.Start(t, cluster.ControlPlane)
	d := &desk{Site: lifecycle.Raise(t, c, reconcile.Newest(), "operator")}
	dir, bin := t.TempDir(), t.TempDir()
	for _, daemon := range mesh.Daemons() {
		symlink(t, program.Path(t, daemon), filepath.Join(bin, daemon))
	}
	symlink(t, cluster.Build(t, "nats", "test/broker/natscli", "github.com/nats-io/natscli/nats"), filepath.Join(bin, "nats"))
	d.shell = commands.Shell{
		Dir: dir,
		Env: []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "NATS_URL=" + d.Mesh.NATSURL()},
		Here: strings.NewReplacer("team-gateway", d.GatewayID, "127.0.0.1:9464", strings.TrimPrefix(d.Mesh.Admin(mesh.Supervisorctl), "http://"),
			"--replicas 3", "--replicas 1"),
	}
	d.write(t, "gateway.toml", d.settings(t, c, dir))
	d.start(t, c)
	d.write(t, "token", d.token)
	d.keepDeciding(t)
	return d
}

func symlink(t *testing.T, to, from string) {
	t.Helper()
	if err := os.Symlink(to, from); err != nil {
		t.Fatal(err)
	}
}

func (d *desk) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(d.shell.Dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// settings are one file for all programs, as an operator has it: that of lifecycle, with an administrator's rights, a socket of its own, and the
// tables of the others.
func (d *desk) settings(t *testing.T, c *cluster.Cluster, dir string) string {
	t.Helper()
	text, err := os.ReadFile(d.Mesh.Settings(mesh.Lifecycle))
	if err != nil {
		t.Fatal(err)
	}
	own := regexp.MustCompile(`(?m)^kubeconfig = .*$`).ReplaceAllString(string(text), fmt.Sprintf("kubeconfig = %q", c.Kubeconfig()))
	own = regexp.MustCompile(`(?m)^socket_path = .*$`).ReplaceAllString(own, fmt.Sprintf("socket_path = %q", filepath.Join(dir, "s", "driver.sock")))
	return own + fmt.Sprintf(`
[portcullis.nswatch]
http_address = "127.0.0.1:0"
signing_key_file = %q
lease_namespace = %q
[portcullis.tokenauth]
http_address = "127.0.0.1:0"
listen_address = "127.0.0.1:0"
[portcullis.supervisorctl]
http_address = "127.0.0.1:0"
listen_address = "127.0.0.1:0"
lease_namespace = %q
[portcullis.relay]
http_address = "127.0.0.1:0"
lifecycle_address = "127.0.0.1:1"
`, filepath.Join(filepath.Dir(d.Mesh.Settings(mesh.Nswatch)), "signing.key"), d.Mesh.Namespace(), d.Mesh.Namespace())
}

// start makes the sandbox that the documents speak of, and takes its supervisor's token.
func (d *desk) start(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	workspace := d.Workspace("team")
	d.namespace = d.NamespaceOf(workspace)
	wish := d.Wish(workspace, "box")
	d.Eventually("a sandbox is made", func() error {
		_, err := d.Driver.CreateSandbox(d.Context(), &computev1.CreateSandboxRequest{Sandbox: wish})
		return err
	})
	pods, err := c.Client().CoreV1().Pods(d.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "openshell.ai/boundary-role=supervisor"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d supervisor Pods: %v", len(pods.Items), err)
	}
	d.token = c.Token(t, d.namespace, pods.Items[0].Spec.ServiceAccountName, cluster.TokenRequest{Audiences: []string{"openshell-gateway"}, Pod: &pods.Items[0]})
}

// awaitEvent waits until the mesh's tokenauth has found the stream that a reader has just made, and told it of a decision.
func (d *desk) awaitEvent(t *testing.T) {
	t.Helper()
	d.Eventually("a decision is in the stream", func() error {
		_, err := d.shell.Run(t.Context(), "nats stream get PORTCULLIS_AUDIT --last-for portcullis.audit.team-gateway.tokenauth")
		return err
	})
}

func (d *desk) ask(ctx context.Context) error {
	_, err := d.Driver.AuthenticateSandbox(ctx, &computev1.AuthenticateSandboxRequest{Credential: d.token})
	return err
}

// keepDeciding has something happen for those who follow what happens.
func (d *desk) keepDeciding(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = d.ask(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
}
