package kubeclient

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// maxKubeconfig bounds one kubeconfig file, bytes.
const maxKubeconfig = 4 << 20

// environment is what New takes from its process.
type environment struct {
	getenv         func(string) string
	serviceAccount string // the directory where a Pod finds its token
}

func processEnvironment() environment {
	return environment{getenv: os.Getenv, serviceAccount: "/var/run/secrets/kubernetes.io/serviceaccount"}
}

// located is a configuration and the words for where it came from.
type located struct {
	*rest.Config
	from string
}

// locate finds the configuration by the order in the package comment and checks that it is one we may use.
func locate(cfg Config, env environment) (located, error) {
	found, err := find(cfg, env)
	if err != nil {
		return located{}, oneLine(err)
	}
	if err := acceptable(found.Config); err != nil {
		return located{}, fmt.Errorf("%s: %w", found.from, oneLine(err))
	}
	return found, nil
}

func find(cfg Config, env environment) (located, error) {
	if cfg.Kubeconfig != "" {
		return fromKubeconfig([]string{cfg.Kubeconfig}, cfg.Context)
	}
	inCluster, why := fromServiceAccount(env)
	if why == nil {
		return inCluster, nil
	}
	if list := env.getenv("KUBECONFIG"); list != "" {
		return fromKubeconfig(filepath.SplitList(list), "")
	}
	home := env.getenv("HOME")
	if home == "" {
		return located{}, fmt.Errorf("found no Kubernetes configuration: not in a Pod (%w), and KUBECONFIG and HOME are not set: set [portcullis.kubernetes] kubeconfig", why)
	}
	path := filepath.Join(home, ".kube", "config")
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return located{}, fmt.Errorf("found no Kubernetes configuration: not in a Pod (%w), KUBECONFIG is not set, and there is no %s: set [portcullis.kubernetes] kubeconfig", why, path)
	}
	return fromKubeconfig([]string{path}, "")
}

// fromServiceAccount is the configuration of a Pod. Unlike client-go's it insists on the mounted authority: without
// it the system's roots would decide whom to trust.
func fromServiceAccount(env environment) (located, error) {
	host, port := env.getenv("KUBERNETES_SERVICE_HOST"), env.getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return located{}, errors.New("KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set")
	}
	token := filepath.Join(env.serviceAccount, "token")
	if _, err := os.Stat(token); err != nil {
		return located{}, fmt.Errorf("the ServiceAccount token is not mounted: %w", err)
	}
	return located{
		Config: &rest.Config{
			Host:            "https://" + net.JoinHostPort(host, port),
			BearerTokenFile: token,
			TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(env.serviceAccount, "ca.crt")},
		},
		from: "ServiceAccount in " + env.serviceAccount,
	}, nil
}

// fromKubeconfig reads and merges the files. In a list of several, absent ones are passed over, as kubectl does.
func fromKubeconfig(paths []string, context string) (located, error) {
	from := "kubeconfig " + strings.Join(paths, string(filepath.ListSeparator))
	var present []string
	for _, path := range paths {
		switch err := checkKubeconfigFile(path); {
		case err == nil:
			present = append(present, path)
		case len(paths) == 1 || !errors.Is(err, os.ErrNotExist):
			return located{}, fmt.Errorf("%s: %w", from, err)
		}
	}
	if len(present) == 0 {
		return located{}, fmt.Errorf("%s: none of the files exists", from)
	}
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: present}
	raw, err := rules.Load()
	if err != nil {
		return located{}, fmt.Errorf("%s: %w", from, err)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*raw, context, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return located{}, fmt.Errorf("%s: it names no cluster: set current-context, or [portcullis.kubernetes] context", from)
	}
	if err != nil {
		return located{}, fmt.Errorf("%s: %w", from, err)
	}
	return located{Config: config, from: from}, nil
}

func checkKubeconfigFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxKubeconfig:
		return fmt.Errorf("%s is larger than %d bytes", path, maxKubeconfig)
	}
	return nil
}

// acceptable refuses what would run a program, skip verification, or go without an identity.
func acceptable(c *rest.Config) error {
	u, err := url.Parse(c.Host)
	switch {
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil:
		return errors.New("the server must be https://host:port, without credentials in it")
	case c.Insecure:
		return errors.New("insecure-skip-tls-verify is not supported: set certificate-authority")
	case c.ExecProvider != nil:
		return fmt.Errorf("the user's credentials come from a program (exec %s), which is not supported: use tokenFile or a client certificate", c.ExecProvider.Command)
	case c.AuthProvider != nil:
		return fmt.Errorf("the user's auth-provider %s is not supported: use tokenFile or a client certificate", c.AuthProvider.Name)
	case c.Username != "" || c.Password != "":
		return errors.New("the user has a name and password, which API servers do not take: use tokenFile or a client certificate")
	case c.BearerToken == "" && c.BearerTokenFile == "" && c.CertFile == "" && len(c.CertData) == 0:
		return errors.New("the user has no credentials: use tokenFile or a client certificate")
	}
	return nil
}

// oneLine joins the lines of an error that came from elsewhere.
func oneLine(err error) error { return lineError{err} }

type lineError struct{ error }

func (e lineError) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }
func (e lineError) Unwrap() error { return e.error }
