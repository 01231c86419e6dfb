//go:build portcullis_long

package e2e_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/images"
	"github.com/portcullis-mesh/portcullis/test/manual/commands"
)

// newReader is a reader with what README.md demands: the Agent Sandbox controller, volumes, the images, kubectl, a gateway with a policy for who
// may ask it, and the authority of its certificate.
func newReader(t *testing.T) *reader {
	t.Helper()
	c := cluster.Start(t, cluster.Node)
	c.DNS(t)
	names := loadShipped(t, c)
	loadImages(t, c)
	loadGateway(t, c)
	const box = "docker.io/natsio/nats-box:" + shippedTag
	c.LoadProgram(t, box, "nats", "test/broker/natscli", "github.com/nats-io/natscli/nats")
	agentsandbox.Start(t, c.RESTConfig(), agentsandbox.Config{Owns: agentsandbox.NamespacePrefix("team-"), Dialect: reconcile.Newest()})
	volume(t, c, installed, "data-nats-0")
	volume(t, c, installed, "records-openshell-0")
	place, err := filepath.EvalSymlinks(t.TempDir())
	noError(t, err)
	repository, err := filepath.Abs(filepath.Join("..", ".."))
	noError(t, err)
	dir, bin := filepath.Join(place, "mine"), filepath.Join(place, "bin")
	noError(t, errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(bin, 0o700), os.Symlink(repository, filepath.Join(place, "portcullis"))))
	noError(t, os.Symlink(kubectl(t), filepath.Join(bin, "kubectl")))
	r := &reader{
		house: &house{c: c, key: "openshell.ai/sandboxes"}, here: replacements(names, box),
		typed: map[string]int{}, known: map[string]bool{}, documents: map[string]bool{},
		shell: commands.Shell{Dir: dir, Env: []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + place, "KUBECONFIG=" + c.Kubeconfig()}},
	}
	r.shell.Here = strings.NewReplacer(r.here...)
	certificate, secret := gatewayCertificate(t, gatewaySecret)
	example := documentedGateway(t)
	r.known[example] = true
	r.write(t, "gateway.yaml", asReference(t, example)+"---"+doorPolicy+"---"+secret)
	r.write(t, "ca.crt", pemOf(certificate))
	t.Cleanup(func() { r.leave(detached{t}) })
	return r
}

// kubectl is the path of the program.
func kubectl(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("kubectl")
	if err != nil {
		path = cluster.Build(t, "kubectl", "test/cluster/binaries/kubernetes", "k8s.io/kubernetes/cmd/kubectl")
	}
	return path
}

// replacements are the images of this work tree under the names that the documents give those of a reader, and what stands for a reader's own objects.
func replacements(names map[string]string, box string) []string {
	_, tag, _ := strings.Cut(names[images.NATS], ":")
	replace := []string{
		"newName: docker.io/library/nats", "newName: nats\n    newTag: " + tag, "natsio/nats-box:0.19.1", box,
		"[nats, kv", "[/nats, kv", "-c nats -- nats ", "-c nats -- /nats ", "v0.1.0", shippedTag,
		"<name>", boxName, "<pod>", "crashed", "<gateway id>", "openshell",
		"registry.example/you/openshell-base:1", loaded.images.Workload, "registry.example/you/openshell-supervisor:1", loaded.images.Supervisor,
		"registry.example/you/openshell-sandbox:1", loaded.images.Runtime, "registry.example/you/openshell-gateway:1", "portcullis.test/gateway:1",
	}
	for _, daemon := range []string{"nswatch", "tokenauth", "supervisorctl", "lifecycle"} {
		image, _, _ := strings.Cut(names[daemon], ":")
		replace = append(replace, "registry.example/you/"+daemon, image)
	}
	return replace
}

// boxName is what the sandbox is called that runs while the documents are typed.
const boxName = "box"

// ask asks the reader's gateway for a sandbox, as README.md has it.
func (r *reader) ask(t *testing.T) {
	t.Helper()
	r.gateway = newAfar(t, r.c)
	r.awaitAllowed(t, "team-a")
	var err error
	r.box, err = r.gateway.Create(t.Context(), r.wish(t, "team-a", boxName))
	noError(t, err)
	r.here = append(r.here, "<id>", r.box.ID)
	r.shell.Here = strings.NewReplacer(r.here...)
}

// demandReady: the gateway has the sandbox, and it does what it is told.
func (r *reader) demandReady(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, "the sandbox is ready to its gateway", func(ctx context.Context) error {
		_, err := r.await(ctx, r.box.ID, phase.Ready)
		return err
	})
	if got := r.does(t, r.box.ID, "echo", "hello from team-a"); got != "hello from team-a" {
		t.Errorf("the command says %q", got)
	}
}

// set does by the words of a document what a person does in an editor: each line is in the place of that with its key, or new in the table that
// the document names, which is the stock one where it names none.
func (r *reader) set(t *testing.T, name, lines string) {
	t.Helper()
	path := filepath.Join(r.shell.Dir, name)
	before, err := os.ReadFile(path)
	noError(t, err)
	text, table := string(before), "[openshell.drivers.kubernetes]\n"
	for line := range strings.Lines(lines) {
		key, _, found := strings.Cut(line, " = ")
		rule := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(key) + ` = .*\n`)
		switch {
		case !found:
			table = line
		case rule.MatchString(text):
			text = rule.ReplaceAllLiteralString(text, line)
		default:
			text = strings.Replace(text, table, table+line, 1)
		}
	}
	r.write(t, name, text)
}
