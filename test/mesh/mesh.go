package mesh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The programs.
const (
	NATS          = "nats-server"
	Nswatch       = "nswatch"
	Tokenauth     = "tokenauth"
	Supervisorctl = "supervisorctl"
	Lifecycle     = "lifecycle"

	// Standby is a second nswatch, which leads when the first does not.
	Standby = "nswatch-standby"
	// Replica is a second lifecycle, beside a second gateway of the same id, on a socket of its own.
	Replica = "lifecycle-replica"
	// Relay is the one of lifecycle's program, on a socket of its own, before every lifecycle that has been started when it is.
	Relay = "relay"
)

// Daemons are the four, in the order in which they are started.
func Daemons() []string { return []string{Nswatch, Tokenauth, Supervisorctl, Lifecycle} }

// Options say what mesh to run. All but Extra and Log are required.
type Options struct {
	// Cluster is the administrator's way to the API server.
	Cluster *rest.Config
	// Dir is for files of this mesh alone. Its path is short: it holds a Unix socket.
	Dir string
	// Programs are the paths of the programs by name.
	Programs map[string]string
	// Manifests is the directory deploy/kustomize/base, beside which the overlays are.
	Manifests string
	// Namespace holds the daemons' ServiceAccounts; it is made. Labels are put on it and on what is made outside of it.
	Namespace string
	Labels    map[string]string
	// Mode is operator, shared or managed; GatewayID names the gateway.
	Mode, GatewayID string
	// Label selects trusted namespaces in operator mode, as key=value.
	Label string
	// SandboxNamespace is the namespace of shared mode, which must exist then, and the source namespace of the others.
	SandboxNamespace string
	// SupervisorImage, RuntimeImage and DefaultImage are what Pods run; Endpoint is where supervisors find the gateway.
	SupervisorImage, RuntimeImage, DefaultImage, Endpoint string
	// Stock are further lines of the stock table, Allowlist those of [portcullis.allowlist], Extra those of a daemon's own table.
	Stock, Allowlist []string
	Extra            map[string][]string
	// Relayed has lifecycle serve relays; without it there is no Relay.
	Relayed bool
	// LogLevel is that of all daemons; empty is info.
	LogLevel string
	// PerWorkspace lets the daemons write in namespaces that Furnish was called for alone, in operator mode.
	PerWorkspace bool
	// Log is told what is being done; nil tells nobody.
	Log func(format string, args ...any)
}

// Mesh is one that runs, or is prepared. Its methods are not safe for concurrent use, but for those of its Processes.
type Mesh struct {
	options   Options
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	authority *authority
	natsURL   string
	public    string
	addresses map[string]string // of the daemons' gRPC servers
	admin     map[string]string // of their admin listeners
	running   map[string]*Process
	order     []string
	cleanups  []func(context.Context) error

	tokenLock sync.Mutex
	tokens    map[string]token // of the daemons
}

// New checks the options. It starts and makes nothing.
func New(options Options) (*Mesh, error) {
	if options.Log == nil {
		options.Log = func(string, ...any) {}
	}
	for name, value := range map[string]string{
		"Dir": options.Dir, "Manifests": options.Manifests, "Namespace": options.Namespace, "Mode": options.Mode, "GatewayID": options.GatewayID,
		"SandboxNamespace": options.SandboxNamespace, "SupervisorImage": options.SupervisorImage, "RuntimeImage": options.RuntimeImage,
		"DefaultImage": options.DefaultImage, "Endpoint": options.Endpoint,
	} {
		if value == "" {
			return nil, fmt.Errorf("mesh: the option %s is empty", name)
		}
	}
	if options.Cluster == nil {
		return nil, errors.New("mesh: no cluster was given")
	}
	m := &Mesh{options: options, addresses: map[string]string{}, admin: map[string]string{}, running: map[string]*Process{}, tokens: map[string]token{}}
	var problems [3]error
	m.client, problems[0] = kubernetes.NewForConfig(options.Cluster)
	m.dynamic, problems[1] = dynamic.NewForConfig(options.Cluster)
	m.authority, problems[2] = newAuthority()
	return m, errors.Join(problems[:]...)
}

// Namespace holds the daemons' ServiceAccounts and Leases.
func (m *Mesh) Namespace() string { return m.options.Namespace }

// Socket is where the gateway finds the driver.
func (m *Mesh) Socket() string { return m.SocketOf(Lifecycle) }

// SocketOf is where it finds the one that Lifecycle, Replica or Relay serves.
func (m *Mesh) SocketOf(name string) string {
	place := "driver"
	if name != Lifecycle {
		place = "of-" + name
	}
	return filepath.Join(m.options.Dir, place, "driver.sock")
}

// NATSURL is where the NATS server is; empty before it runs.
func (m *Mesh) NATSURL() string { return m.natsURL }

// Admin is the admin address of a daemon that runs.
func (m *Mesh) Admin(daemon string) string { return m.admin[daemon] }

// Process is the one of a program that runs; nil when none does.
func (m *Mesh) Process(name string) *Process { return m.running[name] }

// Settings is the path of a daemon's settings file.
func (m *Mesh) Settings(daemon string) string { return filepath.Join(m.home(daemon), "settings.toml") }

// PublicKeys is the path of the file with the public keys of the allowlist.
func (m *Mesh) PublicKeys() string { return m.public }

func (m *Mesh) home(name string) string { return filepath.Join(m.options.Dir, name) }

// operator reports whether the allowlist decides, and so NATS and nswatch run.
func (m *Mesh) operator() bool { return m.options.Mode == "operator" }

// Start prepares everything and runs NATS, where it is needed, and the daemons. What has been started when it fails is for Stop.
func (m *Mesh) Start(ctx context.Context) error {
	if err := m.Prepare(ctx); err != nil {
		return err
	}
	return m.RunAll(ctx)
}

// RunAll starts the daemons of a mesh that is prepared, and waits until they are ready.
func (m *Mesh) RunAll(ctx context.Context) error {
	if err := m.Launch(ctx); err != nil {
		return err
	}
	return m.Await(ctx)
}

// Launch is RunAll that waits for none to be ready, for a cluster on which they cannot be yet.
func (m *Mesh) Launch(ctx context.Context) error {
	for _, daemon := range Daemons() {
		if daemon == Nswatch && !m.operator() {
			continue
		}
		if _, err := m.launch(ctx, daemon); err != nil {
			return err
		}
	}
	return nil
}

// Await waits until every daemon that runs is ready. None is ready only when another is.
func (m *Mesh) Await(ctx context.Context) error {
	for _, p := range m.Running() {
		if p.Name == NATS {
			continue
		}
		if err := m.await(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// Prepare makes the namespace, the accounts with their rights, certificates and keys, and runs NATS with the allowlist's bucket.
func (m *Mesh) Prepare(ctx context.Context) error {
	for _, name := range append(Daemons(), NATS, Standby, Replica, Relay) {
		if err := os.MkdirAll(m.home(name), 0o700); err != nil {
			return fmt.Errorf("make a directory for %s: %w", name, err)
		}
	}
	if err := m.namespace(ctx); err != nil {
		return err
	}
	for _, daemon := range Daemons() {
		if daemon == Nswatch && !m.operator() {
			continue
		}
		if err := m.grant(ctx, daemon); err != nil {
			return err
		}
		if err := m.kubeconfig(ctx, daemon, filepath.Join(m.home(daemon), "kubeconfig")); err != nil {
			return err
		}
		if err := m.authority.issue(daemon, m.home(daemon)); err != nil {
			return err
		}
	}
	if m.options.Relayed {
		if err := m.authority.issue(Relay, m.home(Relay)); err != nil {
			return err
		}
	}
	if !m.operator() {
		return nil
	}
	if err := m.startNATS(ctx); err != nil {
		return err
	}
	return m.prepareAllowlist(ctx)
}

func (m *Mesh) namespace(ctx context.Context) error {
	_, err := m.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: m.Namespace(), Labels: m.options.Labels},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace %s: %w", m.Namespace(), err)
	}
	m.cleanups = append(m.cleanups, func(ctx context.Context) error {
		if err := m.client.CoreV1().Namespaces().Delete(ctx, m.Namespace(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete namespace %s: %w", m.Namespace(), err)
		}
		return nil
	})
	return nil
}

// readyWithin bounds the start of one daemon.
const readyWithin = time.Minute

// Run starts a daemon, or NATS, that does not run, for the first time or again, and waits until it is ready. A Standby is an nswatch
// with the same account and settings, a Replica a lifecycle with the same but for its addresses.
func (m *Mesh) Run(ctx context.Context, daemon string) error {
	if daemon == NATS {
		return m.startNATS(ctx)
	}
	p, err := m.launch(ctx, daemon)
	if err != nil {
		return err
	}
	return m.await(ctx, p)
}

// programOf is the program that a process runs.
func programOf(name string) string {
	switch name {
	case Standby:
		return Nswatch
	case Replica, Relay:
		return Lifecycle
	default:
		return name
	}
}

// launch starts a daemon and learns where it listens.
func (m *Mesh) launch(ctx context.Context, daemon string) (*Process, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	text, err := m.settings(daemon)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(m.Settings(daemon), []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write the settings of %s: %w", daemon, err)
	}
	args := []string{"--config", m.Settings(daemon)}
	if daemon == Relay {
		args = append([]string{"relay"}, args...)
	}
	p, err := spawn(m.home(daemon), daemon, m.options.Programs[programOf(daemon)], args...)
	if err != nil {
		return nil, err
	}
	m.keep(p)
	if m.admin[daemon], err = p.Logged(ctx, "starting", "address"); err != nil {
		return nil, err
	}
	switch {
	case daemon == Tokenauth || daemon == Supervisorctl:
		m.addresses[daemon], err = p.Logged(ctx, "serving the mesh", "address")
	case programOf(daemon) == Lifecycle && daemon != Relay && m.options.Relayed:
		m.addresses[daemon], err = p.Logged(ctx, "serving relays", "address")
	}
	return p, err
}

// await waits until a daemon is ready.
func (m *Mesh) await(ctx context.Context, p *Process) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := p.ready(ctx, m.admin[p.Name]); err != nil {
		return err
	}
	m.options.Log("%s is ready (process %d)", p.Name, p.PID())
	return nil
}

func (m *Mesh) keep(p *Process) {
	m.running[p.Name] = p
	m.order = append(slices.DeleteFunc(m.order, func(name string) bool { return name == p.Name }), p.Name)
}

// Kill ends a program as a crash does.
func (m *Mesh) Kill(name string) {
	if p := m.running[name]; p != nil {
		p.Kill()
		delete(m.running, name)
	}
}

// Stop ends every program, the last started first.
func (m *Mesh) Stop() error {
	var problems []error
	for _, name := range slices.Backward(m.order) {
		if p := m.running[name]; p != nil {
			problems = append(problems, p.Stop())
			delete(m.running, name)
		}
	}
	m.order = nil
	return errors.Join(problems...)
}

// Running are the programs that run, in the order in which they were started.
func (m *Mesh) Running() []*Process {
	var all []*Process
	for _, name := range m.order {
		if p := m.running[name]; p != nil {
			all = append(all, p)
		}
	}
	return all
}

// Remove deletes what was made in the cluster, the last first.
func (m *Mesh) Remove(ctx context.Context) error {
	var problems []error
	for _, cleanup := range slices.Backward(m.cleanups) {
		problems = append(problems, cleanup(ctx))
	}
	m.cleanups = nil
	return errors.Join(problems...)
}
