package mesh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenLife is what is asked for: an API server may give less.
const tokenLife = 24 * time.Hour

// lookAtTokens is how often it is looked whether tokens are due. It is short because a machine may sleep longer than a token lives.
const lookAtTokens = time.Minute

// token is of one daemon's ServiceAccount.
type token struct{ issued, expires time.Time }

// due reports whether it is to be replaced: at 80 % of its life, as kubelets do. The times are the wall clock's, which goes on while
// the machine sleeps.
func (t token) due(now time.Time) bool {
	now = now.Round(0)
	return !now.Before(t.issued.Round(0).Add(t.expires.Sub(t.issued.Round(0)) * 4 / 5))
}

// kubeconfig acts as a daemon's ServiceAccount, by a token in a file beside it, which daemons read again when it has changed.
func (m *Mesh) kubeconfig(ctx context.Context, daemon, path string) error {
	if err := m.renew(ctx, daemon, time.Now()); err != nil {
		return err
	}
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["cluster"] = &clientcmdapi.Cluster{
		Server: m.options.Cluster.Host, CertificateAuthority: m.options.Cluster.CAFile, CertificateAuthorityData: m.options.Cluster.CAData,
		TLSServerName: m.options.Cluster.ServerName, InsecureSkipTLSVerify: m.options.Cluster.Insecure,
	}
	cfg.AuthInfos[daemon] = &clientcmdapi.AuthInfo{TokenFile: m.tokenFile(daemon)}
	cfg.Contexts["cluster"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: daemon, Namespace: m.Namespace()}
	cfg.CurrentContext = "cluster"
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		return fmt.Errorf("write the kubeconfig of %s: %w", daemon, err)
	}
	return nil
}

func (m *Mesh) tokenFile(daemon string) string { return filepath.Join(m.home(daemon), "token") }

// renew gets a new token for a daemon and puts it in the place of the former one in one step.
func (m *Mesh) renew(ctx context.Context, daemon string, now time.Time) error {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenLife / time.Second))}}
	answered, err := m.client.CoreV1().ServiceAccounts(m.Namespace()).CreateToken(ctx, daemon, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("get a token for %s: %w", daemon, err)
	}
	path := m.tokenFile(daemon)
	if err := os.WriteFile(path+".new", []byte(answered.Status.Token), 0o600); err != nil {
		return fmt.Errorf("write the token of %s: %w", daemon, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("replace the token of %s: %w", daemon, err)
	}
	m.tokenLock.Lock()
	defer m.tokenLock.Unlock()
	m.tokens[daemon] = token{issued: now, expires: answered.Status.ExpirationTimestamp.Time}
	return nil
}

// RenewTokens replaces the tokens of all daemons that are due at a time. It may be called while other methods are.
func (m *Mesh) RenewTokens(ctx context.Context, now time.Time) error {
	var problems []error
	for _, daemon := range Daemons() {
		m.tokenLock.Lock()
		old, known := m.tokens[daemon]
		m.tokenLock.Unlock()
		if known && old.due(now) {
			problems = append(problems, m.renew(ctx, daemon, now))
		}
	}
	return errors.Join(problems...)
}

// KeepTokens replaces the tokens in good time until ctx ends, for a mesh that stands for longer than they live. A failure is told, and
// tried again.
func (m *Mesh) KeepTokens(ctx context.Context, told func(error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAtTokens):
		}
		if err := m.RenewTokens(ctx, time.Now()); err != nil && ctx.Err() == nil {
			told(err)
		}
	}
}
