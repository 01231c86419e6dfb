//go:build portcullis_long

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/test/images"
	"github.com/portcullis-mesh/portcullis/test/manual/commands"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// recovery is a town in which something is lost, or replaced by another, by the steps of the documents.
type recovery struct {
	*town
	shell *commands.Shell
}

// The days on which something is replaced, each by the words of the documents: authorities and the label are others without a request that is
// lost. With TestOperatorLabelOverlayRecovers each block of steps of all documents is typed.
func TestOperatorLabelOverlayChanges(t *testing.T) {
	r := settleRecovery(t)
	r.under(t, "another authority of the mesh", r.ofMesh)
	r.under(t, "another authority of the NATS servers", r.ofServers)
	r.under(t, "another label", r.anotherLabel)
	t.Run("all connections anew", r.connectAnew)
	r.remove(t, r.stays)
	r.remove(t, r.closed)
}

// The days on which something is lost, each by the words of the documents: NATS begins anew, then as three servers, and so does the key that
// signs the list, with a gate that is shut in between and never opens for who may not; the namespace of the mesh is deleted, gateway included,
// and is back with the sandboxes that ran on meanwhile; and the gateway has no records.
func TestOperatorLabelOverlayRecovers(t *testing.T) {
	r := settleRecovery(t)
	r.under(t, "a new beginning of NATS", r.beginAnew)
	r.under(t, "three servers in the place of one", r.grow)
	r.under(t, "the signing key", r.signAnew)
	t.Run("the namespace", r.loseNamespace)
	t.Run("the records of the gateway", r.loseRecords)
	r.remove(t, r.stays)
}

func settleRecovery(t *testing.T) *recovery {
	t.Helper()
	w := &town{installation: install(t, operatorLabel, relayBeside), whole: t, lanes: 1}
	settle(t, w)
	w.settleOperator(t)
	w.hold(t)
	r := &recovery{town: w}
	r.shell = r.shelled(t)
	return r
}

// shelled is where a reader of the documents types, with further words of his own in the place of theirs.
func (r *recovery) shelled(t *testing.T, replace ...string) *commands.Shell {
	t.Helper()
	repository, err := filepath.Abs(filepath.Join("..", ".."))
	noError(t, err)
	return r.place(t, r.dir, append(replace, "../portcullis/", repository+"/", "<gateway id>", "openshell",
		"-n team-a <name>", "-n "+r.closed.Workspace+" "+r.closed.Name)...)
}

// steps are those of a section, of which there are so many.
func steps(t *testing.T, document, heading string, want int) (found []commands.Block) {
	t.Helper()
	for _, b := range section(t, document, heading) {
		if b.Is(stepsOfDocuments) {
			found = append(found, b)
		}
	}
	if len(found) != want {
		t.Fatalf("%s, %q has %d blocks of steps, want %d", document, heading, len(found), want)
	}
	return found
}

// step types a block, which must succeed.
func (r *recovery) step(t *testing.T, b commands.Block) (out string) {
	t.Helper()
	out, err := r.shell.Run(t.Context(), b.Text)
	if err != nil {
		t.Fatalf("%s: %v\n%s", b.Where(), err, unready(t.Context(), r.c))
	}
	return out
}

// await types a block until it succeeds.
func (r *recovery) await(t *testing.T, b commands.Block) {
	t.Helper()
	r.eventually(t, b.Where(), func(ctx context.Context) error {
		_, err := r.shell.Run(ctx, b.Text)
		return err
	})
}

// meshMembers are those that have a certificate in the mesh, by the workload that they are in.
var meshMembers = map[string]string{mesh.Tokenauth: mesh.Tokenauth, mesh.Supervisorctl: mesh.Supervisorctl, mesh.Lifecycle: mesh.Lifecycle, "relay": gatewaySet}

// certified counts how often the Pods of each member have said that their certificate is another.
func (r *recovery) certified() map[string]int {
	times := map[string]int{}
	for member := range meshMembers {
		times[member] = len(r.log(member, func(entry map[string]any) bool {
			said, _ := entry["message"].(string)
			return strings.HasPrefix(said, "mesh certificate files changed")
		}))
	}
	return times
}

// anotherAuthority goes through docs/certificates.md. What is done for each step that says who is trusted, the wait included, is the caller's. It
// returns the certificate of the new authority.
func (r *recovery) anotherAuthority(t *testing.T, each func(step commands.Block)) (next string) {
	t.Helper()
	all := steps(t, certificatesDocument, newAuthority, 7)
	r.step(t, all[0])
	certificate, err := os.ReadFile(filepath.Join(r.dir, "next.crt"))
	noError(t, err)
	for _, n := range []int{1, 3, 4} {
		each(all[n])
	}
	r.step(t, all[5])
	return string(certificate)
}

// The section of a new authority. What it shows is the mesh's.
const (
	certificatesDocument = "docs/certificates.md"
	newAuthority         = "## Another authority, without closing"
)

// ofMesh: the daemons say when they have taken up each step.
func (r *recovery) ofMesh(t *testing.T) {
	taken := steps(t, certificatesDocument, newAuthority, 7)[2]
	next := r.anotherAuthority(t, func(step commands.Block) {
		former := r.certified()
		r.step(t, step)
		r.await(t, taken)
		r.eventually(t, "every Pod has taken it up", func(context.Context) error {
			for member, now := range r.certified() {
				if pods := len(r.podsOf(t, meshMembers[member])); now < former[member]+pods {
					return fmt.Errorf("of %s %d of %d have", member, now-former[member], pods)
				}
			}
			return nil
		})
		r.awaitVisitors(t)
	})
	for member := range meshMembers {
		r.demandTrust(t, "portcullis-"+member+"-mesh-tls", next)
	}
}

// ofServers is the same with the name of the NATS servers' authority in each place. Clients say nothing, so one waits for as long as the document
// says; then the server begins anew, so that each of them must believe it again, and finds it by the names that it has.
func (r *recovery) ofServers(t *testing.T) {
	servers := &recovery{town: r.town, shell: r.shelled(t, "portcullis-mesh-ca", "portcullis-nats-ca")}
	next := servers.anotherAuthority(t, func(step commands.Block) {
		servers.step(t, step)
		select {
		case <-time.After(clientsReread):
		case <-t.Context().Done():
		}
		if away := r.roll(t, "statefulsets", images.NATS); away > bearable {
			r.excuse(unproven)
		}
	})
	for _, client := range []string{mesh.Nswatch, mesh.Tokenauth, mesh.Lifecycle, "operator"} {
		r.demandTrust(t, "portcullis-"+client+"-nats", next)
	}
}

// clientsReread is what the document has the reader wait until each client of NATS has the other ca.crt.
const clientsReread = 3 * time.Minute

// demandTrust demands that who has the Secret trusts one authority alone.
func (r *recovery) demandTrust(t *testing.T, secret, authority string) {
	t.Helper()
	s, err := r.c.Client().CoreV1().Secrets(installed).Get(t.Context(), secret, metav1.GetOptions{})
	noError(t, err)
	if string(s.Data["ca.crt"]) != authority {
		t.Errorf("who has %s trusts somebody else than the new authority alone", secret)
	}
}

// connectAnew is what is done after that if somebody knew the old key.
func (r *recovery) connectAnew(t *testing.T) {
	all := steps(t, certificatesDocument, newAuthority, 7)
	r.release(t)
	r.step(t, all[6])
	r.awaitResident(t)
	r.demandGoodList(t)
	r.demandResidents(t)
}

// release lets a rollout replace the gateway's Pod.
func (r *recovery) release(t *testing.T) {
	t.Helper()
	patch := []byte(`{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}`)
	_, err := r.c.Client().AppsV1().StatefulSets(installed).Patch(t.Context(), gatewaySet, types.MergePatchType, patch, metav1.PatchOptions{})
	noError(t, err)
}

// anotherLabel goes through docs/upgrade.md. What it says of kustomization.yaml and gateway.toml is done here.
func (r *recovery) anotherLabel(t *testing.T) {
	const label = "example.com/sandboxes"
	all := steps(t, upgradeDocument, "## Another label", 3)
	r.files["another-label.yaml"] = shown(t, upgradeDocument, "yaml another-label.yaml")
	r.overlay.kustomization += "patches:\n  - {path: another-label.yaml, target: {kind: ValidatingAdmissionPolicy, name: portcullis-daemon-writes}}\n"
	r.amend = func(settings string) string {
		return strings.Replace(settings, `operator_namespace_label = "openshell.ai/sandboxes=allowed"`, `operator_namespace_label = "`+label+`=allowed"`, 1)
	}
	r.step(t, all[0])
	r.compose(t, filepath.Join("..", ".."), loadShipped(t, r.c))
	r.step(t, section(t, upgradeDocument, "## The upgrade")[0])
	if said := r.step(t, all[1]); !strings.Contains(said, r.stays.Workspace) {
		t.Errorf("the list by the new label is without %s:\n%s", r.stays.Workspace, said)
	}
	r.step(t, all[2])
	r.key = label
	ns, err := r.c.Client().CoreV1().Namespaces().Get(t.Context(), r.stays.Workspace, metav1.GetOptions{})
	noError(t, err)
	if _, old := ns.Labels["openshell.ai/sandboxes"]; old || ns.Labels[label] != "allowed" {
		t.Errorf("the namespace has the labels %v", ns.Labels)
	}
	r.awaitVisitors(t)
}

// shown is the one block of a document with these words behind its fence.
func shown(t *testing.T, document, words string) string {
	t.Helper()
	all, err := commands.Read(filepath.Join("..", "..", document))
	noError(t, err)
	for _, b := range all {
		if b.Is(words) {
			return b.Text
		}
	}
	t.Fatalf("%s has no block %q", document, words)
	return ""
}

// beginAnew: NATS loses its volume, and what was in it. The list is there again, and not an older one.
func (r *recovery) beginAnew(t *testing.T) {
	all := steps(t, "docs/nats.md", "## A new beginning", 2)
	r.excuseOutage(unproven)
	r.emptyVolumes()
	former := r.term(t)
	r.step(t, all[0])
	r.await(t, all[1])
	if now := r.term(t); now < former {
		t.Errorf("the list has epoch %d after epoch %d", now, former)
	}
	r.awaitVisitors(t)
}

// emptyVolumes are for servers whose claims are made anew.
func (r *recovery) emptyVolumes() {
	for n := range r.overlay.servers {
		volume(r.whole, r.c, installed, fmt.Sprintf("data-nats-%d", n))
	}
}

// grow: the reader has three servers in his kustomization, and they begin anew as one does. From then on the one that leads may be gone.
func (r *recovery) grow(t *testing.T) {
	r.overlay.servers, r.overlay.kustomization = 3, r.overlay.kustomization+oneNode
	r.components = append(r.components, "nats-ha")
	r.amend = func(settings string) string {
		return strings.Replace(settings, "[portcullis.audit]\n", "[portcullis.audit]\nreplicas = 3\n", 1)
	}
	r.compose(t, filepath.Join("..", ".."), loadShipped(t, r.c))
	r.beginAnew(t)
	r.c.Apply(t, installed, []byte(monitorPolicy))
	for _, stream := range []string{bucket, trail} {
		r.awaitServers(t, stream)
	}
	r.loseLeader(t)
	r.awaitVisitors(t)
}

// term is the epoch of the list that is published.
func (r *recovery) term(t *testing.T) (epoch uint64) {
	t.Helper()
	const show = "kubectl exec -n portcullis operator -- /nswatch allowlist show --output json --config /etc/portcullis/config/operator.toml"
	out, err := r.shell.Run(t.Context(), show)
	noError(t, err)
	_, rest, _ := strings.Cut(out, `"epoch": `)
	digits, _, _ := strings.Cut(rest, ",")
	epoch, err = strconv.ParseUint(digits, 10, 64)
	noError(t, err)
	return epoch
}

// signAnew: the key that signs the list is lost, and comes from what was saved; then it is lost for good, and another signs.
func (r *recovery) signAnew(t *testing.T) {
	saved := steps(t, "docs/backup.md", "## What to save", 1)
	again := steps(t, "docs/backup.md", "## The signing key", 2)
	r.step(t, saved[0])
	r.excuseOutage(unproven)
	before := r.signer(t)
	r.step(t, again[0])
	r.demandGoodList(t)
	if now := r.signer(t); now != before {
		t.Error("the key that was saved is another one")
	}
	noError(t, r.c.Client().CoreV1().Secrets(installed).Delete(t.Context(), "portcullis-nswatch-signing", metav1.DeleteOptions{}))
	former := r.takenUp()
	r.step(t, again[1])
	r.awaitTakenUp(t, former)
	r.demandGoodList(t)
	if now := r.signer(t); now == before {
		t.Error("the key is the lost one")
	}
	r.awaitVisitors(t)
	r.step(t, saved[0])
}

// signer is the private key of the list.
func (r *recovery) signer(t *testing.T) string {
	t.Helper()
	secret, err := r.c.Client().CoreV1().Secrets(installed).Get(t.Context(), "portcullis-nswatch-signing", metav1.GetOptions{})
	noError(t, err)
	return string(secret.Data["private.key"])
}

// loseNamespace: somebody deletes the namespace of the mesh. The gateway has its records again, and the volume of NATS is an empty one.
func (r *recovery) loseNamespace(t *testing.T) {
	all := steps(t, "docs/backup.md", "## The namespace portcullis", 1)
	before := r.signer(t)
	r.emptyVolumes()
	core := r.c.Client().CoreV1()
	noError(t, core.Namespaces().Delete(t.Context(), installed, metav1.DeleteOptions{}))
	r.eventually(t, "it is gone", func(ctx context.Context) error {
		_, err := core.Namespaces().Get(ctx, installed, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
	r.freeVolume(t, "records-openshell-0")
	r.step(t, all[0])
	if now := r.signer(t); now != before {
		t.Error("another key signs")
	}
	r.settleOperator(t)
	r.demandGoodList(t)
	r.awaitResident(t)
	r.demandResidents(t)
	r.eventually(t, "the gate is open for who may", func(ctx context.Context) error {
		r.demandGate(t, r.stays.Workspace, r.closed.Workspace)
		return r.gateway.EnsureWorkspace(ctx, r.stays.Workspace)
	})
}

// freeVolume lets another claim of the name have a volume whose claim is gone.
func (r *recovery) freeVolume(t *testing.T, claim string) {
	t.Helper()
	volumes := r.c.Client().CoreV1().PersistentVolumes()
	list, err := volumes.List(t.Context(), metav1.ListOptions{})
	noError(t, err)
	for _, v := range list.Items {
		if of := v.Spec.ClaimRef; of != nil && of.Namespace == installed && of.Name == claim {
			patch := []byte(`{"spec":{"claimRef":{"uid":null,"resourceVersion":null}}}`)
			_, err := volumes.Patch(t.Context(), v.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			noError(t, err)
			return
		}
	}
	t.Fatalf("there is no volume of the claim %s", claim)
}

// loseRecords: a gateway that has lost its records asks for none of its sandboxes, and somebody ends one of them by hand.
func (r *recovery) loseRecords(t *testing.T) {
	all := steps(t, "docs/backup.md", "## The gateway's records", 1)
	if said := r.step(t, all[0]); !strings.Contains(said, r.closed.Workspace) {
		t.Errorf("the sandbox is not shown:\n%s", said)
	}
	r.awaitNothing(t, r.closed.Workspace, r.closed.ID, r.closed.Name)
}
