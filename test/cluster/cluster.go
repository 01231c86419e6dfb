package cluster

import (
	"context"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/dns"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/keeper"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/manifest"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/node"
)

// Profile chooses what a cluster consists of.
type Profile = keeper.Profile

// The profiles.
const (
	ControlPlane = keeper.ControlPlane
	Node         = keeper.Node
)

// Facts of the Node profile.
const (
	// HostAddress is where Pods reach programs that listen on the machine.
	HostAddress = node.HostAddress
	// ProbeImage is an image that answers over HTTP what a Pod can reach and read: see images/probe.
	ProbeImage = node.ProbeImage
	// DNSAddress is where Pods look for the name server, which runs if it was asked for: see [Cluster.DNS].
	DNSAddress = dns.Address
	// NodeName is the name of the one node.
	NodeName = node.Name
)

// startLimit bounds the wait for a cluster whose binaries are built.
const startLimit = 5 * time.Minute

// Cluster is a running cluster, seen by a test.
type Cluster struct {
	kubeconfig string
	socket     string // containerd's, Node profile only
	rest       *rest.Config
	client     kubernetes.Interface
	dynamic    dynamic.Interface
	applier    *manifest.Applier
}

// Start returns the shared cluster of the profile, starting it if none runs. It stays up as long as
// any test process uses it, and about a minute longer.
func Start(t testing.TB, p Profile) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	a, err := keeper.Attach(ctx, p, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Release)
	return connect(t, a.Kubeconfig, a.Socket)
}

// DNS gives the cluster its name server, if nobody has yet: Pods then resolve the names of Services. It stays as long as
// the cluster. Node profile only.
func (c *Cluster) DNS(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	if err := keeper.ServeDNS(ctx, c.kubeconfig, c.socket, os.Stderr); err != nil {
		t.Fatal(err)
	}
}

func connect(t testing.TB, kubeconfig, socket string) *Cluster {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatalf("read the cluster's kubeconfig: %v", err)
	}
	cfg.QPS, cfg.Burst = 1000, 2000 // a test is not to be slowed down by its own client
	c := &Cluster{kubeconfig: kubeconfig, socket: socket, rest: cfg}
	if c.client, err = kubernetes.NewForConfig(cfg); err != nil {
		t.Fatalf("make a client: %v", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		t.Fatalf("make a dynamic client: %v", err)
	}
	c.applier = manifest.NewApplier(c.dynamic, c.client)
	return c
}

// Kubeconfig is the path of an administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// RESTConfig returns an administrator's client configuration; the caller may change the copy.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.rest) }

// Client is an administrator's typed client.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// Dynamic is an administrator's dynamic client.
func (c *Cluster) Dynamic() dynamic.Interface { return c.dynamic }
