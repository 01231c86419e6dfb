//go:build portcullis_long

package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/program"
)

const document = "../../docs/nats.md"

// block is one fenced block of the document.
type block struct {
	kind, text string
	line       int
}

func blocks(t *testing.T) (all []block) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var open *block
	for n, line := range strings.Split(string(text), "\n") {
		switch fence, found := strings.CutPrefix(line, "```"); {
		case !found && open != nil:
			open.text += line + "\n"
		case found && open != nil:
			all, open = append(all, *open), nil
		case found:
			open = &block{kind: fence, line: n + 1}
		}
	}
	return all
}

// manual is a place in which the document's commands are typed: a directory with what they need, a namespace of the mesh, and the
// programs.
type manual struct {
	t         *testing.T
	dir, bin  string
	env       []string
	rewriting *strings.Replacer
}

// TestTheDocumentIsTrue types every command of docs/nats.md, in its order, as it stands there. Only addresses, the namespace and the paths
// of mounted files are others.
func TestTheDocumentIsTrue(t *testing.T) {
	t.Parallel()
	b := start(t, single(t))
	c := cluster.Start(t, cluster.ControlPlane)
	m := newManual(t, b, c)
	m.deploy(c.Client())
	ran := map[string]int{}
	var w *work
	for _, piece := range blocks(t) {
		ran[piece.kind]++
		where := fmt.Sprintf("line %d", piece.line)
		switch piece.kind {
		case "sh":
			if out, err := m.run(piece.text); err != nil {
				t.Errorf("%s: %v\n%s\n%s", where, err, piece.text, out)
			}
			// What the reader of the document has by then.
			switch {
			case strings.Contains(piece.text, "audit bootstrap"):
				w = m.work(b)
			case strings.Contains(piece.text, "kubectl create secret generic portcullis-nswatch-signing"):
				m.sign(w, b, "next-private.key")
			}
		case "sh follows":
			for line := range strings.Lines(piece.text) {
				m.follow(where, line)
			}
		case "sh fails":
			for line := range strings.Lines(piece.text) {
				if out, err := m.run(line); err == nil || !strings.Contains(out, "Permissions Violation") {
					t.Errorf("%s: it is not refused: %v\n%s\n%s", where, err, line, out)
				}
			}
		case "toml operator.toml":
			m.write("operator.toml", m.rewriting.Replace(piece.text))
		case "toml", "sh node steps": // the latter is for test/e2e
		default:
			t.Errorf("%s: nothing here knows what a block %q is", where, piece.kind)
		}
	}
	if ran["sh"] < 12 || ran["sh follows"] != 1 || ran["sh fails"] != 1 {
		t.Errorf("only these were run: %v", ran)
	}
}

func newManual(t *testing.T, b *broker, c *cluster.Cluster) *manual {
	t.Helper()
	m := &manual{t: t, dir: t.TempDir(), bin: t.TempDir()}
	namespace := c.Namespace(t)
	m.rewriting = strings.NewReplacer(
		"tls://nats.portcullis.svc:4222", b.url(), "-n portcullis", "-n "+namespace, "--namespace portcullis", "--namespace "+namespace,
		"/etc/portcullis/nats/ca.crt", filepath.Join(m.dir, "ca.crt"), "/etc/portcullis/nats/seed", filepath.Join(m.dir, "operator.seed"),
		"/etc/portcullis/allowlist/public.keys", filepath.Join(m.dir, "public.keys"))
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		kubectl = cluster.Build(t, "kubectl", "test/cluster/binaries/kubernetes", "k8s.io/kubernetes/cmd/kubectl")
	}
	for name, path := range map[string]string{
		"kubectl": kubectl, "nswatch": program.Path(t, "nswatch"), "tokenauth": program.Path(t, "tokenauth"),
		"nats": cluster.Build(t, "nats", "test/broker/natscli", "github.com/nats-io/natscli/nats"),
	} {
		if err := os.Symlink(path, filepath.Join(m.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	m.env = []string{
		"PATH=" + m.bin + ":/usr/bin:/bin", "HOME=" + m.dir, "XDG_CONFIG_HOME=" + filepath.Join(m.dir, "config"), "KUBECONFIG=" + c.Kubeconfig(), "NATS_TIMEOUT=2s",
	}
	for name, from := range map[string]string{"ca.crt": authority(t), "operator.seed": seed(t, "operator")} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		m.write(name, string(text))
	}
	text, err := os.ReadFile(configured(t, "bootstrap", "", b.url()))
	if err != nil {
		t.Fatal(err)
	}
	m.write("bootstrap.toml", string(text))
	return m
}

func (m *manual) write(name, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// command is a piece of the document for a shell.
func (m *manual) command(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", m.rewriting.Replace(text))
	cmd.Dir, cmd.Env = m.dir, m.env
	return cmd
}

func (m *manual) run(text string) (out string, err error) {
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*patience)
	defer cancel()
	said, err := m.command(ctx, text).CombinedOutput()
	return string(said), err
}

// follow runs a command until it has written something.
func (m *manual) follow(where, line string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	cmd := m.command(ctx, "exec "+line)
	read, write, err := os.Pipe()
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	var trouble bytes.Buffer
	cmd.Stdout, cmd.Stderr = write, &trouble
	err = errors.Join(cmd.Start(), write.Close())
	if err != nil {
		m.t.Fatal(err)
	}
	if _, err := read.Read(make([]byte, 64)); err != nil {
		m.t.Errorf("%s: it writes nothing: %v\n%s\n%s", where, err, line, &trouble)
	}
	cancel()
	_ = cmd.Wait()
}

// deploy makes what the document speaks of and does not make: the public keys, and workloads of these names without Pods, since there
// is no node.
func (m *manual) deploy(client kubernetes.Interface) {
	m.t.Helper()
	namespace := strings.TrimPrefix(m.rewriting.Replace("-n portcullis"), "-n ")
	command(m.t, "nswatch", "keys", "generate", "--private", filepath.Join(m.dir, "private.key"), "--public", filepath.Join(m.dir, "public.keys"))
	text, err := os.ReadFile(filepath.Join(m.dir, "public.keys"))
	if err != nil {
		m.t.Fatal(err)
	}
	must := func(_ any, err error) {
		m.t.Helper()
		if err != nil {
			m.t.Fatal(err)
		}
	}
	ctx, none, labels := m.t.Context(), int32(0), map[string]string{"a": "b"}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	must(client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "portcullis-allowlist-keys"}, Data: map[string]string{"public.keys": string(text)},
	}, metav1.CreateOptions{}))
	must(client.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "nswatch"},
		Spec:       appsv1.DeploymentSpec{Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pod},
	}, metav1.CreateOptions{}))
	must(client.AppsV1().StatefulSets(namespace).Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "nats"},
		Spec:       appsv1.StatefulSetSpec{Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pod},
	}, metav1.CreateOptions{}))
}

// work publishes a list with the key of the document's installation, and tells of a decision.
func (m *manual) work(b *broker) *work {
	m.t.Helper()
	w := newWork(m.t)
	w.publics = filepath.Join(m.dir, "public.keys")
	w.lists("team-a")
	m.sign(w, b, "private.key")
	js, err := b.as("tokenauth")
	if err != nil {
		m.t.Fatal(err)
	}
	if _, err := js.PublishMsg(m.t.Context(), &nats.Msg{Subject: audit.Subject(gatewayID, "tokenauth"), Data: []byte("{}")}, jetstream.WithExpectStream(audit.Stream)); err != nil {
		m.t.Fatal(err)
	}
	return w
}

// sign has the list published by a writer that has the private key in this file, and waits until it is believed.
func (m *manual) sign(w *work, b *broker, name string) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, name))
	if err != nil {
		m.t.Fatal(err)
	}
	if w.signer, err = allowlist.ParseSigner(secret.New(text)); err != nil {
		m.t.Fatal(err)
	}
	if w.halt != nil {
		w.halt()
	}
	w.publish(b.url())
	// A reader that is new takes no record of before for one of now.
	w.reader("lifecycle", b.url()).allows("team-a")
}
