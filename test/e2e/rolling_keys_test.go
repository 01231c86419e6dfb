//go:build portcullis_long

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/images"
	"github.com/portcullis-mesh/portcullis/test/manual/commands"
	"github.com/portcullis-mesh/portcullis/test/mesh"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// place is where commands of the documents are typed: the directory with programs beside it, and the Pod operator in the cluster.
func (w *town) place(t *testing.T, dir string, replace ...string) *commands.Shell {
	t.Helper()
	bin := t.TempDir()
	noError(t, errors.Join(os.Symlink(kubectl(t), filepath.Join(bin, "kubectl")), os.Symlink(program.Path(t, mesh.Nswatch), filepath.Join(bin, "nswatch"))))
	return &commands.Shell{
		Dir: dir, Env: []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + t.TempDir(), "KUBECONFIG=" + w.c.Kubeconfig()},
		Here: strings.NewReplacer(append(replace, verifyHere, verifyThere)...),
	}
}

// The list is looked at from inside of the cluster.
const (
	verifyHere  = "nswatch allowlist verify --config operator.toml"
	verifyThere = "kubectl exec -n portcullis operator -- /nswatch allowlist verify --config /etc/portcullis/config/operator.toml"
)

// settleOperator has a Pod from which the list can be looked at.
func (w *town) settleOperator(t *testing.T) {
	t.Helper()
	w.c.Apply(t, installed, []byte(viewerSettings))
	w.c.Apply(t, installed, fmt.Appendf(nil, strings.Replace(viewer, "allowlist, show", "allowlist, watch", 1), "operator", shippedTag))
	w.c.AwaitPod(t, installed, "operator")
}

// section are the blocks of commands below a heading of a document.
func section(t *testing.T, document, heading string) (found []commands.Block) {
	t.Helper()
	path := filepath.Join("..", "..", document)
	text, err := os.ReadFile(path)
	noError(t, err)
	before, rest, there := strings.Cut(string(text), "\n"+heading+"\n")
	if !there {
		t.Fatalf("%s has no %q", document, heading)
	}
	first := strings.Count(before, "\n") + 2
	rest, _, _ = strings.Cut(rest, "\n## ")
	last := first + strings.Count(rest, "\n")
	all, err := commands.Read(path)
	noError(t, err)
	for _, b := range all {
		if len(b.Words) > 0 && b.Words[0] == "sh" && b.Line > first && b.Line <= last {
			found = append(found, b)
		}
	}
	return found
}

// anotherSigningKey types docs/nats.md, and waits in between as it says.
func (w *town) anotherSigningKey(t *testing.T) {
	steps := section(t, "docs/nats.md", "## Another signing key, without closing")
	if len(steps) != 3 {
		t.Fatalf("there are %d blocks of commands", len(steps))
	}
	shell := w.place(t, t.TempDir())
	for n, step := range steps {
		former := w.takenUp()
		_, err := shell.Run(t.Context(), step.Text)
		noError(t, err)
		if n != 1 { // the second is about the private key alone
			w.awaitTakenUp(t, former)
		}
	}
	w.awaitVisitors(t)
	w.demandGoodList(t)
}

// readers are the daemons that believe the list by the public keys.
var readers = []string{mesh.Tokenauth, mesh.Lifecycle}

// takenUp counts how often the Pods of each reader have said that the public keys are others.
func (w *town) takenUp() map[string]int {
	times := map[string]int{}
	for _, daemon := range readers {
		times[daemon] = len(w.log(daemon, func(entry map[string]any) bool { return entry["message"] == "the public keys have changed" }))
	}
	return times
}

// awaitTakenUp waits until every Pod has said so once more.
func (w *town) awaitTakenUp(t *testing.T, former map[string]int) {
	t.Helper()
	w.eventually(t, "the readers have the public keys", func(context.Context) error {
		now := w.takenUp()
		for _, daemon := range readers {
			if pods := len(w.podsOf(t, daemon)); now[daemon] < former[daemon]+pods {
				return fmt.Errorf("of %s %d of %d Pods have", daemon, now[daemon]-former[daemon], pods)
			}
		}
		return nil
	})
}

// relayCertificate is what docs/certificates.md has made anew, as an example.
const relayCertificate = "portcullis-relay-mesh-tls"

// anotherIdentity has the identity in NATS of somebody made anew, as docs/certificates.md says, and waits until the server has been told, without
// a restart, and lets only the new one in.
func (w *town) anotherIdentity(t *testing.T, of string) {
	var again []commands.Block
	for _, b := range section(t, "docs/certificates.md", "## By hand") {
		if strings.Contains(b.Text, relayCertificate) {
			again = append(again, b)
		}
	}
	if len(again) != 1 {
		t.Fatalf("docs/certificates.md has %d blocks about %s", len(again), relayCertificate)
	}
	told := func() int {
		return len(w.log("reload", func(entry map[string]any) bool { return entry["message"] == "told the NATS server to read its files" }))
	}
	former, pods, identity := told(), w.podsOf(t, images.NATS), w.identity(t, of)
	_, err := w.place(t, w.dir, relayCertificate, "portcullis-"+of+"-nats").Run(t.Context(), again[0].Text)
	noError(t, err)
	if now := w.identity(t, of); now == identity {
		t.Errorf("%s still is %s", of, now)
	}
	w.eventually(t, "the NATS server is told", func(context.Context) error {
		if told() == former {
			return errors.New("it is not")
		}
		return nil
	})
	for uid := range w.podsOf(t, images.NATS) {
		if !pods[uid] {
			t.Error("NATS has another Pod")
		}
	}
}

// identity is the public key that the NATS server knows somebody by.
func (w *town) identity(t *testing.T, of string) string {
	t.Helper()
	known, err := w.c.Client().CoreV1().ConfigMaps(installed).Get(t.Context(), "portcullis-nats-identities", metav1.GetOptions{})
	noError(t, err)
	key := regexp.MustCompile(`(?m)^\s*` + strings.ToUpper(of) + `_NKEY.*$`).FindString(known.Data["identities.conf"])
	if key == "" {
		t.Fatalf("NATS knows no %s: %s", of, known.Data["identities.conf"])
	}
	return key
}

// demandGoodList waits until whoever has the operator's identity gets in, with the key that it has now, and finds the list good.
func (w *town) demandGoodList(t *testing.T) {
	t.Helper()
	shell := w.place(t, t.TempDir())
	w.eventually(t, "the operator finds the list good", func(ctx context.Context) error {
		_, err := shell.Run(ctx, verifyHere)
		return err
	})
}

// connected counts how often NATS has let a daemon's Pods in.
func (w *town) connected(daemon string) int {
	return len(w.log(daemon, func(entry map[string]any) bool { return entry["message"] == "connected to NATS" }))
}
