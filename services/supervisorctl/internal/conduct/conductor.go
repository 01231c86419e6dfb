package conduct

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/launch"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

const (
	// attemptLimit is how long an attempt may work after it wrote the Pods, with its name, into the record, and takeOver for how long
	// another one must have seen name and Pods unchanged. The difference is for requests on their way and clocks that run apart.
	attemptLimit = 22 * time.Second
	takeOver     = 33 * time.Second
	// nameLimit is the same for the time between the name and the Pods, in which the workload is waited for. Nothing that is written then
	// is written over another one's name.
	nameLimit = workloadLimit + 2*time.Second
	// workloadLimit is how long the controller may take to make the workload Pod (contract 7.15).
	workloadLimit = 30 * time.Second
	// undoLimit bounds the taking away of what a refused run made, and so how much later the caller learns of the refusal. Its first
	// write is the record of a stop, with which the reconcile loop goes on: a controller or a Pod that takes its time keeps nobody else
	// waiting, neither the caller nor the stop that the gateway gives 30 s to (contract 2.12).
	undoLimit = 10 * time.Second
)

// Cluster reads and writes objects; *cluster.Cluster is one, and says what the errors mean.
type Cluster interface {
	Namespace(ctx context.Context, name string) (*corev1.Namespace, error)
	Policy(ctx context.Context, namespace, name string) (*networkingv1.NetworkPolicy, error)
	Policies(ctx context.Context, namespace string) ([]networkingv1.NetworkPolicy, error)
	Service(ctx context.Context, namespace, name string) (*corev1.Service, error)
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	AwaitPod(ctx context.Context, namespace, name, version string) error
	Sandbox(ctx context.Context, namespace, name string) (*sandboxapi.Object, error)
	SourceSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error)

	CreatePolicy(ctx context.Context, wanted *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error)
	CreateService(ctx context.Context, wanted *corev1.Service) (*corev1.Service, error)
	CreatePod(ctx context.Context, wanted *corev1.Pod) (*corev1.Pod, error)
	CreateSecret(ctx context.Context, wanted *corev1.Secret) (uid string, err error)
	DeletePod(ctx context.Context, namespace, name, uid string) error
	DeleteService(ctx context.Context, namespace, name, uid string) error
	DeleteSecret(ctx context.Context, namespace, name, uid string) error
	Ungate(ctx context.Context, at *corev1.Pod, gate string, index int, annotations map[string]string) (*corev1.Pod, error)
	ChangeSandbox(ctx context.Context, at *sandboxapi.Object, change cluster.Change) (*sandboxapi.Object, error)

	CreateEvent(ctx context.Context, wanted *corev1.Event) (*corev1.Event, error)
	CountEvent(ctx context.Context, namespace, name string, patch []byte) (*corev1.Event, error)
}

var _ Cluster = (*cluster.Cluster)(nil)

// Conductor works on companion sets. Safe for concurrent use. Make it with New.
type Conductor struct {
	cluster  Cluster
	settings driverconf.Kubernetes
	renderer *companion.Renderer
	log      zerolog.Logger
	metrics  *metrics
	events   *announcer
	gates    *gates
	watched  *watched
	homes    *homes
	random   io.Reader
	process  string
	leading  atomic.Int32
	tracer   trace.Tracer
}

// New makes a Conductor by the stock settings, and registers the metrics portcullis_supervisorctl_step_seconds,
// _goals_total and _events_total. Each step is a span of spans, under that of the call if there is one; nil spans are none. It starts nothing
// and sends nothing: see Run. The error names the settings that no companion can be rendered with.
func New(
	settings *driverconf.Kubernetes, options companion.Options, objects Cluster, log zerolog.Logger, reg prometheus.Registerer, spans trace.TracerProvider,
) (*Conductor, error) {
	if settings == nil || objects == nil {
		return nil, errors.New("conduct: settings and a cluster must be given")
	}
	if spans == nil {
		spans = noop.NewTracerProvider()
	}
	renderer, err := companion.New(settings, options)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	c := &Conductor{
		cluster: objects, settings: *settings, renderer: renderer, log: log, metrics: m,
		gates: newGates(), watched: newWatched(time.Now), homes: newHomes(), random: rand.Reader,
		tracer: spans.Tracer(tracer),
	}
	if c.process, err = c.name(); err != nil {
		return nil, err
	}
	c.events = newAnnouncer(objects, log, m, c.process)
	return c, nil
}

// Run writes Events on Sandboxes until ctx ends, and returns nil. Without it none are written, and nothing else is missing. It is called once.
func (c *Conductor) Run(ctx context.Context) error {
	c.events.run(ctx)
	return nil
}

// name is one that no other has.
func (c *Conductor) name() (string, error) {
	id := make([]byte, 8)
	if _, err := io.ReadFull(c.random, id); err != nil {
		return "", fmt.Errorf("conduct: make a name: %w", err)
	}
	return hex.EncodeToString(id), nil
}

// Goal is what is wanted, with what a run is raised with.
type Goal struct {
	plan.Want
	// Bundle is needed to raise a run, and wiped by whoever made it.
	Bundle *launch.Bundle
	// Patient says to wait while another goal is worked on for the same Sandbox; otherwise ErrBusy is returned.
	Patient bool
	// Idle is for how long nothing of Still has changed, which is the record without what is only kept for restarts, and Witnessed says
	// that it was seen to become so; for Keep. They count only while the live record is that one, and not while a call is expected.
	Idle      time.Duration
	Still     runstate.Record
	Witnessed bool
}

// ErrBusy says that another goal is worked on for the same Sandbox.
var ErrBusy = errors.New("another operation on this sandbox is under way")

// Expect says that a call for a Sandbox has come and waits until it may be worked on. Until forget is called, which must be once, Keep
// takes no start of it for abandoned in this process; all else that it does, it does.
func (c *Conductor) Expect(ref plan.Ref) (forget func()) { return c.gates.expect(gateOf(ref)) }

// Lead says that the reconcile loop of this process is the one that looks, until end is called, which must be once.
func (c *Conductor) Lead() (end func()) {
	c.leading.Add(1)
	return func() { c.leading.Add(-1) }
}

// Leads reports whether it is. That of another process knows nothing of what is expected here.
func (c *Conductor) Leads() bool { return c.leading.Load() > 0 }

func gateOf(ref plan.Ref) string { return ref.Namespace + "/" + ref.Name }

// Do works on a goal until it is reached or refused, or ctx ends. The Outcome tells which, and what was seen last; an error is
// ErrBusy or the end of ctx before anything was looked at.
func (c *Conductor) Do(ctx context.Context, goal Goal) (Outcome, error) {
	leave, err := c.gates.enter(ctx, gateOf(goal.Ref), goal.Patient)
	if err != nil {
		return Outcome{}, err
	}
	defer leave()
	if goal.Goal == plan.Keep && c.gates.expected(gateOf(goal.Ref)) {
		goal.Idle = 0 // whoever is to go on with it is here
	}
	id, err := c.name()
	if err != nil {
		return Outcome{}, err
	}
	r := &round{
		Conductor: c, goal: goal, wanted: goal.Goal, attempt: plan.Attempt{ID: c.process + "-" + id},
		log: c.log.With().Str(keyNamespace, goal.Ref.Namespace).Str(keySandbox, goal.Ref.Name).Str(keyGoal, goal.Goal.String()).Logger(),
	}
	outcome := r.work(ctx)
	c.metrics.ended(goal.Goal, outcome.Step)
	r.tell(&outcome)
	return outcome, nil
}

// Look says what the set of a Sandbox is like, and changes nothing.
func (c *Conductor) Look(ctx context.Context, ref plan.Ref) Outcome {
	r := &round{Conductor: c, goal: Goal{Want: plan.Want{Goal: plan.Keep, Ref: ref}}, log: c.log}
	r.look(ctx)
	return r.outcome(plan.Step{Action: plan.Done})
}
