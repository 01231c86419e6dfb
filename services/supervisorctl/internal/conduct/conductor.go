package conduct

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/launch"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

const (
	// attemptLimit is how long an attempt may work after it wrote its name into the record, and takeOver for how long another one
	// must have seen that name unchanged. The difference is for requests on their way and clocks that run apart.
	attemptLimit = 33 * time.Second
	takeOver     = 44 * time.Second
	// workloadLimit is how long the controller may take to make the workload Pod (contract 7.15).
	workloadLimit = 30 * time.Second
	// undoLimit bounds the taking away of what a refused run made: grace period and headroom of contract 7.10, twice.
	undoLimit = 2 * time.Minute
)

// Cluster reads and writes objects; *cluster.Cluster is one, and says what the errors mean.
type Cluster interface {
	Namespace(ctx context.Context, name string) (*corev1.Namespace, error)
	Policy(ctx context.Context, namespace, name string) (*networkingv1.NetworkPolicy, error)
	Service(ctx context.Context, namespace, name string) (*corev1.Service, error)
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	Sandbox(ctx context.Context, namespace, name string) (*sandboxapi.Object, error)
	SourceSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error)

	CreatePolicy(ctx context.Context, wanted *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error)
	CreateService(ctx context.Context, wanted *corev1.Service) (*corev1.Service, error)
	CreatePod(ctx context.Context, wanted *corev1.Pod) (*corev1.Pod, error)
	CreateSecret(ctx context.Context, wanted *corev1.Secret) error
	DeletePod(ctx context.Context, namespace, name, uid string) error
	DeleteService(ctx context.Context, namespace, name, uid string) error
	DeleteSecret(ctx context.Context, namespace, name string) error
	Ungate(ctx context.Context, namespace, name, uid, gate string, index int) (*corev1.Pod, error)
	ChangeSandbox(ctx context.Context, at *sandboxapi.Object, change cluster.Change) (*sandboxapi.Object, error)
}

var _ Cluster = (*cluster.Cluster)(nil)

// Conductor works on companion sets. Safe for concurrent use. Make it with New.
type Conductor struct {
	cluster  Cluster
	settings driverconf.Kubernetes
	renderer *companion.Renderer
	log      zerolog.Logger
	metrics  *metrics
	gates    *gates
	watched  *watched
	random   io.Reader
	process  string
}

// New makes a Conductor by the stock settings, and registers the metrics portcullis_supervisorctl_step_seconds and
// _goals_total. It starts nothing and sends nothing. The error names the settings that no companion can be rendered with.
func New(settings *driverconf.Kubernetes, options companion.Options, objects Cluster, log zerolog.Logger, reg prometheus.Registerer) (*Conductor, error) {
	if settings == nil || objects == nil {
		return nil, errors.New("conduct: settings and a cluster must be given")
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
		gates: newGates(), watched: newWatched(time.Now), random: rand.Reader,
	}
	c.process, err = c.name()
	return c, err
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
	// Idle is for how long nothing of the record has changed; for Keep.
	Idle time.Duration
}

// ErrBusy says that another goal is worked on for the same Sandbox.
var ErrBusy = errors.New("another operation on this sandbox is under way")

// Do works on a goal until it is reached or refused, or ctx ends. The Outcome tells which, and what was seen last; an error is
// ErrBusy or the end of ctx before anything was looked at.
func (c *Conductor) Do(ctx context.Context, goal Goal) (Outcome, error) {
	leave, err := c.gates.enter(ctx, goal.Ref.Namespace+"/"+goal.Ref.Name, goal.Patient)
	if err != nil {
		return Outcome{}, err
	}
	defer leave()
	id, err := c.name()
	if err != nil {
		return Outcome{}, err
	}
	r := &round{
		Conductor: c, goal: goal, attempt: plan.Attempt{ID: c.process + "-" + id},
		log: c.log.With().Str(keyNamespace, goal.Ref.Namespace).Str(keySandbox, goal.Ref.Name).Str(keyGoal, goal.Goal.String()).Logger(),
	}
	outcome := r.work(ctx)
	c.metrics.ended(goal.Goal, outcome.Step)
	return outcome, nil
}

// Look says what the set of a Sandbox is like, and changes nothing.
func (c *Conductor) Look(ctx context.Context, ref plan.Ref) Outcome {
	r := &round{Conductor: c, goal: Goal{Want: plan.Want{Goal: plan.Keep, Ref: ref}}, log: c.log}
	r.look(ctx)
	return r.outcome(plan.Step{Action: plan.Done})
}
