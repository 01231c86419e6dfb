package kubeclient

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/net/http/httpguts"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"

	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// maxKubeconfig bounds one kubeconfig file, bytes.
const maxKubeconfig = 4 << 20

// fromKubeconfig reads and merges the files. In a list of several, absent and empty ones are passed over, as kubectl
// does.
//
// client-go only reads and merges. It could also make the configuration of it, but then opens every file that it names
// without a bound and prints a malformed proxy-url, password and all.
func fromKubeconfig(paths []string, context string) (target, error) {
	from := "kubeconfig " + strings.Join(paths, string(filepath.ListSeparator))
	var present []string
	for _, path := range paths {
		switch err := checkKubeconfigFile(path); {
		case err == nil:
			present = append(present, path)
		case len(paths) == 1 || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errEmpty):
			return target{}, fmt.Errorf("%s: %w", from, err)
		}
	}
	if len(present) == 0 {
		return target{}, fmt.Errorf("%s: none of the files exists and is not empty", from)
	}
	raw, err := (&clientcmd.ClientConfigLoadingRules{Precedence: present}).Load()
	if err != nil {
		return target{}, fmt.Errorf("%s: %s", from, withoutValues(err))
	}
	found, err := assemble(raw, context)
	if err != nil {
		return target{}, fmt.Errorf("%s: %w", from, err)
	}
	found.from = from
	return found, nil
}

var errEmpty = errors.New("it is empty, so it names no cluster")

func checkKubeconfigFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxKubeconfig:
		return fmt.Errorf("%s is larger than %d bytes", path, maxKubeconfig)
	case info.Size() == 0: // files of the kernel, which may block, say so too
		return errEmpty
	}
	return nil
}

// withoutValues is the text of an error of the loader without what it may quote of the content: the YAML library names
// anchors, tags and scalars, the conversion prints a whole list when a name is in it twice.
func withoutValues(err error) string {
	text, _, _ := strings.Cut(err.Error(), " in list:")
	if at := strings.Index(text, "yaml:"); at >= 0 {
		quoted := regexp.MustCompile("`[^`]*`?|'[^']*'?|\"[^\"]*\"?")
		text = text[:at] + quoted.ReplaceAllString(text[at:], secret.Marker)
	}
	return text
}

// assemble takes the cluster and the user of a context.
func assemble(raw *api.Config, name string) (target, error) {
	if name == "" {
		name = raw.CurrentContext
	}
	if name == "" {
		return target{}, errors.New("it names no cluster: set current-context, or [portcullis.kubernetes] context")
	}
	context := raw.Contexts[name]
	if context == nil {
		return target{}, fmt.Errorf("it has no context %q", name)
	}
	cluster := raw.Clusters[context.Cluster]
	if cluster == nil {
		return target{}, fmt.Errorf("it has no cluster %q, which the context %q names", context.Cluster, name)
	}
	user := raw.AuthInfos[context.AuthInfo]
	if user == nil && context.AuthInfo != "" {
		return target{}, fmt.Errorf("it has no user %q, which the context %q names", context.AuthInfo, name)
	}
	if user == nil {
		return target{}, errNoCredentials
	}
	var t target
	if err := t.takeCluster(cluster); err != nil {
		return target{}, err
	}
	if err := t.takeUser(user); err != nil {
		return target{}, err
	}
	return t, nil
}

// takeCluster refuses what would skip verification, and what no server could be reached with.
func (t *target) takeCluster(c *api.Cluster) error {
	if c.InsecureSkipTLSVerify {
		return errors.New("insecure-skip-tls-verify is not supported: set certificate-authority")
	}
	var err error
	if t.server, err = parseServer(c.Server); err != nil {
		return err
	}
	if strings.ContainsFunc(c.TLSServerName, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("tls-server-name is not a host name")
	}
	t.tls.serverName = c.TLSServerName
	if t.tls.ca, err = oneOf("certificate-authority", c.CertificateAuthority, c.CertificateAuthorityData); err != nil {
		return err
	}
	if c.ProxyURL == "" {
		return nil
	}
	proxy, err := parseProxy(c.ProxyURL)
	if err != nil {
		return fmt.Errorf("proxy-url %w", err)
	}
	t.proxy = http.ProxyURL(proxy)
	return nil
}

var errNoCredentials = errors.New("the user has no credentials: use tokenFile or a client certificate")

// takeUser refuses what would run a program or go without an identity.
func (t *target) takeUser(u *api.AuthInfo) error {
	switch {
	case u.Exec != nil:
		return fmt.Errorf("the user's credentials come from a program (exec %s), which is not supported: use tokenFile or a client certificate", u.Exec.Command)
	case u.AuthProvider != nil:
		return fmt.Errorf("the user's auth-provider %s is not supported: use tokenFile or a client certificate", u.AuthProvider.Name)
	case u.Username != "" || u.Password != "":
		return errors.New("the user has a name and password, which API servers do not take: use tokenFile or a client certificate")
	}
	var certErr, keyErr error
	t.tls.cert, certErr = oneOf("client-certificate", u.ClientCertificate, u.ClientCertificateData)
	t.tls.key, keyErr = oneOf("client-key", u.ClientKey, u.ClientKeyData)
	if err := errors.Join(certErr, keyErr); err != nil {
		return err
	}
	switch cert, key := t.tls.cert.set(), t.tls.key.set(); {
	case cert && !key:
		return errors.New("client-key is missing: client-certificate is set")
	case key && !cert:
		return errors.New("client-certificate is missing: client-key is set")
	case !cert && u.Token == "" && u.TokenFile == "":
		return errNoCredentials
	}
	t.token.path = u.TokenFile
	if u.Token != "" && u.TokenFile == "" { // the file wins, as in client-go
		token, err := parseToken([]byte(u.Token))
		if err != nil {
			return fmt.Errorf("the user's token %w", err)
		}
		t.token.inline = token
	}
	return t.takeImpersonation(u)
}

// takeImpersonation refuses values that no header can carry: every request would fail.
func (t *target) takeImpersonation(u *api.AuthInfo) error {
	values := append([]string{u.Impersonate, u.ImpersonateUID}, u.ImpersonateGroups...)
	for _, extra := range u.ImpersonateUserExtra {
		values = append(values, extra...)
	}
	for _, value := range values {
		if !httpguts.ValidHeaderFieldValue(value) {
			return errors.New("as, as-uid, as-groups and as-user-extra must not have control characters in them")
		}
	}
	if u.Impersonate == "" && (u.ImpersonateUID != "" || len(u.ImpersonateGroups) > 0 || len(u.ImpersonateUserExtra) > 0) {
		return errors.New("as-uid, as-groups and as-user-extra have no effect without as")
	}
	t.impersonate = transport.ImpersonationConfig{
		UserName: u.Impersonate, UID: u.ImpersonateUID, Groups: u.ImpersonateGroups, Extra: u.ImpersonateUserExtra,
	}
	return nil
}

func oneOf(name, path string, data []byte) (source, error) {
	if path != "" && len(data) > 0 {
		return source{}, fmt.Errorf("%s and %s-data are both set: remove one of them", name, name)
	}
	return source{name: name, path: path, data: secret.New(data)}, nil
}
