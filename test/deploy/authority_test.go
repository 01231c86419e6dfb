package deploy_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/manual/commands"
)

// believer is somebody with a certificate, or without one, and whom they trust.
type believer struct {
	name  string
	leaf  *x509.Certificate
	roots *x509.CertPool
}

// trusts is why one does not trust another.
func (h believer) trusts(other believer) error {
	if other.leaf == nil {
		return nil
	}
	_, err := other.leaf.Verify(x509.VerifyOptions{Roots: h.roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err
}

// believers are who has these Secrets.
func (p *provision) believers(t *testing.T, names []string) (all []believer) {
	t.Helper()
	for _, name := range names {
		object, err := p.Client().CoreV1().Secrets(p.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		h := believer{name: name, roots: x509.NewCertPool()}
		if !h.roots.AppendCertsFromPEM(object.Data["ca.crt"]) {
			t.Fatalf("%s trusts nobody", name)
		}
		if object.Type == corev1.SecretTypeTLS {
			pair, err := tls.X509KeyPair(object.Data["tls.crt"], object.Data["tls.key"])
			if err != nil {
				t.Fatal(err)
			}
			h.leaf = pair.Leaf
		}
		all = append(all, h)
	}
	return all
}

// typist types the blocks of steps of a document in the namespace of the test. What they have the Job do, its command does.
func (p *provision) typist(t *testing.T, replace ...string) *commands.Shell {
	t.Helper()
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		kubectl = cluster.Build(t, "kubectl", "test/cluster/binaries/kubernetes", "k8s.io/kubernetes/cmd/kubectl")
	}
	bin := t.TempDir()
	if err := os.Symlink(kubectl, filepath.Join(bin, "kubectl")); err != nil {
		t.Fatal(err)
	}
	return &commands.Shell{
		Dir: t.TempDir(), Env: []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + t.TempDir(), "KUBECONFIG=" + p.Kubeconfig()},
		Here: strings.NewReplacer(append(replace, "-n portcullis ", "-n "+p.namespace+" ")...),
	}
}

// withoutTheJob is a block, without its lines that have a new Job made and wait for it.
func withoutTheJob(b commands.Block) (text string, hadOne bool) {
	lines := b.Commands()
	kept := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return strings.HasPrefix(line, "kubectl delete job ") || line == "kubectl apply -k ." || strings.HasPrefix(line, "kubectl wait ")
	})
	return strings.Join(kept, "\n"), len(kept)+3 == len(lines)
}

// TestAuthorityIsReplacedAsDocumented types docs/certificates.md, "Another authority, without closing", for each of the two authorities: at
// every step who has it already and who has it not yet trust each other, and at the end nobody trusts the old one.
func TestAuthorityIsReplacedAsDocumented(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.ControlPlane)
	p := newProvision(t, c, "certs-job")
	if _, err := p.run(t, once); err != nil {
		t.Fatal(err)
	}
	all, err := commands.Read(filepath.Join(root, "docs", "certificates.md"))
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(b commands.Block) bool { return !b.Is("sh node steps") })
	for authority, names := range map[string][]string{
		"portcullis-mesh-ca": {"portcullis-tokenauth-mesh-tls", "portcullis-supervisorctl-mesh-tls", "portcullis-lifecycle-mesh-tls", "portcullis-relay-mesh-tls"},
		"portcullis-nats-ca": {"portcullis-nats-tls", "portcullis-nswatch-nats", "portcullis-lifecycle-nats", "portcullis-operator-nats"},
	} {
		shell := p.typist(t, "portcullis-mesh-ca", authority)
		begin := p.believers(t, names)
		before, taken := begin, 0
		for _, b := range all {
			text, step := withoutTheJob(b)
			if !step && !strings.Contains(text, "openssl") {
				continue // what people wait for, and what is done when all is over
			}
			if out, err := shell.Run(t.Context(), text); err != nil {
				t.Fatalf("%s: %v\n%s", b.Where(), err, out)
			}
			if !step {
				continue
			}
			taken++
			if _, err := p.run(t, once); err != nil {
				t.Fatalf("%s: %v", b.Where(), err)
			}
			after := p.believers(t, names)
			for _, one := range slices.Concat(before, after) {
				for _, other := range slices.Concat(before, after) {
					if err := one.trusts(other); err != nil {
						t.Errorf("%s: %s does not trust %s: %v", b.Where(), one.name, other.name, err)
					}
				}
			}
			before = after
		}
		if taken != 3 {
			t.Errorf("there are %d steps", taken)
		}
		for _, h := range before {
			if h.trusts(begin[0]) == nil {
				t.Errorf("%s trusts the old one of %s still", h.name, authority)
			}
		}
	}
}
