package probe

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/fence"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Objects is what a probe needs of a cluster; *cluster.Cluster is one.
type Objects interface {
	Namespace(ctx context.Context, name string) (*corev1.Namespace, error)
	Policy(ctx context.Context, namespace, name string) (*networkingv1.NetworkPolicy, error)
	CreatePolicy(ctx context.Context, wanted *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error)
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	CreatePod(ctx context.Context, wanted *corev1.Pod) (*corev1.Pod, error)
	DeletePod(ctx context.Context, namespace, name, uid string) error
}

// Canaries lists the Pods of a namespace that have all the given labels.
type Canaries func(ctx context.Context, namespace string, labels map[string]string) ([]corev1.Pod, error)

// Prober probes namespaces. Safe for concurrent use. Make it with New.
type Prober struct {
	stock    driverconf.Kubernetes
	settings Settings
	objects  Objects
	canaries Canaries
	// every is the pause between two looks at a Pod.
	every time.Duration
}

// New makes a Prober by the settings, which it copies. It sends nothing.
func New(stock *driverconf.Kubernetes, settings Settings, objects Objects, canaries Canaries) (*Prober, error) {
	if stock == nil || objects == nil || canaries == nil {
		return nil, errors.New("probe: settings or cluster are missing")
	}
	if err := settings.check(); err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	return &Prober{stock: *stock, settings: settings, objects: objects, canaries: canaries, every: 300 * time.Millisecond}, nil
}

// Probe probes one namespace. It takes at most fence_probe_timeout, and some seconds to remove what it made, also when ctx ends.
func (p *Prober) Probe(ctx context.Context, namespace string) Result {
	r := &round{Prober: p, result: Result{Namespace: namespace, Began: time.Now()}, id: newID()}
	limited, cancel := context.WithTimeout(ctx, p.settings.Timeout.Std())
	defer cancel()
	r.result.Decision = r.run(limited)
	if ctx.Err() != nil && r.result.Decision.Outcome() == verdict.Unknown {
		r.result.Decision = verdict.Refuse(verdict.CallEnded, StepRound, "the probe was stopped: "+context.Cause(ctx).Error())
	}
	r.clear(ctx)
	r.result.Took = time.Since(r.result.Began)
	return r.result
}

func newID() string {
	id := make([]byte, 5)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// round is one probe of one namespace.
type round struct {
	*Prober
	result Result
	id     string
	as     identity
	// made are the Pods that were asked for; without a uid while it is not known.
	made []made
	// behind are the policies of the fence as they stood before there was a canary.
	behind []*networkingv1.NetworkPolicy
}

type made struct{ name, uid string }

// lookAgain bounds the second look at the policies.
const lookAgain = 20 * time.Second

func (r *round) run(ctx context.Context) verdict.Decision {
	if problems := validation.IsDNS1123Label(r.result.Namespace); len(problems) > 0 {
		return verdict.Refuse(verdict.ProbeRefused, StepFence, fmt.Sprintf("%.80q is no name of a namespace", r.result.Namespace))
	}
	if err := r.fence(ctx); err != nil {
		return decisionOf(err, StepFence)
	}
	seen := r.observe(ctx)
	if seen.Outcome() == verdict.Unknown {
		return seen
	}
	// What was seen is kept where the time of the probe is over just now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookAgain)
	defer cancel()
	if err := r.stoodStill(ctx); err != nil {
		return decisionOf(err, StepFence)
	}
	return seen
}

// stoodStill looks at the policies again. What the canaries saw is no answer about a fence that was another one meanwhile, whichever it
// is.
func (r *round) stoodStill(ctx context.Context) error {
	wanted, err := fence.Render(r.result.Namespace, r.stock.SandboxRuntime.BoundaryPort)
	if err != nil {
		return fail(verdict.ProbeRefused, StepFence, "%v", err)
	}
	for i, policy := range []*networkingv1.NetworkPolicy{wanted.Workloads, wanted.Supervisors} {
		found, err := r.objects.Policy(ctx, policy.Namespace, policy.Name)
		switch {
		case errors.Is(err, cluster.ErrAbsent):
			return fail(verdict.ProbeUndecided, StepFence, "NetworkPolicy %s was deleted while the canaries ran", policy.Name)
		case err != nil:
			return err
		}
		if err := stands(found, policy); err != nil {
			return err
		}
		if before := r.behind[i]; found.UID != before.UID || found.Generation != before.Generation {
			return fail(verdict.ProbeUndecided, StepFence, "NetworkPolicy %s was changed or made anew while the canaries ran", policy.Name)
		}
	}
	return nil
}

// fence makes the policies that are absent, as Provision does, and demands that both are what they must be.
func (r *round) fence(ctx context.Context) error {
	namespace, err := r.objects.Namespace(ctx, r.result.Namespace)
	if err != nil {
		return err
	}
	r.as = identityOf(&r.stock, namespace.Annotations)
	wanted, err := fence.Render(r.result.Namespace, r.stock.SandboxRuntime.BoundaryPort)
	if err != nil {
		return fail(verdict.ProbeRefused, StepFence, "%v", err)
	}
	// Both are looked at before one is made, so that nothing is added to a namespace that cannot be probed.
	policies := []*networkingv1.NetworkPolicy{wanted.Workloads, wanted.Supervisors}
	r.behind = make([]*networkingv1.NetworkPolicy, len(policies))
	for i, policy := range policies {
		found, err := r.objects.Policy(ctx, policy.Namespace, policy.Name)
		switch {
		case errors.Is(err, cluster.ErrAbsent):
			continue
		case err != nil:
			return err
		}
		if err := stands(found, policy); err != nil {
			return err
		}
		r.behind[i] = found
	}
	for i, policy := range policies {
		if r.behind[i] != nil {
			continue
		}
		if r.behind[i], err = r.raise(ctx, policy); err != nil {
			return err
		}
	}
	return nil
}

// raise makes a policy. One that somebody else has made meanwhile is as good.
func (r *round) raise(ctx context.Context, policy *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error) {
	found, err := r.objects.CreatePolicy(ctx, policy)
	switch {
	case errors.Is(err, cluster.ErrExists):
		found, err = r.objects.Policy(ctx, policy.Namespace, policy.Name)
	case err == nil:
		r.result.Made = append(r.result.Made, policy.Name)
	}
	if err != nil {
		return nil, err
	}
	return found, stands(found, policy)
}

func stands(found, wanted *networkingv1.NetworkPolicy) error {
	if finding := fence.Compare(found, wanted); finding.State != fence.Standing {
		return fail(verdict.FenceAltered, StepFence, "the fence is not what it must be, and is not repaired: %s", finding.Difference)
	}
	return nil
}

// plan is what the canary of a role is to do.
func (r *round) plan(role canary.Role, peer string) *canary.Plan {
	door := r.stock.SandboxRuntime.BoundaryPort
	shut := door + 1
	if shut == 0 {
		shut = door - 1
	}
	return &canary.Plan{
		Probe: r.id, Role: role, Targets: r.settings.Targets, Door: door, Shut: shut, Peer: peer,
		Settle: r.settings.Settle.Std().Milliseconds(), Limit: r.settings.Timeout.Std().Milliseconds(),
	}
}
