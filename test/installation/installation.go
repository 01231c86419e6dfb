package installation

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// account is the ServiceAccount of nswatch.
const account = "nswatch"

// Installation is the allowlist of one gateway. Its methods belong to the test's goroutine.
type Installation struct {
	// Cluster holds the namespaces, URLs are the NATS servers, GatewayID names the list.
	Cluster   *cluster.Cluster
	URLs      []string
	GatewayID string
	// Namespace holds the Lease and the ServiceAccount.
	Namespace string
	// Label selects the namespaces that are trusted, as key=value.
	Label string
	// File is the source instead of Label when it is not empty.
	File string
	// Bounds are lines of the table [portcullis.allowlist], such as "max_staleness = \"3s\"". They hold for what is
	// started from then on.
	Bounds []string
	// Extra are whole tables that are added to the settings of nswatch.
	Extra string
	// Authority is the certificate, PEM, of who answers where nswatch is told to find the API server; nil for the API server itself.
	Authority []byte

	t                   testing.TB
	privateKey, publics string
	public              string // the line of the newest signing key
}

// New prepares an installation on the cluster and on the NATS servers, and starts nothing. The bucket is not made:
// Bootstrap does that.
func New(t testing.TB, c *cluster.Cluster, urls ...string) *Installation {
	t.Helper()
	namespace := c.Namespace(t)
	i := &Installation{
		Cluster: c, URLs: urls, GatewayID: "gw-" + namespace, Namespace: namespace,
		Label: "portcullis.test/" + namespace + "=allowed", t: t,
	}
	dir := t.TempDir()
	i.privateKey, i.publics = filepath.Join(dir, "signing.key"), filepath.Join(dir, "public.keys")
	i.Trust(i.Rekey())
	i.grant()
	return i
}

// Rekey makes a new signing key for what is started from now on, and returns the line of its public key.
func (i *Installation) Rekey() (public string) {
	i.t.Helper()
	signer, err := allowlist.GenerateSigner(rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	private, err := signer.PrivateFile()
	if err != nil {
		i.t.Fatal(err)
	}
	i.write(i.privateKey, private.Expose())
	i.public = signer.Public().FileLine()
	return i.public
}

// Public is the line of the newest signing key's public key.
func (i *Installation) Public() string { return i.public }

// PublicKeysFile is where the public keys of readers and writers are.
func (i *Installation) PublicKeysFile() string { return i.publics }

// Trust makes these lines the public keys of readers and writers.
func (i *Installation) Trust(publics ...string) {
	i.t.Helper()
	i.write(i.publics, []byte(strings.Join(publics, "\n")+"\n"))
}

// write replaces a file in one step.
func (i *Installation) write(path string, content []byte) {
	i.t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		i.t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		i.t.Fatal(err)
	}
}

// Settings are those of one nswatch that reaches the API server at the address, which is the API server's own when it
// is empty, and uses these NATS servers, which are those of the installation when none are given.
func (i *Installation) Settings(apiServer string, urls ...string) string {
	i.t.Helper()
	if len(urls) == 0 {
		urls = i.URLs
	}
	source := fmt.Sprintf("operator_namespace_label = %q", i.Label)
	if i.File != "" {
		source = fmt.Sprintf("operator_namespace_file = %q", i.File)
	}
	return fmt.Sprintf(`[openshell.drivers.kubernetes]
workspace_mode = "operator"
gateway_id = %q
%s

[portcullis.nswatch]
http_address = "127.0.0.1:0"
signing_key_file = %q
lease_namespace = %q

[portcullis.nats]
urls = ["%s"]

[portcullis.kubernetes]
kubeconfig = %q

[portcullis.allowlist]
public_keys_file = %q
%s
%s`, i.GatewayID, source, i.privateKey, i.Namespace, strings.Join(urls, `", "`), i.kubeconfig(apiServer), i.publics,
		strings.Join(i.Bounds, "\n"), i.Extra)
}

// Nswatch starts one nswatch.
func (i *Installation) Nswatch() *program.Process {
	i.t.Helper()
	return program.Start(i.t, "nswatch", i.Settings(""))
}

// kubeconfig acts as nswatch. An address other than the API server's own is that of a proxy in front of it.
func (i *Installation) kubeconfig(address string) string {
	i.t.Helper()
	rc := i.Cluster.ServiceAccountConfig(i.t, i.Namespace, account)
	target := &clientcmdapi.Cluster{Server: rc.Host, CertificateAuthorityData: rc.CAData}
	if address != "" {
		target.TLSServerName = strings.Split(Address(rc), ":")[0]
		target.Server = "https://" + address
	}
	if i.Authority != nil {
		target.TLSServerName, target.CertificateAuthorityData = "", i.Authority
	}
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["test"] = target
	cfg.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: rc.BearerToken}
	cfg.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: account, Namespace: i.Namespace}
	cfg.CurrentContext = "test"
	path := filepath.Join(i.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		i.t.Fatal(err)
	}
	return path
}

// Address is the "host:port" of an API server.
func Address(rc *rest.Config) string {
	return strings.TrimSuffix(strings.TrimPrefix(rc.Host, "https://"), "/")
}
