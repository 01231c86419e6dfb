package plane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/freeport"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/pki"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/process"
)

// startLimit bounds how long one component may take to become ready. A busy two-core machine needs
// about ten seconds for the slowest.
const startLimit = 2 * time.Minute

// Config says where a control plane lives and what surrounds it.
type Config struct {
	Dir      string            // its data, certificates and logs; removed by the owner
	Binaries map[string]string // paths by program name
	// Address is what the API server listens on; 127.0.0.1 when empty. Any other address is also
	// advertised to the cluster as the endpoint of the kubernetes Service.
	Address string
	// Port is the API server's, if it is free; any other if not, and when zero. Where policies are enforced they are judged
	// by this port, not by the Service's, and policies name the usual one.
	Port int
	// PodCIDR is set when a real node joins: the controller manager then hands out Pod ranges.
	PodCIDR string
}

// ServiceCIDR is the range of cluster addresses; the API server takes the first.
const ServiceCIDR = "10.96.0.0/16"

// Plane is a running control plane.
type Plane struct {
	cfg     Config
	starter *process.Starter
	ca      *pki.Authority

	etcdPort, apiPort   int
	saPrivate, saPublic string
	serving, kubelet    pki.Pair

	etcd, api, controllers, scheduler *process.Process

	held []freeport.Port
}

// Start runs a control plane and returns once it answers and its default objects exist. On an error
// nothing is left running.
func Start(ctx context.Context, cfg Config) (_ *Plane, err error) {
	if cfg.Address == "" {
		cfg.Address = "127.0.0.1"
	}
	starter, err := process.NewStarter(filepath.Join(cfg.Dir, "logs"), "")
	if err != nil {
		return nil, err
	}
	p := &Plane{cfg: cfg, starter: starter}
	defer func() {
		if err != nil {
			p.Stop()
		}
	}()
	if err := p.certificates(); err != nil {
		return nil, fmt.Errorf("make certificates: %w", err)
	}
	if err := p.startEtcd(ctx); err != nil {
		return nil, err
	}
	if err := p.StartAPIServer(ctx); err != nil {
		return nil, err
	}
	return p, p.startControllers(ctx)
}

func (p *Plane) certificates() (err error) {
	dir := filepath.Join(p.cfg.Dir, "pki")
	if p.ca, err = pki.NewAuthority(dir); err != nil {
		return err
	}
	if p.saPrivate, p.saPublic, err = pki.SigningKey(dir); err != nil {
		return err
	}
	p.serving, err = p.ca.Serving("apiserver", "127.0.0.1", "localhost", p.cfg.Address, "10.96.0.1",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	if err != nil {
		return err
	}
	p.kubelet, err = p.ca.Client("apiserver-kubelet", "portcullis-test:apiserver", "system:masters")
	return err
}

func (p *Plane) startEtcd(ctx context.Context) error {
	client, err := p.hold("127.0.0.1")
	if err != nil {
		return err
	}
	peer, err := p.hold("127.0.0.1")
	if err != nil {
		return err
	}
	p.etcdPort = client
	p.etcd, err = p.starter.Start(process.Spec{
		Name: "etcd",
		Path: p.cfg.Binaries["etcd"],
		Args: []string{
			"--data-dir=" + filepath.Join(p.cfg.Dir, "etcd"),
			fmt.Sprintf("--listen-client-urls=http://127.0.0.1:%d", client),
			fmt.Sprintf("--advertise-client-urls=http://127.0.0.1:%d", client),
			fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", peer),
			fmt.Sprintf("--initial-advertise-peer-urls=http://127.0.0.1:%d", peer),
			fmt.Sprintf("--initial-cluster=default=http://127.0.0.1:%d", peer),
			"--log-level=warn",
			// No test loses power; a lost fsync costs minutes over a run.
			"--unsafe-no-fsync",
		},
	})
	if err != nil {
		return err
	}
	return await(ctx, p.etcd, func(ctx context.Context) error {
		return get(ctx, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/readyz", client))
	})
}

// StartAPIServer starts the API server, on the port it had before if it had one, and returns once it
// is ready.
func (p *Plane) StartAPIServer(ctx context.Context) (err error) {
	if p.apiPort == 0 {
		if p.apiPort, err = p.choosePort(ctx); err != nil {
			return err
		}
	}
	p.api, err = p.starter.Start(process.Spec{Name: "kube-apiserver", Path: p.cfg.Binaries["kube-apiserver"], Args: p.apiServerArgs()})
	if err != nil {
		return err
	}
	client, err := p.adminHTTP()
	if err != nil {
		return err
	}
	return await(ctx, p.api, func(ctx context.Context) error { return get(ctx, client, p.URL()+"/readyz") })
}

func (p *Plane) apiServerArgs() []string {
	args := []string{
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", p.etcdPort),
		"--bind-address=" + p.cfg.Address,
		fmt.Sprintf("--secure-port=%d", p.apiPort),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--anonymous-auth=false",
		"--profiling=false",
		"--client-ca-file=" + p.ca.File(),
		"--tls-cert-file=" + p.serving.Cert,
		"--tls-private-key-file=" + p.serving.Key,
		"--kubelet-client-certificate=" + p.kubelet.Cert,
		"--kubelet-client-key=" + p.kubelet.Key,
		"--kubelet-certificate-authority=" + p.ca.File(),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + p.saPrivate,
		"--service-account-key-file=" + p.saPublic,
		"--service-cluster-ip-range=" + ServiceCIDR,
	}
	if p.cfg.Address == "127.0.0.1" {
		// A loopback address cannot be the endpoint of a Service, and nothing needs it here.
		return append(args, "--endpoint-reconciler-type=none")
	}
	return append(args, "--advertise-address="+p.cfg.Address)
}

func (p *Plane) startControllers(ctx context.Context) error {
	cmKube, err := p.component("controller-manager", "system:kube-controller-manager")
	if err != nil {
		return err
	}
	schedKube, err := p.component("scheduler", "system:kube-scheduler")
	if err != nil {
		return err
	}
	cmPort, err := p.hold("127.0.0.1")
	if err != nil {
		return err
	}
	schedPort, err := p.hold("127.0.0.1")
	if err != nil {
		return err
	}
	pair := p.ca.Pair()
	args := []string{
		"--kubeconfig=" + cmKube,
		"--authentication-kubeconfig=" + cmKube,
		"--authorization-kubeconfig=" + cmKube,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", cmPort),
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--root-ca-file=" + p.ca.File(),
		"--service-account-private-key-file=" + p.saPrivate,
		"--cluster-signing-cert-file=" + pair.Cert,
		"--cluster-signing-key-file=" + pair.Key,
		"--kube-api-qps=200", "--kube-api-burst=400",
	}
	if p.cfg.PodCIDR != "" {
		args = append(args, "--allocate-node-cidrs=true", "--cluster-cidr="+p.cfg.PodCIDR)
	}
	p.controllers, err = p.starter.Start(process.Spec{Name: "kube-controller-manager", Path: p.cfg.Binaries["kube-controller-manager"], Args: args})
	if err != nil {
		return err
	}
	p.scheduler, err = p.starter.Start(process.Spec{Name: "kube-scheduler", Path: p.cfg.Binaries["kube-scheduler"], Args: []string{
		"--kubeconfig=" + schedKube,
		"--authentication-kubeconfig=" + schedKube,
		"--authorization-kubeconfig=" + schedKube,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", schedPort),
		"--leader-elect=false",
		"--kube-api-qps=200", "--kube-api-burst=400",
	}})
	if err != nil {
		return err
	}
	client, err := p.adminHTTP()
	if err != nil {
		return err
	}
	// The default ServiceAccount is the controller manager's doing: once it is there, Pods can be
	// created in new namespaces too.
	err = await(ctx, p.controllers, func(ctx context.Context) error {
		return get(ctx, client, p.URL()+"/api/v1/namespaces/default/serviceaccounts/default")
	})
	if err != nil {
		return err
	}
	return await(ctx, p.scheduler, func(ctx context.Context) error {
		return get(ctx, insecure(), fmt.Sprintf("https://127.0.0.1:%d/healthz", schedPort))
	})
}

// component writes a kubeconfig for one of the control plane's own users.
func (p *Plane) component(file, user string) (string, error) {
	pair, err := p.ca.Client(file, user)
	if err != nil {
		return "", err
	}
	return p.Kubeconfig(file, pair)
}

// URL is the API server's address.
func (p *Plane) URL() string { return fmt.Sprintf("https://%s:%d", p.cfg.Address, p.apiPort) }

// Authority signs further identities for this cluster.
func (p *Plane) Authority() *pki.Authority { return p.ca }

// APIServer is the running API server, for tests that stop or freeze it.
func (p *Plane) APIServer() *process.Process { return p.api }

// Controllers is the controller manager.
func (p *Plane) Controllers() *process.Process { return p.controllers }

// Programs returns what runs.
func (p *Plane) Programs() []*process.Process {
	return []*process.Process{p.etcd, p.api, p.controllers, p.scheduler}
}

// Stop ends every program, clients before servers.
func (p *Plane) Stop() {
	for _, c := range []*process.Process{p.scheduler, p.controllers} {
		if c != nil {
			c.Stop(2 * time.Second)
		}
	}
	// Nothing here has to be kept, and a graceful API server waits for its watches.
	for _, c := range []*process.Process{p.api, p.etcd} {
		if c != nil {
			c.Kill()
		}
	}
	p.starter.Close()
	for _, port := range p.held {
		port.Release()
	}
}

func (p *Plane) adminHTTP() (*http.Client, error) {
	pair, err := p.ca.Client("admin", "portcullis-test:admin", "system:masters")
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, err
	}
	body, err := os.ReadFile(p.ca.File())
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(body)
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{cert}},
	}}, nil
}

// insecure asks a component that signs its own certificate at start, on loopback, whether it is up.
func insecure() *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true},
	}}
}

func await(ctx context.Context, p *process.Process, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return p.Await(ctx, ready)
}

func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", url, resp.Status, body)
	}
	return nil
}

// choosePort returns the port that is wished for the API server, if nobody listens on it.
func (p *Plane) choosePort(ctx context.Context) (int, error) {
	if p.cfg.Port != 0 {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(p.cfg.Address, strconv.Itoa(p.cfg.Port)))
		if err == nil {
			return p.cfg.Port, l.Close()
		}
	}
	return p.hold(p.cfg.Address)
}

// hold returns a port that is this control plane's until Stop, so that a program that is killed and started again finds
// it as it left it.
func (p *Plane) hold(address string) (int, error) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return 0, fmt.Errorf("the address of the control plane: %w", err)
	}
	port, err := freeport.Hold(ip)
	if err != nil {
		return 0, err
	}
	p.held = append(p.held, port)
	return port.Number, nil
}
