package service_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/service"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	gatewayID    = "blue"
	sandboxID    = "4b67c0d0-1111-2222-3333-444444444444"
	session      = "3f2b8c1e-9a4d-4e6f-8b7a-0c1d2e3f4a5b"
	generation   = "g000000000000001"
	gatewayToken = "Z2F0ZXdheQ.dG9rZW4.c2lnbmF0dXJl"
	sandboxToken = "c2FuZGJveA.dG9rZW4.c2lnbmF0dXJl"
	identity     = "kubernetes://sandboxes/uid-box/uid-former"
)

// conductor answers as it is told to, and keeps what it was asked.
type conductor struct {
	mu    sync.Mutex
	goals []conduct.Goal
	looks []plan.Ref
	// expected counts, for each Sandbox, the calls that were announced and have not ended.
	expected map[plan.Ref]int
	// led says that another replica leads.
	led  atomic.Bool
	do   func(ctx context.Context, goal conduct.Goal) (conduct.Outcome, error)
	look func(ctx context.Context, ref plan.Ref) conduct.Outcome
}

func (c *conductor) Do(ctx context.Context, goal conduct.Goal) (conduct.Outcome, error) {
	c.mu.Lock()
	c.goals = append(c.goals, goal)
	c.mu.Unlock()
	return c.do(ctx, goal)
}

func (c *conductor) Look(ctx context.Context, ref plan.Ref) conduct.Outcome {
	c.mu.Lock()
	c.looks = append(c.looks, ref)
	c.mu.Unlock()
	return c.look(ctx, ref)
}

func (c *conductor) Expect(ref plan.Ref) (forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expected == nil {
		c.expected = map[plan.Ref]int{}
	}
	c.expected[ref]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.expected[ref]--; c.expected[ref] == 0 {
			delete(c.expected, ref)
		}
	}
}

func (c *conductor) Leads() bool { return !c.led.Load() }

// announced is how many calls are expected.
func (c *conductor) announced() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := 0
	for _, n := range c.expected {
		all += n
	}
	return all
}

func (c *conductor) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.goals) + len(c.looks)
}

// site is a service before its conductor, which reaches every goal unless a test says otherwise.
type site struct {
	*service.Service
	t         testing.TB
	conductor *conductor
	log       *transcript
	registry  *prometheus.Registry
}

type transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func newSite(t testing.TB, changes ...func(*service.Settings)) *site {
	t.Helper()
	return newProbed(t, nil, changes...)
}

// newProbed is a site whose fences are probed.
func newProbed(t testing.TB, f service.Fences, changes ...func(*service.Settings)) *site {
	t.Helper()
	settings := service.DefaultSettings()
	for _, change := range changes {
		change(&settings)
	}
	c := &conductor{
		do: func(context.Context, conduct.Goal) (conduct.Outcome, error) {
			return conduct.Outcome{Step: plan.Step{Action: plan.Done}, Facts: standing()}, nil
		},
		look: func(context.Context, plan.Ref) conduct.Outcome {
			return conduct.Outcome{Step: plan.Step{Action: plan.Done}, Facts: standing()}
		},
	}
	s := &site{t: t, conductor: c, log: &transcript{}, registry: prometheus.NewRegistry()}
	var err error
	s.Service, err = service.New(settings, gatewayID, c, f, zerolog.New(s.log).Level(zerolog.TraceLevel), s.registry)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// standing is a run that stands, with everything seen.
func standing() plan.Facts {
	r := runstate.Record{
		Generation: generation, Session: session, Epoch: 1, Readiness: runstate.Ready, WorkloadUID: "uid-workload", SupervisorUID: "uid-supervisor",
		FenceUID: "uid-fence", FenceGeneration: 3, MainProcess: "{}",
	}
	return plan.Facts{
		Sandbox: plan.Found(sandboxapi.Object{
			Sandbox: sandboxapi.Sandbox{
				Namespace: "sandboxes", Name: "team-a--demo", UID: "uid-box", Annotations: r.Annotations(),
				Labels: map[string]string{workspace.LabelManagedBy: workspace.ManagedByOpenShell, workspace.LabelGatewayID: gatewayID, workspace.LabelSandboxID: sandboxID},
			},
			Version: sandboxapi.V1beta1, Generation: 7, ResourceVersion: "1", Mode: sandboxapi.Running,
		}),
		WorkloadFence:   plan.Found(plan.Policy{Standing: plan.Stands, UID: "uid-fence", Generation: 3}),
		SupervisorFence: plan.Found(plan.Policy{Standing: plan.Stands, UID: "uid-egress", Generation: 1}),
		Service:         plan.Found(plan.Service{UID: "uid-service", Ownership: plan.OfThisRun, ClusterIP: "10.0.0.1"}),
		Supervisor:      plan.Found(plan.Pod{Name: "os-supervisor-" + sandboxID, UID: "uid-supervisor", Ownership: plan.OfThisRun, Ready: true}),
		Workload:        plan.Found(plan.Pod{Name: "team-a--demo", UID: "uid-workload", Ownership: plan.OfThisRun, Ready: true}),
		Openings:        plan.Found[[]plan.Opening](nil),
	}
}

func edited[T any](k plan.Known[T], edit func(*T)) plan.Known[T] {
	value, _ := k.Value()
	edit(&value)
	return plan.Found(value)
}

// record edits the Sandbox's record.
func record(f *plan.Facts, edit func(*runstate.Record)) {
	f.Sandbox = edited(f.Sandbox, func(o *sandboxapi.Object) {
		r, err := runstate.Of(o.Annotations)
		if err != nil {
			panic(err) // of a test's own making
		}
		edit(&r)
		o.Annotations = r.Annotations()
	})
}

// finds makes every goal end with these facts.
func (s *site) finds(facts plan.Facts) {
	s.conductor.do = func(context.Context, conduct.Goal) (conduct.Outcome, error) {
		return conduct.Outcome{Step: plan.Step{Action: plan.Done}, Facts: facts}, nil
	}
	s.conductor.look = func(context.Context, plan.Ref) conduct.Outcome { return conduct.Outcome{Facts: facts} }
}

func ref() *supervisorv1.SandboxRef {
	return &supervisorv1.SandboxRef{GatewayId: gatewayID, Namespace: "sandboxes", Name: "team-a--demo", Uid: "uid-box", SandboxId: sandboxID}
}

func run() *supervisorv1.Run {
	return &supervisorv1.Run{GenerationId: generation, SessionId: session, AuthEpoch: 1}
}

// bundle is the credentials of the run, but for what is changed.
func bundle(t testing.TB, changes ...func(map[string]any)) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)).Public())
	if err != nil {
		t.Fatal(err)
	}
	var octets []int
	for _, c := range pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}) {
		octets = append(octets, int(c))
	}
	all := map[string]any{
		"supervisor": map[string]any{
			"session_id": session, "runtime_generation": generation, "session_rotation": 1, "auth_epoch": 1,
			"gateway_token": gatewayToken, "gateway_expires_at": 0, "sandbox_token": sandboxToken, "sandbox_expires_at": 0,
		},
		"gateway_id": gatewayID, "verification_keys": []any{map[string]any{"key_id": "k", "public_key_pem": octets}},
	}
	for _, change := range changes {
		change(all)
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// request is every call's request in one, valid; each case breaks one field.
type request struct {
	ref      *supervisorv1.SandboxRef
	run      *supervisorv1.Run
	bundle   []byte
	expected string
	id       string
}

func valid(t testing.TB) *request {
	return &request{ref(), run(), bundle(t), identity, "req-1"}
}

// calls are all of them, by name.
var calls = map[string]func(context.Context, *site, *request) (*supervisorv1.CompanionStatus, *supervisorv1.RuntimeIdentity, error){
	"provision": func(ctx context.Context, s *site, r *request) (*supervisorv1.CompanionStatus, *supervisorv1.RuntimeIdentity, error) {
		out, err := s.Provision(ctx, &supervisorv1.ProvisionRequest{Sandbox: r.ref, Run: r.run, LaunchAuthentication: r.bundle, RequestId: r.id})
		return out.GetStatus(), out.GetIdentity(), err
	},
	"restart": func(ctx context.Context, s *site, r *request) (*supervisorv1.CompanionStatus, *supervisorv1.RuntimeIdentity, error) {
		out, err := s.Restart(ctx, &supervisorv1.RestartRequest{
			Sandbox: r.ref, Run: r.run, LaunchAuthentication: r.bundle, ExpectedRuntimeIdentity: r.expected, RequestId: r.id,
		})
		return out.GetStatus(), out.GetIdentity(), err
	},
	"release": func(ctx context.Context, s *site, r *request) (*supervisorv1.CompanionStatus, *supervisorv1.RuntimeIdentity, error) {
		out, err := s.Release(ctx, &supervisorv1.ReleaseRequest{Sandbox: r.ref, Run: r.run, RequestId: r.id})
		return out.GetStatus(), nil, err
	},
	"remove": func(ctx context.Context, s *site, r *request) (*supervisorv1.CompanionStatus, *supervisorv1.RuntimeIdentity, error) {
		out, err := s.Remove(ctx, &supervisorv1.RemoveRequest{Sandbox: r.ref, Run: r.run, RequestId: r.id})
		return out.GetStatus(), nil, err
	},
	"status": func(ctx context.Context, s *site, r *request) (*supervisorv1.CompanionStatus, *supervisorv1.RuntimeIdentity, error) {
		out, err := s.Status(ctx, &supervisorv1.StatusRequest{Sandbox: r.ref})
		return out.GetStatus(), nil, err
	},
}

// refusal is the verdict in an error.
func refusal(t testing.TB, err error) verdict.Decision {
	t.Helper()
	d, ok := verdict.FromError(err)
	if err == nil || !ok {
		t.Fatalf("no verdict is in %v", err)
	}
	return d
}
