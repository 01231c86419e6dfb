package inquiry

import (
	"context"
	"errors"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/claims"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/lookups"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// Cluster reads from the API server, live; lookups.ErrAbsent is in an error that says that there is no such object.
type Cluster interface {
	Review(ctx context.Context, credential secret.Value, audience string) (*authenticationv1.TokenReviewStatus, error)
	Namespace(ctx context.Context, name string) (*metav1.ObjectMeta, error)
	Pod(ctx context.Context, namespace, name string) (*metav1.ObjectMeta, error)
	Sandbox(ctx context.Context, version sandboxapi.Version, namespace, name string) (*sandboxapi.Sandbox, error)
}

var _ Cluster = (*lookups.Cluster)(nil)

// List answers from the allowlist; *allowkv.Reader is one. Check never blocks.
type List interface {
	Check(namespace string) allowlist.Answer
}

// Request is what a caller wants to know. NewRequest makes it; any other is refused as one without a credential.
type Request struct {
	// Credential of the bearer; the zero Value is none.
	Credential secret.Value
	// GatewayID that the caller names.
	GatewayID string

	bytes   int  // of the credential
	compact bool // see claims.Compact
}

// NewRequest is a request about a credential.
func NewRequest(credential, gatewayID string) Request {
	return Request{
		Credential: secret.New([]byte(credential)), GatewayID: gatewayID,
		bytes: len(credential), compact: claims.Compact(credential),
	}
}

// Inquirer makes inquiries. Safe for concurrent use.
type Inquirer struct {
	evaluator *authenticate.Evaluator
	policy    authenticate.Policy
	cluster   Cluster
	list      List
	metrics   *metrics
	podWaits  []time.Duration
	owners    owners
	// slots has one element for each inquiry that reads ahead.
	slots chan struct{}
}

// New makes an Inquirer and registers the metrics portcullis_tokenauth_step_seconds, _reads_ahead_total and
// _reads_ahead_skipped_total. list is demanded in operator mode and not used in the others.
func New(policy authenticate.Policy, cluster Cluster, list List, reg prometheus.Registerer) (*Inquirer, error) {
	evaluator, err := authenticate.New(policy)
	if err != nil {
		return nil, err
	}
	if cluster == nil {
		return nil, errors.New("inquiry: no cluster was given")
	}
	if policy.Scheme.Mode == driverconf.ModeOperator && list == nil {
		return nil, errors.New("inquiry: operator mode has no allowlist to ask")
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, err
	}
	// Twice within 300 ms: an API server is behind another by less, or by much more.
	waits := []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}
	return &Inquirer{
		evaluator: evaluator, policy: policy, cluster: cluster, list: list, metrics: m, podWaits: waits,
		owners: newOwners(), slots: make(chan struct{}, mostAhead),
	}, nil
}

// Decide answers a request. It ends soon after ctx, with a refusal if there is no other answer by then. What panics in a read
// that was begun early comes out of it as a *Panic.
func (i *Inquirer) Decide(ctx context.Context, request Request) authenticate.Result {
	_, result := i.inquire(ctx, request)
	return result
}

// Explain is Decide with what every step found.
func (i *Inquirer) Explain(ctx context.Context, request Request) (authenticate.Result, []authenticate.Finding) {
	facts, _ := i.inquire(ctx, request)
	return i.evaluator.Explain(facts)
}

// mostQuestions is more than there are subjects; an evaluator that asks more asks in circles.
const mostQuestions = 8

func (i *Inquirer) inquire(ctx context.Context, request Request) (*authenticate.Facts, authenticate.Result) {
	ctx, cancel := context.WithCancel(ctx)
	c := &course{inquirer: i, request: request, facts: authenticate.Facts{
		CredentialBytes: request.bytes, CredentialCompact: request.compact, GatewayID: request.GatewayID,
	}}
	defer c.end()
	defer cancel()
	result := i.evaluator.Evaluate(&c.facts)
	for range mostQuestions {
		if result.Final() {
			break
		}
		began := time.Now()
		c.answer(ctx, result)
		i.metrics.answered(result.Next.Subject, time.Since(began))
		result = i.evaluator.Evaluate(&c.facts)
	}
	if result.Decision.Granted() {
		i.owners.remember(result.Bearer.PodUID, c.facts.Sandbox.About())
	}
	return &c.facts, result
}

// worth reports whether reading ahead in a namespace may be of use: whether the gateway could accept it.
func (i *Inquirer) worth(namespace string) bool {
	if i.policy.Scheme.Mode == driverconf.ModeOperator {
		return i.list.Check(namespace).Allowed()
	}
	return i.policy.Scheme.MayHold(namespace)
}
