package inquiry_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/apitest"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/authenticate"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/inquiry"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/lookups"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 60 * time.Second

var modes = []driverconf.Mode{driverconf.ModeShared, driverconf.ModeManaged, driverconf.ModeOperator}

// fixture is an inquirer with everything that it asks.
type fixture struct {
	*apitest.Server
	*inquiry.Inquirer
	mode    driverconf.Mode
	world   *apitest.World
	cluster inquiry.Cluster
	list    *apitest.List
	// reg has the metrics of the inquirer.
	reg *prometheus.Registry
}

func start(t *testing.T, mode driverconf.Mode) *fixture { return startWith(t, mode, 20*time.Second) }

func startWith(t *testing.T, mode driverconf.Mode, timeout time.Duration) *fixture {
	t.Helper()
	f := &fixture{mode: mode, world: apitest.Valid(mode), list: apitest.NewList(t)}
	f.Server = apitest.Start(t, f.world)
	reg := prometheus.NewRegistry()
	cluster, err := lookups.New(f.Clients(t, zerolog.Nop(), reg).Calls, timeout, reg)
	if err != nil {
		t.Fatal(err)
	}
	f.through(t, cluster)
	return f
}

// through makes the inquirer anew, one that asks cluster.
func (f *fixture) through(t *testing.T, cluster inquiry.Cluster) {
	t.Helper()
	f.cluster, f.reg = cluster, prometheus.NewRegistry()
	var err error
	if f.Inquirer, err = inquiry.New(authenticate.PolicyOf(apitest.Settings(f.mode)), cluster, f.list, f.reg); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) decide(t *testing.T, token string) authenticate.Result {
	t.Helper()
	return f.Decide(t.Context(), inquiry.NewRequest(token, apitest.GatewayID))
}

// refuses demands one reason.
func refuses(t *testing.T, got authenticate.Result, want verdict.Reason) {
	t.Helper()
	if got.Decision.Granted() || got.Decision.Reason != want {
		t.Errorf("%s, want the reason %s", got.Decision.Explain(), want)
	}
}

func grants(t *testing.T, got authenticate.Result, mode driverconf.Mode) {
	t.Helper()
	if !got.Decision.Granted() || got.SandboxID != apitest.SandboxID || got.Identity.String() != apitest.Identity(mode) {
		t.Errorf("%s: %q %s", got.Decision.Explain(), got.SandboxID, got.Identity)
	}
}

func TestTheValidBearerInEveryMode(t *testing.T) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			f := start(t, mode)
			grants(t, f.decide(t, f.world.Token), mode)
			want := []string{"POST tokenreviews", "GET pods " + apitest.NamespaceIn(mode) + "/" + apitest.PodName, "GET sandboxes " + apitest.NamespaceIn(mode) + "/box"}
			if mode != driverconf.ModeShared {
				want = append(want, "GET namespaces "+apitest.NamespaceIn(mode))
			}
			seen := f.Seen()
			slices.Sort(seen)
			slices.Sort(want)
			if !slices.Equal(seen, want) {
				t.Errorf("asked for %v, want each once: %v", seen, want)
			}
			for _, subject := range []string{"pod", "sandbox"} {
				if got := readsAhead(t, f, subject, "used"); got != 1 {
					t.Errorf("%v reads ahead of the %s were used", got, subject)
				}
			}
		})
	}
}

// TestWithoutAHintTheOrderIsTheEvaluators: a token that says nothing, or that says what nobody may have read, costs one review
// before anything else is asked.
func TestWithoutAHintTheOrderIsTheEvaluators(t *testing.T) {
	for name, token := range map[string]string{
		"no JSON":           "b3BhcXVl.b3BhcXVl.b3BhcXVl",
		"another namespace": apitest.Token("kube-system", apitest.PodName, apitest.PodUID),
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, driverconf.ModeOperator)
			f.Change(func(w *apitest.World) { w.Token = token })
			grants(t, f.decide(t, token), driverconf.ModeOperator)
			want := []string{"POST tokenreviews", "GET namespaces b-c", "GET pods b-c/" + apitest.PodName, "GET sandboxes b-c/box"}
			if seen := f.Seen(); !slices.Equal(seen, want) {
				t.Errorf("asked for %v, want %v", seen, want)
			}
			f.Change(func(w *apitest.World) { w.Token = "another" })
			before := len(f.Seen())
			refuses(t, f.decide(t, token), verdict.CredentialNotAccepted)
			if seen := f.Seen()[before:]; !slices.Equal(seen, want[:1]) {
				t.Errorf("a token that is refused was asked about by %v", seen)
			}
		})
	}
}

// TestFailures: each read that fails is "could not find out", with its own reason, and nothing is granted.
func TestFailures(t *testing.T) {
	for resource, reason := range map[string]verdict.Reason{
		apitest.TokenReviews: verdict.ReviewFailed,
		apitest.Namespaces:   verdict.NamespaceLookupFailed,
		apitest.Pods:         verdict.PodLookupFailed,
		apitest.Sandboxes:    verdict.SandboxLookupFailed,
	} {
		f := startWith(t, driverconf.ModeOperator, 300*time.Millisecond)
		for name, fault := range map[string]apitest.Fault{
			"hangs":        apitest.Hang,
			"401":          apitest.Fail(401, metav1.StatusReasonUnauthorized, "no"),
			"403":          apitest.Fail(403, metav1.StatusReasonForbidden, "no"),
			"429":          apitest.Fail(429, metav1.StatusReasonTooManyRequests, "slow"),
			"500":          apitest.Fail(500, metav1.StatusReasonInternalError, "etcd"),
			"503":          apitest.Fail(503, metav1.StatusReasonServiceUnavailable, "away"),
			"not served":   apitest.Plain(404, "404 page not found\n"),
			"proxy's page": apitest.Plain(200, "<html>log in</html>"),
			"cut off":      func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		} {
			f.On(resource, fault)
			got := f.decide(t, f.world.Token)
			if d := got.Decision; d.Granted() || d.Reason != reason || d.Outcome() != verdict.Unknown {
				t.Errorf("%s, %s: %s", resource, name, d.Explain())
			}
		}
		f.On(resource, nil)
		grants(t, f.decide(t, f.world.Token), driverconf.ModeOperator)
	}
}

func TestReviewWithoutStatus(t *testing.T) {
	f := start(t, driverconf.ModeShared)
	f.On(apitest.TokenReviews, func(w http.ResponseWriter, _ *http.Request) bool {
		apitest.Write(w, 201, map[string]string{"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1"})
		return true
	})
	refuses(t, f.decide(t, f.world.Token), verdict.ReviewIncomplete)
}

func TestWhatIsNotThere(t *testing.T) {
	for reason, remove := range map[verdict.Reason]func(*apitest.World){
		verdict.NamespaceNotFound: func(w *apitest.World) { w.Namespace = nil },
		verdict.PodNotFound:       func(w *apitest.World) { w.Pod = nil },
		verdict.SandboxNotFound:   func(w *apitest.World) { w.Sandbox = nil },
	} {
		f := start(t, driverconf.ModeOperator)
		f.Change(remove)
		refuses(t, f.decide(t, f.world.Token), reason)
	}
}

// TestManagedNamespaceOfAnotherGateway: the name is that of workspace b-c at gateway a and of workspace c at gateway a-b. Whose it
// is, only its own labels say; those of the Sandbox are of whoever may write in it.
func TestManagedNamespaceOfAnotherGateway(t *testing.T) {
	f := start(t, driverconf.ModeManaged)
	grants(t, f.decide(t, f.world.Token), f.mode)
	f.Change(func(w *apitest.World) {
		w.Namespace.Labels["openshell.ai/gateway-id"], w.Namespace.Labels["openshell.ai/sandbox-workspace"] = "a-b", "c"
	})
	refuses(t, f.decide(t, f.world.Token), verdict.NamespaceNotOwned)
}

// TestReplayT14PodThatIsNotVisibleYet: not found is asked again, a few times; a Pod that does not match is not.
func TestReplayT14PodThatIsNotVisibleYet(t *testing.T) {
	f := start(t, driverconf.ModeShared)
	var asked atomic.Int64
	f.On(apitest.Pods, func(w http.ResponseWriter, _ *http.Request) bool {
		if asked.Add(1) > 2 {
			return false
		}
		status := apitest.Status(404, metav1.StatusReasonNotFound, "not found")
		status.Details = &metav1.StatusDetails{Kind: "pods", Name: apitest.PodName}
		apitest.Write(w, 404, status)
		return true
	})
	grants(t, f.decide(t, f.world.Token), driverconf.ModeShared)
	if asked.Load() != 3 {
		t.Errorf("the Pod was asked for %d times", asked.Load())
	}

	f.On(apitest.Pods, nil)
	f.Change(func(w *apitest.World) { w.Pod = nil })
	before := f.Count("GET pods")
	refuses(t, f.decide(t, f.world.Token), verdict.PodNotFound)
	if n := f.Count("GET pods") - before; n != 3 {
		t.Errorf("a Pod that is gone was asked for %d times", n)
	}

	f.Change(func(w *apitest.World) {
		*w = *apitest.Valid(driverconf.ModeShared)
		w.Pod.UID = "11111111-2222-4333-8444-555555555555"
	})
	before = f.Count("GET pods")
	refuses(t, f.decide(t, f.world.Token), verdict.PodReplaced)
	if n := f.Count("GET pods") - before; n != 1 {
		t.Errorf("a Pod that does not match was asked for %d times", n)
	}
}

// TestReplayT12NothingIsKept: what is revoked between two calls, at any of its sources, is refused by the second.
func TestReplayT12NothingIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		revoke func(*fixture)
		reason verdict.Reason
	}{
		"token":   {func(f *fixture) { f.Change(func(w *apitest.World) { w.Status.Authenticated = false }) }, verdict.CredentialNotAccepted},
		"Pod":     {func(f *fixture) { f.Change(func(w *apitest.World) { w.Pod = nil }) }, verdict.PodNotFound},
		"Sandbox": {func(f *fixture) { f.Change(func(w *apitest.World) { w.Sandbox = nil }) }, verdict.SandboxNotFound},
		"supervisor": {func(f *fixture) {
			f.Change(func(w *apitest.World) {
				w.Sandbox.Annotations["openshell.ai/sandbox-runtime-supervisor-uid"] = "another"
			})
		}, verdict.SupervisorNotCurrent},
		"namespace": {func(f *fixture) { f.list.Hold() }, verdict.NotListed},
		"list":      {func(f *fixture) { f.list.Forget() }, verdict.Unsynced},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, driverconf.ModeOperator)
			grants(t, f.decide(t, f.world.Token), driverconf.ModeOperator)
			c.revoke(f)
			refuses(t, f.decide(t, f.world.Token), c.reason)
			// Nor is the refusal.
			f.Change(func(w *apitest.World) { *w = *apitest.Valid(driverconf.ModeOperator) })
			f.list.Hold(apitest.Entry())
			grants(t, f.decide(t, f.world.Token), driverconf.ModeOperator)
		})
	}
}

// TestNamespaceThatLeavesTheListWhileTheCallRuns: at whatever point it leaves, the call is refused; only a call that has asked
// for the last time may still be granted.
func TestNamespaceThatLeavesTheListWhileTheCallRuns(t *testing.T) {
	for name, at := range map[string]string{"while the review runs": apitest.TokenReviews, "while the Pod is read": apitest.Pods, "while the Sandbox is read": apitest.Sandboxes} {
		t.Run(name, func(t *testing.T) {
			f := start(t, driverconf.ModeOperator)
			f.On(at, func(http.ResponseWriter, *http.Request) bool { f.list.Hold(); return false })
			refuses(t, f.decide(t, f.world.Token), verdict.NotListed)
		})
	}
	t.Run("before the last question", func(t *testing.T) {
		f := start(t, driverconf.ModeOperator)
		grants(t, f.decide(t, f.world.Token), driverconf.ModeOperator)
		last := 2 * f.list.Asked() // of the second call
		f.list.OnCheck(func(asked int) {
			if asked == last {
				f.list.Hold()
			}
		})
		got := f.decide(t, f.world.Token)
		refuses(t, got, verdict.NotListed)
		if got.Decision.Step != "namespace.listed.again" {
			t.Errorf("refused by %s", got.Decision.Step)
		}
	})
}

// TestACallThatEnds: nothing that was begun for it goes on, and the answer is a refusal.
func TestACallThatEnds(t *testing.T) {
	f := start(t, driverconf.ModeOperator)
	reached := make(chan struct{}, 4)
	for _, resource := range []string{apitest.TokenReviews, apitest.Pods, apitest.Namespaces} {
		f.On(resource, func(w http.ResponseWriter, r *http.Request) bool {
			reached <- struct{}{}
			return apitest.Hang(w, r)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan authenticate.Result, 1)
	go func() { answer <- f.Decide(ctx, inquiry.NewRequest(f.world.Token, apitest.GatewayID)) }()
	for range 3 {
		<-reached
	}
	cancel()
	select {
	case got := <-answer:
		refuses(t, got, verdict.ReviewFailed)
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
}

// TestARefusalDoesNotWaitForWhatWasReadAhead: the reads are ended, and not waited for until they end by themselves.
func TestARefusalDoesNotWaitForWhatWasReadAhead(t *testing.T) {
	f := startWith(t, driverconf.ModeShared, time.Hour)
	reached := make(chan struct{})
	f.On(apitest.Pods, func(w http.ResponseWriter, r *http.Request) bool { close(reached); return apitest.Hang(w, r) })
	f.On(apitest.TokenReviews, func(w http.ResponseWriter, _ *http.Request) bool {
		<-reached
		return apitest.Plain(500, "no")(w, nil)
	})
	answer := make(chan authenticate.Result, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { answer <- f.Decide(ctx, inquiry.NewRequest(f.world.Token, apitest.GatewayID)) }()
	select {
	case got := <-answer:
		refuses(t, got, verdict.ReviewFailed)
	case <-time.After(patience / 2):
		t.Error("it waits")
	}
}

func TestARefusalByTheRequestAsksNobody(t *testing.T) {
	f := start(t, driverconf.ModeOperator)
	refuses(t, f.decide(t, ""), verdict.CredentialMissing)
	refuses(t, f.decide(t, strings.Repeat("x", authenticate.MaxCredential+1)), verdict.CredentialTooLarge)
	refuses(t, f.Decide(t.Context(), inquiry.NewRequest(f.world.Token, "another")), verdict.OtherGateway)
	refuses(t, f.Decide(t.Context(), inquiry.Request{Credential: secret.New([]byte(f.world.Token)), GatewayID: apitest.GatewayID}), verdict.CredentialMissing)
	if seen := f.Seen(); len(seen) > 0 || f.list.Asked() > 0 {
		t.Errorf("asked for %v, and the list %d times", seen, f.list.Asked())
	}
}

// TestOneTokenHasOneSpelling: the API server takes the first word of what it is given, so a token that is right with something
// around it would be granted. It is refused as any other that the API server does not know, and nobody is asked.
func TestOneTokenHasOneSpelling(t *testing.T) {
	f := start(t, driverconf.ModeOperator)
	valid := f.world.Token
	f.Change(func(w *apitest.World) { w.AsTheRealOneReads = true })
	grants(t, f.decide(t, valid), driverconf.ModeOperator)
	before := len(f.Seen())
	for name, token := range map[string]string{
		"a line end": valid + "\n", "a carriage return": valid + "\r\n", "another word": valid + " x", "a space before": " " + valid,
		"a space behind": valid + " ", "a tab": valid + "\t", "a NUL": valid + "\x00", "no UTF-8": valid + "\xff", "another alphabet": valid + "\u00e9",
		"a line end inside": valid[:20] + "\n" + valid[20:], "DEL": valid + "\x7f", "a space that is none of ASCII": valid + "\u00a0x",
		"a bit that says nothing": respelled(t, valid), "no token": "opaque", "two parts": valid[:strings.LastIndex(valid, ".")], "padding": valid + "=",
		"an empty part": valid[:strings.LastIndex(valid, ".")+1],
	} {
		got := f.decide(t, token)
		refuses(t, got, verdict.CredentialMalformed)
		if d := got.Decision; d.Code() != codes.Unauthenticated || d.Message() != "sandbox credential was not accepted" {
			t.Errorf("%s: %s %q", name, d.Code(), d.Message())
		}
	}
	if seen := f.Seen()[before:]; len(seen) > 0 {
		t.Errorf("asked for %v", seen)
	}
}

// respelled is the token with another last character in a part whose last character does not use all its bits.
func respelled(t *testing.T, token string) string {
	t.Helper()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	parts := strings.Split(token, ".")
	for i, part := range parts {
		if len(part)%4 == 0 {
			continue
		}
		last := strings.IndexByte(alphabet, part[len(part)-1])
		parts[i] = part[:len(part)-1] + string(alphabet[last+1])
		return strings.Join(parts, ".")
	}
	t.Fatal("every part uses all its bits")
	return ""
}

func TestExplainIsDecideWithItsSteps(t *testing.T) {
	f := start(t, driverconf.ModeOperator)
	result, findings := f.Explain(t.Context(), inquiry.NewRequest(f.world.Token, apitest.GatewayID))
	grants(t, result, driverconf.ModeOperator)
	if len(findings) != len(authenticate.Steps()) {
		t.Errorf("%d findings", len(findings))
	}
	for _, finding := range findings {
		if finding.Outcome != authenticate.Passed && finding.Outcome != authenticate.Skipped {
			t.Errorf("%s: %s", finding.Step.Name, finding.Outcome)
		}
	}
	f.Change(func(w *apitest.World) { w.Sandbox = nil })
	result, findings = f.Explain(t.Context(), inquiry.NewRequest(f.world.Token, apitest.GatewayID))
	refuses(t, result, verdict.SandboxNotFound)
	if !slices.ContainsFunc(findings, func(f authenticate.Finding) bool {
		return f.Step.Name == "sandbox.found" && f.Outcome == authenticate.Refused
	}) {
		t.Errorf("%+v", findings)
	}
}

func TestNewRefuses(t *testing.T) {
	f := start(t, driverconf.ModeShared)
	cluster := f.cluster
	policy := func(mode driverconf.Mode) authenticate.Policy { return authenticate.PolicyOf(apitest.Settings(mode)) }
	for name, build := range map[string]func() (*inquiry.Inquirer, error){
		"no policy": func() (*inquiry.Inquirer, error) {
			return inquiry.New(authenticate.Policy{}, cluster, f.list, prometheus.NewRegistry())
		},
		"no cluster": func() (*inquiry.Inquirer, error) {
			return inquiry.New(policy("shared"), nil, nil, prometheus.NewRegistry())
		},
		"no list": func() (*inquiry.Inquirer, error) {
			return inquiry.New(policy("operator"), cluster, nil, prometheus.NewRegistry())
		},
		"no registry": func() (*inquiry.Inquirer, error) { return inquiry.New(policy("shared"), cluster, nil, nil) },
		"twice":       func() (*inquiry.Inquirer, error) { return inquiry.New(policy("shared"), cluster, nil, f.reg) },
	} {
		if _, err := build(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if problems, err := testutil.GatherAndLint(f.reg); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}
