package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
	"github.com/portcullis-mesh/portcullis/test/gateway/settings"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// Options say what to build. All but Images are required.
type Options struct {
	Site     *Site
	Root     string
	Programs map[string]string
	// Dir is for this demo's files alone. It is private and its path is short: it holds Unix sockets.
	Dir string
	// Prefix is that of all names in the cluster: two demos with different ones do not meet.
	Prefix string
	// Images is the registry that images are pushed to where there is no other way.
	Images string
}

// The bounds that the demo sets, so that nobody has to wait long to see the gate close. The settings' own default is 15 s.
const (
	maxStaleness  = 6 * time.Second
	allowlistLine = `max_staleness = "6s"`
	heartbeatLine = `heartbeat_ttl = "6s"`
)

// labelDemo is on everything that a demo made outside of its namespaces, and on those. Its value is the prefix.
const labelDemo = "portcullis.test/demo"

// World is a cluster with Portcullis in it. It belongs to one goroutine.
type World struct {
	options Options
	site    *Site
	client  kubernetes.Interface
	dynamic dynamic.Interface
	mesh    *mesh.Mesh
	images  images
	team    string // the workspace of the story
	address string // where supervisors dial the gateway
	gateway *gateway.Gateway
	stand   *standIns
	ends    []func(context.Context) error // of what runs in this process, the last first
	pids    map[string]int                // of every process there was
	undone  bool                          // whether something may be in the cluster

	// During the story.
	box      string // the sandbox's id
	narrated atomic.Pointer[phase.Phase]
}

// Build makes a World and tells the timeline what it does. What it made when it fails is removed by Close, which must be called.
func Build(ctx context.Context, o Options, t *Timeline) (*World, error) {
	w := &World{options: o, site: o.Site, team: o.Prefix + "-team-a", pids: map[string]int{}}
	var err error
	if w.client, err = kubernetes.NewForConfig(o.Site.REST); err != nil {
		return w, fmt.Errorf("make a client: %w", err)
	}
	if w.dynamic, err = dynamic.NewForConfig(o.Site.REST); err != nil {
		return w, fmt.Errorf("make a client: %w", err)
	}
	if err := w.sweepFormer(ctx, t); err != nil {
		return w, err
	}
	w.undone = true
	if err := w.deliverImages(ctx, t); err != nil {
		return w, err
	}
	if err := t.Check("Agent Sandbox: definition and controller", func() (string, error) { return w.startStandIns(ctx) }); err != nil {
		return w, err
	}
	if err := w.startMesh(ctx, t); err != nil {
		return w, err
	}
	return w, t.Check("reference gateway: handshake with the driver", func() (string, error) { return w.startGateway(ctx) })
}

func (w *World) deliverImages(ctx context.Context, t *Timeline) error {
	const what = "images of the stand-ins for the companions"
	do := func() (seen string, err error) {
		w.images, err = deliver(ctx, w.site, w.options.Programs, w.options.Images)
		if w.site.Socket != "" {
			return "in the node's containerd", err
		}
		return "in " + w.options.Images, err
	}
	if w.site.Real {
		return t.Check(what, do)
	}
	_, err := do()
	t.NotShown(what, "no kubelet runs here that would pull them: they are names only")
	return err
}

// home is a namespace's name.
func (w *World) home(name string) string { return w.options.Prefix + "-" + name }

// label selects the namespaces that may be workspaces.
func (w *World) label() (key, value string) { return w.options.Prefix + "/sandboxes", "allowed" }

func (w *World) startMesh(ctx context.Context, t *Timeline) (err error) {
	key, value := w.label()
	address, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(w.site.Address, "0"))
	if err != nil {
		return fmt.Errorf("listen where supervisors find the gateway: %w", err)
	}
	w.ends = append(w.ends, func(context.Context) error { _ = address.Close(); return nil }) // its server may have done it
	w.address = address.Addr().String()
	began := time.Now()
	w.mesh, err = mesh.New(mesh.Options{
		Cluster: w.site.REST, Dir: w.options.Dir, Programs: w.options.Programs, Manifests: filepath.Join(w.options.Root, "deploy", "kustomize", "base"),
		Namespace: w.home("mesh"), Labels: w.marks(), Mode: "operator", GatewayID: w.options.Prefix, Label: key + "=" + value,
		SandboxNamespace: w.home("mesh"), SupervisorImage: w.images.supervisor, RuntimeImage: w.images.runtime, DefaultImage: w.images.workload,
		Endpoint: "http://" + w.address, Allowlist: []string{allowlistLine, heartbeatLine},
		Log: func(format string, args ...any) {
			if w.gateway != nil {
				return // who starts more daemons later tells it himself
			}
			what, detail, _ := strings.Cut(fmt.Sprintf(format, args...), " (")
			what, at, found := strings.Cut(what, " at ")
			if detail = strings.TrimSuffix(detail, ")"); found {
				detail = at + ", " + detail
			}
			t.Held(what, time.Since(began), detail)
			began = time.Now()
		},
	})
	if err != nil {
		return err
	}
	done := t.Waiting("NATS and the four daemons")
	err = w.mesh.Start(ctx)
	done()
	w.note()
	if err != nil {
		return err
	}
	return w.serveSupervisors(address)
}

// note remembers the processes that run.
func (w *World) note() {
	for _, p := range w.mesh.Running() {
		w.pids[fmt.Sprintf("%s (%d)", p.Name, p.PID())] = p.PID()
	}
}

// serveSupervisors makes the gateway, and has supervisors reach it.
func (w *World) serveSupervisors(listener net.Listener) error {
	stock, err := settings.Load(w.mesh.Settings(mesh.Lifecycle), "kubernetes")
	if err != nil {
		return err
	}
	records, err := record.Open(filepath.Join(w.options.Dir, "records.db"), record.Options{Patience: time.Second})
	if err != nil {
		return err
	}
	w.ends = append(w.ends, func(context.Context) error { return records.Close() })
	log, err := os.OpenFile(filepath.Join(w.options.Dir, "gateway.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the gateway's log: %w", err)
	}
	w.ends = append(w.ends, func(context.Context) error { return log.Close() })
	w.gateway, err = gateway.New(gateway.Config{
		Socket: w.mesh.Socket(), DriverName: "kubernetes", Policy: stock.Policy, GatewayID: w.options.Prefix,
		Log: zerolog.New(log).With().Timestamp().Logger(),
	}, records)
	if err != nil {
		return err
	}
	server := grpc.NewServer(gateway.ServerOption()...)
	w.gateway.Register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	w.ends = append(w.ends, func(context.Context) error {
		server.Stop()
		<-served
		return nil
	})
	return nil
}

func (w *World) startGateway(ctx context.Context) (string, error) {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	var failure error
	over := make(chan struct{})
	go func() {
		failure = w.gateway.Run(run)
		close(over)
		ended <- failure
	}()
	w.ends = append(w.ends, func(context.Context) error {
		stop()
		return <-ended
	})
	select {
	case <-w.gateway.Ready():
		return "driver kubernetes at " + w.mesh.Socket(), nil
	case <-over:
		return "", fmt.Errorf("the gateway ended: %w", failure)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// closeLimit bounds the whole of a clean-up.
const closeLimit = 3 * time.Minute

// Close ends and removes everything, whatever came before. It may be called twice.
func (w *World) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	problems := []error{w.stopProcesses(ctx)}
	if w.undone {
		if err := w.removeObjects(ctx); err != nil {
			problems = append(problems, err)
		} else {
			w.undone = false
		}
	}
	if w.stand != nil {
		problems = append(problems, w.stand.stop(ctx))
		w.stand = nil
	}
	problems = append(problems, os.RemoveAll(w.options.Dir))
	return errors.Join(problems...)
}

// Halt ends the gateway and the mesh, which Close does too if nobody did before. The error says which of them ended otherwise than asked, or
// earlier, and with which words; nothing of them runs then either.
func (w *World) Halt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	return w.stopProcesses(ctx)
}

// stopProcesses ends the gateway and the mesh.
func (w *World) stopProcesses(ctx context.Context) error {
	var problems []error
	for _, end := range slices.Backward(w.ends) {
		problems = append(problems, end(ctx))
	}
	w.ends = nil
	if w.mesh != nil {
		w.note()
		problems = append(problems, w.mesh.Stop())
	}
	return errors.Join(problems...)
}

// alive reports whether a process of that number is there.
func alive(pid int) bool { return exists(fmt.Sprintf("/proc/%d", pid)) }

// tasks are goroutines that end with a context.
type tasks struct {
	stop  context.CancelFunc
	doing sync.WaitGroup
	mu    sync.Mutex
	errs  []error
}

func newTasks(ctx context.Context) (context.Context, *tasks) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	return ctx, &tasks{stop: stop}
}

func (t *tasks) run(what string, do func() error) {
	t.doing.Go(func() {
		if err := do(); err != nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.errs = append(t.errs, fmt.Errorf("%s: %w", what, err))
		}
	})
}

// end stops them and returns what went wrong.
func (t *tasks) end() error {
	t.stop()
	t.doing.Wait()
	return errors.Join(t.errs...)
}
