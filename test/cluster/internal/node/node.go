package node

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/image"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/plane"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/process"
)

// Name is the node's name in the cluster.
const Name = "node-1"

// PauseImage is the image that holds a Pod's namespaces; ProbeImage is what test Pods may run.
const (
	PauseImage = "portcullis.test/pause:1"
	ProbeImage = "portcullis.test/probe:1"
)

const readyLimit = 2 * time.Minute

// routerHealthPort is kube-router's, on the node's address.
const routerHealthPort = 20244

// Config says where a node lives and which control plane it joins.
type Config struct {
	Dir      string            // its data and logs; short, since Unix sockets lie below it
	Binaries map[string]string // by name, the images' own programs "pause" and "probe" included
	Plane    *plane.Plane
}

// Node is a running node.
type Node struct {
	cfg     Config
	starter *process.Starter

	containerd, kubelet, proxy, router *process.Process
}

// Start runs a node and returns once it is Ready and has its images. The network must be up. On an
// error nothing is left running.
func Start(ctx context.Context, cfg Config) (_ *Node, err error) {
	starter, err := process.NewStarter(filepath.Join(cfg.Dir, "logs"), NetNS)
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, starter: starter}
	defer func() {
		if err != nil {
			n.Stop()
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	err = starter.Run(ctx, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.bridge.bridge-nf-call-iptables=1")
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{n.startContainerd, n.loadImages, n.startKubelet, n.startProxy, n.awaitReady, n.startRouter} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (n *Node) startContainerd(ctx context.Context) (err error) {
	if err := makeCgroups(); err != nil {
		return err
	}
	if err := n.write("cni/10-bridge.conflist", cniConfig(n.cfg.Dir)); err != nil {
		return err
	}
	if err := n.write("containerd.toml", containerdConfig(n.cfg.Dir)); err != nil {
		return err
	}
	n.containerd, err = n.starter.Start(process.Spec{
		Name: "containerd", Path: "/usr/bin/containerd",
		Args: []string{"--config", filepath.Join(n.cfg.Dir, "containerd.toml")},
	})
	if err != nil {
		return err
	}
	if err := joinSystem(n.containerd.PID()); err != nil {
		return err
	}
	return n.containerd.Await(ctx, func(ctx context.Context) error {
		return n.starter.Run(ctx, "ctr", "--address", n.Socket(), "version")
	})
}

func (n *Node) loadImages(ctx context.Context) error {
	for ref, program := range map[string]string{PauseImage: "pause", ProbeImage: "probe"} {
		archive := filepath.Join(n.cfg.Dir, program+".tar")
		err := image.Write(archive, image.Spec{
			Ref:        ref,
			Programs:   map[string]string{"/" + program: n.cfg.Binaries[program]},
			Entrypoint: []string{"/" + program},
		})
		if err != nil {
			return err
		}
		if err := image.Load(ctx, n.Socket(), archive); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) startKubelet(context.Context) error {
	pair, err := n.cfg.Plane.Authority().Client("kubelet", "system:node:"+Name, "system:nodes")
	if err != nil {
		return err
	}
	serving, err := n.cfg.Plane.Authority().Serving("kubelet-serving", Name, Address)
	if err != nil {
		return err
	}
	kubeconfig, err := n.cfg.Plane.Kubeconfig("kubelet", pair)
	if err != nil {
		return err
	}
	if err := n.write("kubelet.yaml", kubeletConfig(n.cfg.Dir, n.cfg.Plane.Authority().File(), serving)); err != nil {
		return err
	}
	n.kubelet, err = n.starter.Start(process.Spec{Name: "kubelet", Path: n.cfg.Binaries["kubelet"], Args: []string{
		"--config=" + filepath.Join(n.cfg.Dir, "kubelet.yaml"),
		"--kubeconfig=" + kubeconfig,
		"--root-dir=" + filepath.Join(n.cfg.Dir, "kubelet"),
		"--hostname-override=" + Name,
		"--node-ip=" + Address,
	}})
	if err != nil {
		return err
	}
	return joinSystem(n.kubelet.PID())
}

func (n *Node) startProxy(context.Context) error {
	pair, err := n.cfg.Plane.Authority().Client("kube-proxy", "system:kube-proxy")
	if err != nil {
		return err
	}
	kubeconfig, err := n.cfg.Plane.Kubeconfig("kube-proxy", pair)
	if err != nil {
		return err
	}
	if err := n.write("kube-proxy.yaml", proxyConfig(kubeconfig)); err != nil {
		return err
	}
	n.proxy, err = n.starter.Start(process.Spec{
		Name: "kube-proxy", Path: n.cfg.Binaries["kube-proxy"],
		Args: []string{"--config=" + filepath.Join(n.cfg.Dir, "kube-proxy.yaml")},
	})
	return err
}

// startRouter comes last: kube-router ends at once if the node is not registered yet.
func (n *Node) startRouter(ctx context.Context) error {
	pair, err := n.cfg.Plane.Authority().Client("kube-router", "portcullis-test:kube-router", "system:masters")
	if err != nil {
		return err
	}
	kubeconfig, err := n.cfg.Plane.Kubeconfig("kube-router", pair)
	if err != nil {
		return err
	}
	n.router, err = n.starter.Start(process.Spec{Name: "kube-router", Path: n.cfg.Binaries["kube-router"], Args: []string{
		"--kubeconfig=" + kubeconfig,
		"--hostname-override=" + Name,
		"--run-firewall=true", "--run-router=false", "--run-service-proxy=false", "--run-loadbalancer=false",
		fmt.Sprintf("--health-port=%d", routerHealthPort),
	}})
	if err != nil {
		return err
	}
	return n.router.Await(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/healthz", Address, routerHealthPort), nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("kube-router's health is %s", resp.Status)
		}
		return nil
	})
}

func (n *Node) awaitReady(ctx context.Context) error {
	path, err := n.cfg.Plane.AdminKubeconfig()
	if err != nil {
		return err
	}
	rc, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return err
	}
	return n.kubelet.Await(ctx, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("node %s is registered but not Ready", Name)
	})
}

// Socket is the address of the node's containerd.
func (n *Node) Socket() string { return socketPath(n.cfg.Dir) }

// Programs returns what runs, containers aside.
func (n *Node) Programs() []*process.Process {
	return []*process.Process{n.containerd, n.kubelet, n.proxy, n.router}
}

// Stop ends the node's programs and its containers. Clean removes the rest.
func (n *Node) Stop() {
	for _, p := range []*process.Process{n.kubelet, n.proxy, n.router} {
		if p != nil {
			p.Kill()
		}
	}
	killContainers(n.Socket())
	if n.containerd != nil {
		n.containerd.Stop(5 * time.Second)
	}
	n.starter.Close()
}

func (n *Node) write(name, body string) error {
	path := filepath.Join(n.cfg.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(body), 0o600)
}

func socketPath(dir string) string { return filepath.Join(dir, "containerd.sock") }
