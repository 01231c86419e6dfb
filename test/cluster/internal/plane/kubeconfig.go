package plane

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/pki"
)

// AdminKubeconfig writes a self-contained kubeconfig of a cluster administrator and returns its path.
func (p *Plane) AdminKubeconfig() (string, error) {
	pair, err := p.ca.Client("admin", "portcullis-test:admin", "system:masters")
	if err != nil {
		return "", err
	}
	return p.Kubeconfig("admin", pair)
}

// Kubeconfig writes a self-contained kubeconfig for the owner of pair and returns its path.
func (p *Plane) Kubeconfig(name string, pair pki.Pair) (string, error) {
	ca, err := os.ReadFile(p.ca.File())
	if err != nil {
		return "", err
	}
	cert, err := os.ReadFile(pair.Cert)
	if err != nil {
		return "", err
	}
	key, err := os.ReadFile(pair.Key)
	if err != nil {
		return "", err
	}
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["test"] = &clientcmdapi.Cluster{Server: p.URL(), CertificateAuthorityData: ca}
	cfg.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	cfg.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: name}
	cfg.CurrentContext = "test"
	path := filepath.Join(p.cfg.Dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		return "", fmt.Errorf("write the kubeconfig of %s: %w", name, err)
	}
	return path, os.Chmod(path, 0o600)
}
