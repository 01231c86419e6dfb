package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/binary"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/dns"
)

// ServeDNS gives the running node cluster that the kubeconfig and containerd's socket belong to its name server, and
// returns once it answers. It stays as long as the cluster; to ask again is cheap and changes nothing.
func ServeDNS(ctx context.Context, kubeconfig, socket string, log io.Writer) (err error) {
	if socket == "" {
		return errors.New("only the node profile runs Pods, and so a name server")
	}
	cache, err := newCache(log)
	if err != nil {
		return err
	}
	bins, err := cache.Paths(ctx, binary.CoreDNS)
	if err != nil {
		return err
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read the cluster's kubeconfig: %w", err)
	}
	typed, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	untyped, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "coredns")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return dns.Deploy(ctx, typed, untyped, socket, bins[binary.CoreDNS.Name], dir)
}
