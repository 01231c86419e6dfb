package service_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/inquiry"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/service"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/runtimeid"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

func granted(sandbox string) authenticate.Result {
	identity, err := runtimeid.New("team", "0a4b8c1e-5f0e-4d9a-9a51-6f7a3c2b1d00", "7c1d2e3f-0a4b-4c8d-8e9f-a0b1c2d3e4f5")
	if err != nil {
		panic(err)
	}
	return authenticate.Result{
		Decision:  verdict.Grant(verdict.Evidence{Namespace: "team", Epoch: 3, Revision: 7, Proven: true, Age: time.Second}),
		SandboxID: sandbox, Identity: identity,
		Bearer: authenticate.Bearer{Namespace: "team", PodUID: "7c1d2e3f-0a4b-4c8d-8e9f-a0b1c2d3e4f5", SandboxID: sandbox},
	}
}

func refused(reason verdict.Reason) authenticate.Result {
	return authenticate.Result{Decision: verdict.Refuse(reason, "pod.found", "Pod \"x\" does not exist")}
}

// steady answers each credential with a sandbox of its own name.
var steady inquirer = func(_ context.Context, r inquiry.Request) authenticate.Result {
	return granted(string(r.Credential.Expose()))
}

func TestAGrantReachesTheCallerAndTheRecord(t *testing.T) {
	f := serve(t, service.DefaultSettings(), steady, nil)
	got := get(t, call(t.Context(), f.client("lifecycle"), "box"))
	if got.err != nil || got.GetSandboxId() != "box" || !strings.HasPrefix(got.GetRuntimeIdentity(), "kubernetes://team/0a4b8c1e") ||
		got.GetAllowlist().GetRevision() != 7 {
		t.Errorf("%v", got)
	}
	e := f.events.all()
	if len(e) != 1 || !e[0].Decision.Granted() || e[0].Call != "authenticate" || e[0].Caller != "lifecycle" || e[0].RequestID != "r-1" ||
		e[0].Namespace != "team" || e[0].SandboxID != "box" || e[0].PodUID == "" || e[0].Token.IsZero() || e[0].Duration <= 0 {
		t.Errorf("%+v", e)
	}
	if n := f.metric("portcullis_tokenauth_decisions_total", map[string]string{"outcome": "granted", "reason": "none"}); n != 1 {
		t.Errorf("%v grants are counted", n)
	}
	if strings.Contains(f.log.String(), "bearer refused") {
		t.Errorf("a grant is told as a refusal: %s", f.log.String())
	}
}

func TestARefusalSaysWhyToTheMeshAndTheLog(t *testing.T) {
	f := serve(t, service.DefaultSettings(), inquirer(func(context.Context, inquiry.Request) authenticate.Result { return refused(verdict.PodNotFound) }), nil)
	got := get(t, call(t.Context(), f.client("lifecycle"), "box"))
	d, ok := verdict.FromError(got.err)
	if status.Code(got.err) != codes.PermissionDenied || !ok || d.Reason != verdict.PodNotFound || d.Step != "pod.found" || d.Explanation == "" {
		t.Errorf("%v: %+v", got.err, d)
	}
	for _, want := range []string{`"message":"bearer refused"`, `"reason":"pod_not_found"`, `"step":"pod.found"`, `"caller":"lifecycle"`, `"request_id":"r-1"`, `does not exist`, `"token_hash"`} {
		if !strings.Contains(f.log.String(), want) {
			t.Errorf("%s is not in %s", want, f.log.String())
		}
	}
	if e := f.events.all(); len(e) != 1 || e[0].Decision.Reason != verdict.PodNotFound {
		t.Errorf("%+v", e)
	}
	if n := f.metric("portcullis_tokenauth_decisions_total", map[string]string{"outcome": "denied", "reason": "pod_not_found"}); n != 1 {
		t.Errorf("%v refusals are counted", n)
	}
}

// hanging is an inquirer that waits for the end of its context or to be let go, and tells of each beginning.
type hanging struct {
	begun chan context.Context
	let   chan struct{}
}

func newHanging() hanging { return hanging{make(chan context.Context, 1000), make(chan struct{})} }

func (h hanging) Decide(ctx context.Context, r inquiry.Request) authenticate.Result {
	h.begun <- ctx
	select {
	case <-h.let:
		return granted(string(r.Credential.Expose()))
	case <-ctx.Done():
		return refused(verdict.ReviewFailed)
	}
}

// TestCallsForOneTokenShare: many calls, two decisions; the end of one call, also of the one that began the work, ends no other.
func TestCallsForOneTokenShare(t *testing.T) {
	settings := service.DefaultSettings()
	settings.MaxConcurrentPerBearer = 22
	h := newHanging()
	f := serve(t, settings, h, nil)
	c := f.client("lifecycle")
	first, leave := context.WithCancel(t.Context())
	gone := call(first, c, "box")
	get(t, h.begun)
	second, leaveToo := context.WithCancel(t.Context())
	gone2 := call(second, c, "box")
	commandtest.Eventually(t, "the second call is in", func() bool { return f.gauge("portcullis_tokenauth_calls_in_progress") == 2 })
	var stay []<-chan answer
	for range 20 {
		stay = append(stay, call(t.Context(), c, "box"))
	}
	commandtest.Eventually(t, "all calls are in", func() bool { return f.gauge("portcullis_tokenauth_calls_in_progress") == 22 })
	leave()
	leaveToo()
	for _, g := range []<-chan answer{gone, gone2} {
		if got := get(t, g); status.Code(got.err) != codes.Canceled {
			t.Errorf("%v", got.err)
		}
	}
	get(t, h.begun)
	close(h.let)
	for _, s := range stay {
		if got := get(t, s); got.err != nil || got.GetSandboxId() != "box" {
			t.Errorf("%v", got)
		}
	}
	if n := len(h.begun); n > 1 { // one, if a call was slow to join
		t.Errorf("%d more decisions were made", n)
	}
	commandtest.Eventually(t, "every call is recorded", func() bool { return len(f.events.all()) == 22 })
}

// TestOnlyTheSameBearerShares: another credential, and another gateway, is another question, however the two texts join.
func TestOnlyTheSameBearerShares(t *testing.T) {
	var mu sync.Mutex
	let := make(chan struct{})
	begun := make(chan string, 100)
	asked := map[string]int{}
	f := serve(t, service.DefaultSettings(), inquirer(func(_ context.Context, r inquiry.Request) authenticate.Result {
		question := r.GatewayID + "/" + string(r.Credential.Expose())
		mu.Lock()
		asked[question]++
		mu.Unlock()
		begun <- question
		<-let
		return granted(question)
	}), nil)
	c := f.client("lifecycle")
	var calls []<-chan answer
	questions := []struct{ gateway, credential string }{
		{"a", "x"}, {"b", "x"}, {"a", "y"}, // the same credential for two gateways
		{"a", "bc"}, {"ab", "c"}, {"", "abc"}, {"abc", ""}, // the same bytes, cut elsewhere
		{"1:a", "b"}, {"1", ":ab"}, // the same with what stands between them
	}
	for _, q := range questions {
		calls = append(calls, callFor(t.Context(), c, q.gateway, q.credential))
		get(t, begun) // while all before it are being worked on
	}
	close(let)
	for i, q := range questions {
		if got := get(t, calls[i]); got.GetSandboxId() != q.gateway+"/"+q.credential {
			t.Errorf("%v got %v", q, got)
		}
	}
	for question, n := range asked {
		if n != 1 {
			t.Errorf("%s was asked %d times", question, n)
		}
	}
	if n := f.gauge("portcullis_tokenauth_calls_shared_total"); n != 0 {
		t.Errorf("%v calls shared", n)
	}
}

// TestReplayT06AnswersAreNotMixedUp: under load each call gets the answer to its own credential; run with the race detector.
func TestReplayT06AnswersAreNotMixedUp(t *testing.T) {
	f := serve(t, service.DefaultSettings(), steady, nil)
	c := f.client("lifecycle")
	for round := range 10 {
		calls := map[string][]<-chan answer{}
		for i := range 60 {
			credential := fmt.Sprintf("box-%d-%d", round, i%7)
			calls[credential] = append(calls[credential], call(t.Context(), c, credential))
		}
		for credential, list := range calls {
			for _, a := range list {
				if got := get(t, a); got.err != nil || got.GetSandboxId() != credential {
					t.Errorf("%s got %v", credential, got)
				}
			}
		}
	}
}

func TestADefectIsARefusal(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	f := serve(t, service.DefaultSettings(), inquirer(func(ctx context.Context, r inquiry.Request) authenticate.Result {
		if broken.Load() {
			panic("at the credential " + string(r.Credential.Expose()))
		}
		return steady(ctx, r)
	}), nil)
	c := f.client("lifecycle")
	got := get(t, call(t.Context(), c, "box-of-secrets"))
	if status.Code(got.err) != codes.Internal || strings.Contains(f.log.String(), "box-of-secrets") {
		t.Errorf("%v, log %s", got.err, f.log.String())
	}
	if e := f.events.all(); len(e) != 1 || e[0].Decision.Granted() {
		t.Errorf("%+v", e)
	}
	broken.Store(false)
	if got := get(t, call(t.Context(), c, "box-of-secrets")); got.err != nil {
		t.Errorf("it goes on: %v", got.err)
	}
}

// TestADefectElsewhereIsToldWithItsStack: what panicked in a goroutine of the inquiry's own.
func TestADefectElsewhereIsToldWithItsStack(t *testing.T) {
	f := serve(t, service.DefaultSettings(), inquirer(func(context.Context, inquiry.Request) authenticate.Result {
		panic(&inquiry.Panic{Type: "runtime.boundsError", Stack: []byte("goroutine 7: ahead.go:42")})
	}), nil)
	if got := get(t, call(t.Context(), f.client("lifecycle"), "box")); status.Code(got.err) != codes.Internal {
		t.Errorf("%v", got.err)
	}
	for _, want := range []string{`"panic":"runtime.boundsError"`, "goroutine 7: ahead.go:42"} {
		if !strings.Contains(f.log.String(), want) {
			t.Errorf("%s is not in %s", want, f.log.String())
		}
	}
}

func TestTheZeroResultIsARefusal(t *testing.T) {
	f := serve(t, service.DefaultSettings(), inquirer(func(context.Context, inquiry.Request) authenticate.Result { return authenticate.Result{} }), nil)
	if got := get(t, call(t.Context(), f.client("lifecycle"), "box")); status.Code(got.err) != codes.Internal {
		t.Errorf("%v", got)
	}
}

func TestAStopEndsWhatRuns(t *testing.T) {
	h := newHanging()
	f := serve(t, service.DefaultSettings(), h, nil)
	got := call(t.Context(), f.client("lifecycle"), "box")
	running := get(t, h.begun)
	f.stop()
	get(t, running.Done())
	if err := get(t, got).err; err == nil {
		t.Error("granted")
	}
}

// TestOneRuleForRequestIDs: the log's line about a refusal has the id as the event has it.
func TestOneRuleForRequestIDs(t *testing.T) {
	f := serve(t, service.DefaultSettings(), inquirer(func(context.Context, inquiry.Request) authenticate.Result { return refused(verdict.PodNotFound) }), nil)
	c := f.client("lifecycle")
	for i, id := range []string{"r-1", strings.Repeat("r", 300), "eyJhbGciOiJSUzI1NiJ9.e30.c2ln", "two\nlines"} {
		_, err := c.Authenticate(t.Context(), &tokenauthv1.AuthenticateRequest{Credential: "box", GatewayId: "a", RequestId: id})
		if err == nil {
			t.Fatal("granted")
		}
		want := fmt.Sprintf(`"request_id":%q`, audit.RequestID(id))
		commandtest.Eventually(t, want+" is logged", func() bool { return strings.Count(f.log.String(), "bearer refused") == i+1 })
		if !strings.Contains(f.log.String(), want) {
			t.Errorf("%q: %s is not in %s", id, want, f.log.String())
		}
	}
	f.stop() // waits for the lines of gRPC's, too
	told := 0
	for line := range strings.Lines(f.log.String()) {
		if strings.Contains(line, `"message":"gRPC call"`) {
			told++
			if !strings.Contains(line, `"level":"debug"`) {
				t.Errorf("the call has one more line: %s", line)
			}
		}
	}
	if told != 4 {
		t.Errorf("%d calls have a line of gRPC's", told)
	}
}

// TestOthersMayNotAsk: the policy is the mesh's; this shows that the service does not go around it.
func TestOthersMayNotAsk(t *testing.T) {
	f := serve(t, service.DefaultSettings(), steady, nil)
	got := get(t, call(t.Context(), f.client("nswatch"), "box"))
	if d, _ := verdict.FromError(got.err); d.Reason != verdict.CallerNotAuthorized || len(f.events.all()) > 0 {
		t.Errorf("%v", got.err)
	}
}

func TestSettings(t *testing.T) {
	for key, change := range map[string]func(*service.Settings){
		"":                          func(*service.Settings) {},
		"call_timeout":              func(s *service.Settings) { s.CallTimeout = driverconf.Duration(time.Hour) },
		"lookup_timeout":            func(s *service.Settings) { s.LookupTimeout = s.CallTimeout + 1 },
		"max_concurrent":            func(s *service.Settings) { s.MaxConcurrent = 20000 },
		"max_concurrent_per_caller": func(s *service.Settings) { s.MaxConcurrentPerCaller = s.MaxConcurrent + 1 },
		"max_concurrent_per_bearer": func(s *service.Settings) { s.MaxConcurrentPerBearer = 0 },
	} {
		s := service.DefaultSettings()
		change(&s)
		var got []string
		s.Validate(func(key, _ string) { got = append(got, key) })
		if strings.Join(got, " ") != key {
			t.Errorf("%q: reported %v", key, got)
		}
		hasher, err := audit.NewHasher("")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := service.New(s, steady, &events{}, hasher, zerolog.Nop(), prometheus.NewRegistry()); (err == nil) != (key == "") {
			t.Errorf("%q: New says %v", key, err)
		}
	}
	if _, err := service.New(service.Settings{}, nil, nil, nil, zerolog.Nop(), nil); err == nil {
		t.Error("the zero settings are taken")
	}
}

func TestMetricsLint(t *testing.T) {
	f := serve(t, service.DefaultSettings(), steady, nil)
	problems, err := testutil.GatherAndLint(f.reg, "portcullis_tokenauth_decisions_total", "portcullis_tokenauth_decision_seconds",
		"portcullis_tokenauth_calls_in_progress", "portcullis_tokenauth_calls_shared_total")
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}
