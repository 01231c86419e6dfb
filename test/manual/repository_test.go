//go:build portcullis_long

package manual_test

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/manual/commands"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// lookup ends a block of commands that would hang: make vuln looks up every module.
const lookup = 30 * time.Minute

func repository(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(root)
	noError(t, err)
	return path
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// outcomes are what blocks must come to besides that they succeed, by a part of the block.
var outcomes = []struct {
	block string
	holds func(t *testing.T, d *depot, out string)
}{
	{"make vuln", func(t *testing.T, _ *depot, out string) {
		modules := strings.Count(readFile(t, "go.work"), "\n\t./")
		if clean := strings.Count(out, "No vulnerabilities found."); clean != modules {
			t.Errorf("%d of %d modules were looked up:\n%s", clean, modules, out)
		}
	}},
	{"skopeo copy", func(t *testing.T, d *depot, _ string) { d.demandAll(t, false) }},
	{"oras cp", func(t *testing.T, d *depot, _ string) { d.demandAll(t, true) }},
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	noError(t, err)
	return string(text)
}

func (d *depot) demandAll(t *testing.T, bills bool) {
	t.Helper()
	for _, program := range mesh.Daemons() {
		d.demand(t, filepath.Join(root, "bin", "images"), program, bills)
	}
}

// TestRepositoryAsDocumented types what is for the repository itself, in it. The registry of the documents is one on this machine, empty before
// each block, and the database of vulnerabilities a small one with nothing for us.
func TestRepositoryAsDocumented(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for program, path := range map[string]string{
		"kubectl": kubectl(t), "skopeo": skopeo(t), "oras": cluster.Build(t, "oras", "test/images/oras", "oras.land/oras/cmd/oras"),
	} {
		symlink(t, path, filepath.Join(bin, program))
	}
	d := openDepot(t)
	shell := commands.Shell{
		Dir: repository(t),
		Env: append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "MAKEFLAGS=", "GOVULNDB="+harmless(t),
			"SSL_CERT_DIR="+cmp.Or(os.Getenv("SSL_CERT_DIR"), "/etc/ssl/certs")+":"+d.certificates),
		Here: strings.NewReplacer("registry.example", d.address()),
	}
	held := map[string]bool{}
	for _, document := range documents(t) {
		for _, b := range blocks(t, document) {
			if !b.Is("sh repository") {
				continue
			}
			d.empty()
			ctx, cancel := context.WithTimeout(t.Context(), lookup)
			out, err := shell.Run(ctx, b.Text)
			cancel()
			if err != nil {
				t.Errorf("%s: %v", b.Where(), err)
				continue
			}
			for _, o := range outcomes {
				if strings.Contains(b.Text, o.block) {
					o.holds(t, d, out)
					held[o.block] = true
				}
			}
		}
	}
	if len(held) != len(outcomes) {
		t.Errorf("of the commands that come to something, only these were typed: %v", held)
	}
}

// kubectl is that of the machine, or the one of the Kubernetes that the test cluster runs.
func kubectl(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("kubectl")
	if err != nil {
		path = cluster.Build(t, "kubectl", "test/cluster/binaries/kubernetes", "k8s.io/kubernetes/cmd/kubectl")
	}
	return path
}

// skopeo is that of the machine. Where it is missing it is installed, as what a node needs is.
func skopeo(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("skopeo")
	if err == nil {
		return path
	}
	if os.Geteuid() != 0 {
		t.Fatalf("the documents copy images with skopeo: install it, or run this as root, who has apt-get install it: %v", err)
	}
	t.Log("installing skopeo (once)")
	for _, args := range [][]string{{"update", "-q"}, {"install", "-q", "-y", "--no-install-recommends", "skopeo"}} {
		c := exec.CommandContext(t.Context(), "apt-get", append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)...)
		c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("apt-get %s: %v: install skopeo\n%s", strings.Join(args, " "), err, out)
		}
	}
	path, err = exec.LookPath("skopeo")
	noError(t, err)
	return path
}
