package kubeclient

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

// environment is what New takes from its process.
type environment struct {
	getenv         func(string) string
	serviceAccount string // the directory where a Pod finds its token
}

func processEnvironment() environment {
	return environment{getenv: os.Getenv, serviceAccount: "/var/run/secrets/kubernetes.io/serviceaccount"}
}

// locate finds the configuration by the order in the package comment and checks that it is one we may use.
func locate(cfg Config, env environment) (target, error) {
	found, err := find(cfg, env)
	if err == nil && found.proxy == nil {
		found.proxy, err = environmentProxy(env.getenv)
	}
	if err != nil {
		return target{}, pemfile.OneLine(err)
	}
	return found, nil
}

func find(cfg Config, env environment) (target, error) {
	if cfg.Kubeconfig != "" {
		return fromKubeconfig([]string{cfg.Kubeconfig}, cfg.Context)
	}
	why := missingServiceAccount(env)
	if why == nil {
		return fromServiceAccount(env)
	}
	if list := env.getenv("KUBECONFIG"); list != "" {
		return fromKubeconfig(filepath.SplitList(list), "")
	}
	home := env.getenv("HOME")
	if home == "" {
		return target{}, fmt.Errorf("found no Kubernetes configuration: not in a Pod (%w), and KUBECONFIG and HOME are not set: set [portcullis.kubernetes] kubeconfig", why)
	}
	path := filepath.Join(home, ".kube", "config")
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return target{}, fmt.Errorf("found no Kubernetes configuration: not in a Pod (%w), KUBECONFIG is not set, and there is no %s: set [portcullis.kubernetes] kubeconfig", why, path)
	}
	return fromKubeconfig([]string{path}, "")
}

// missingServiceAccount says what a Pod would have and this process has not.
func missingServiceAccount(env environment) error {
	if env.getenv("KUBERNETES_SERVICE_HOST") == "" || env.getenv("KUBERNETES_SERVICE_PORT") == "" {
		return errors.New("KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set")
	}
	if _, err := os.Stat(filepath.Join(env.serviceAccount, "token")); err != nil {
		return fmt.Errorf("the ServiceAccount token is not mounted: %w", err)
	}
	return nil
}

// fromServiceAccount is the configuration of a Pod. Unlike client-go's it insists on the mounted authority: without
// it the system's roots would decide whom to trust.
func fromServiceAccount(env environment) (target, error) {
	from := "ServiceAccount in " + env.serviceAccount
	host, port := env.getenv("KUBERNETES_SERVICE_HOST"), env.getenv("KUBERNETES_SERVICE_PORT")
	server, err := parseServer("https://" + net.JoinHostPort(host, port))
	if err != nil {
		return target{}, fmt.Errorf("%s: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: %w", from, err)
	}
	return target{
		from: from, server: server,
		token: tokenSource{path: filepath.Join(env.serviceAccount, "token")},
		tls:   tlsSources{ca: source{name: "certificate-authority", path: filepath.Join(env.serviceAccount, "ca.crt")}},
	}, nil
}
