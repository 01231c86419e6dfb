package lookups_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/apitest"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/lookups"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const audience = "openshell-gateway"

type fixture struct {
	*apitest.Server
	*lookups.Cluster
	world *apitest.World
	reg   *prometheus.Registry
}

func start(t *testing.T, timeout time.Duration, change ...func(*kubeclient.Config)) *fixture {
	t.Helper()
	world := apitest.Valid(driverconf.ModeShared)
	return startWith(t, world, apitest.Start(t, world), timeout, change...)
}

func startWith(t *testing.T, world *apitest.World, server *apitest.Server, timeout time.Duration, change ...func(*kubeclient.Config)) *fixture {
	t.Helper()
	f := &fixture{Server: server, world: world, reg: prometheus.NewRegistry()}
	clients := f.Clients(t, zerolog.Nop(), f.reg, change...)
	var err error
	if f.Cluster, err = lookups.New(clients.Calls, timeout, f.reg); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) review(ctx context.Context, token string) error {
	_, err := f.Review(ctx, secret.New([]byte(token)), audience)
	return err
}

// reads are the three reads of objects, all of the valid bearer.
func (f *fixture) reads() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		apitest.Namespaces: func(ctx context.Context) error { _, err := f.Namespace(ctx, "sandboxes"); return err },
		apitest.Pods:       func(ctx context.Context) error { _, err := f.Pod(ctx, "sandboxes", apitest.PodName); return err },
		apitest.Sandboxes: func(ctx context.Context) error {
			_, err := f.Sandbox(ctx, sandboxapi.V1beta1, "sandboxes", apitest.SandboxName)
			return err
		},
	}
}

func TestWhatIsRead(t *testing.T) {
	f := start(t, time.Minute)
	status, err := f.Review(t.Context(), secret.New([]byte(f.world.Token)), audience)
	if err != nil || !status.Authenticated || status.Audiences[0] != audience || status.User.Username != f.world.Status.User.Username {
		t.Errorf("%+v %v", status, err)
	}
	ns, err := f.Namespace(t.Context(), "sandboxes")
	if err != nil || ns.Name != "sandboxes" || ns.UID != apitest.NamespaceUID {
		t.Errorf("%+v %v", ns, err)
	}
	pod, err := f.Pod(t.Context(), "sandboxes", apitest.PodName)
	if err != nil || pod.UID != apitest.PodUID || pod.Labels["openshell.ai/boundary-role"] != "supervisor" || len(pod.OwnerReferences) != 1 {
		t.Errorf("%+v %v", pod, err)
	}
	box, err := f.Sandbox(t.Context(), sandboxapi.V1beta1, "sandboxes", apitest.SandboxName)
	if err != nil || box.UID != apitest.SandboxUID || box.Deleting {
		t.Errorf("%+v %v", box, err)
	}
	want := "[POST tokenreviews GET namespaces sandboxes GET pods sandboxes/" + apitest.PodName + " GET sandboxes sandboxes/box]"
	if got := fmt.Sprint(f.Seen()); got != want {
		t.Errorf("seen %s, want %s", got, want)
	}
}

// TestOnlyMetadataIsRead: however large an object is, what comes of it is small.
func TestOnlyMetadataIsRead(t *testing.T) {
	f := start(t, time.Minute)
	f.Change(func(w *apitest.World) { w.SpecBytes = 1 << 20 })
	for resource, read := range f.reads() {
		if err := read(t.Context()); err != nil {
			t.Errorf("%s: %v", resource, err)
		}
		if n := f.Sent(resource); n == 0 || n > 8<<10 {
			t.Errorf("%s: %d bytes came, of 1 MiB", resource, n)
		}
	}
	box, err := f.Sandbox(t.Context(), sandboxapi.V1beta1, "sandboxes", apitest.SandboxName)
	if err != nil || box.Labels["openshell.ai/gateway-id"] != apitest.GatewayID || box.Annotations["openshell.ai/sandbox-runtime-supervisor-uid"] != apitest.PodUID {
		t.Errorf("%+v %v", box, err)
	}
	f.Change(func(w *apitest.World) { w.Sandbox.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
	if box, err = f.Sandbox(t.Context(), sandboxapi.V1beta1, "sandboxes", apitest.SandboxName); err != nil || !box.Deleting {
		t.Errorf("%+v %v", box, err)
	}
}

// TestAbsentIsWhatTheAPIServerSaysIsAbsent: everything else with a 404 is another error.
func TestAbsentIsWhatTheAPIServerSaysIsAbsent(t *testing.T) {
	f := start(t, time.Minute)
	f.Change(func(w *apitest.World) { w.Namespace, w.Pod, w.Sandbox = nil, nil, nil })
	for resource, read := range f.reads() {
		if err := read(t.Context()); !errors.Is(err, lookups.ErrAbsent) {
			t.Errorf("%s: %v", resource, err)
		}
		other := apitest.Status(404, metav1.StatusReasonNotFound, "not found")
		other.Details = &metav1.StatusDetails{Kind: resource, Name: "another"}
		group, name := "", "sandboxes"
		switch resource {
		case apitest.Pods:
			name = apitest.PodName
		case apitest.Sandboxes:
			group, name = sandboxapi.Group, apitest.SandboxName
		}
		relayed := apitest.Status(404, metav1.StatusReasonNotFound, "not found")
		relayed.Details = &metav1.StatusDetails{
			Group: group, Kind: resource, Name: name, Causes: []metav1.StatusCause{{Type: metav1.CauseTypeUnexpectedServerResponse}},
		}
		for name, fault := range map[string]apitest.Fault{
			"relayed": func(w http.ResponseWriter, _ *http.Request) bool {
				apitest.Write(w, 404, relayed)
				return true
			},
			"not served":     apitest.Plain(404, "404 page not found\n"),
			"of a proxy":     apitest.Plain(404, "<html>nothing</html>"),
			"without detail": apitest.Fail(404, metav1.StatusReasonNotFound, "not found"),
			"of another object": func(w http.ResponseWriter, _ *http.Request) bool {
				apitest.Write(w, 404, other)
				return true
			},
			"gone": apitest.Fail(410, metav1.StatusReasonGone, "gone"),
		} {
			f.On(resource, fault)
			if err := read(t.Context()); err == nil || errors.Is(err, lookups.ErrAbsent) {
				t.Errorf("%s, %s: %v", resource, name, err)
			}
		}
	}
}

func TestAVersionThatIsNotServedIsNotAbsence(t *testing.T) {
	f := start(t, time.Minute)
	f.On(apitest.Sandboxes, func(w http.ResponseWriter, r *http.Request) bool {
		return strings.Contains(r.URL.Path, "/v1alpha1/") && apitest.Plain(404, "404 page not found\n")(w, r)
	})
	_, err := f.Sandbox(t.Context(), sandboxapi.V1alpha1, "sandboxes", apitest.SandboxName)
	if err == nil || errors.Is(err, lookups.ErrAbsent) || !strings.Contains(err.Error(), "does not serve sandboxes.agents.x-k8s.io") {
		t.Errorf("%v", err)
	}
	if _, err := f.Sandbox(t.Context(), "v9", "sandboxes", apitest.SandboxName); err == nil || errors.Is(err, lookups.ErrAbsent) {
		t.Errorf("%v", err)
	}
}

func TestNamesThatWouldBeAnotherPath(t *testing.T) {
	f := start(t, time.Minute)
	for _, name := range []string{"", ".", "..", "a/b", "../x", "a%2fb"} {
		_, pod := f.Pod(t.Context(), "sandboxes", name)
		_, in := f.Pod(t.Context(), name, "x")
		_, ns := f.Namespace(t.Context(), name)
		_, box := f.Sandbox(t.Context(), sandboxapi.V1beta1, "sandboxes", name)
		for _, err := range []error{pod, in, ns, box} {
			if err == nil || errors.Is(err, lookups.ErrAbsent) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	if seen := f.Seen(); len(seen) > 0 {
		t.Errorf("asked for %v", seen)
	}
}

// TestReviewAnswers: a status that is missing, one that is empty, and what is no TokenReview are three things.
func TestReviewAnswers(t *testing.T) {
	f := start(t, time.Minute)
	body := func(text string) apitest.Fault {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(text))
			return true
		}
	}
	const head = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1"`
	for name, c := range map[string]struct {
		text   string
		absent bool
		fails  bool
	}{
		"empty status":       {text: head + `,"status":{"user":{}}}`},
		"no status":          {text: head + `}`, absent: true},
		"null status":        {text: head + `,"status":null}`, absent: true},
		"not JSON":           {text: `x`, fails: true},
		"nothing":            {text: ``, fails: true},
		"another kind":       {text: `{"kind":"Pod","apiVersion":"v1","status":{"authenticated":true}}`, fails: true},
		"a neighbour":        {text: `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true}}`, fails: true},
		"another version":    {text: `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v9","status":{"authenticated":true}}`, fails: true},
		"status of a number": {text: head + `,"status":1}`, fails: true},
	} {
		f.On(apitest.TokenReviews, body(c.text))
		status, err := f.Review(t.Context(), secret.New([]byte(f.world.Token)), audience)
		switch {
		case c.absent && !errors.Is(err, lookups.ErrAbsent), c.fails && (err == nil || errors.Is(err, lookups.ErrAbsent)),
			!c.absent && !c.fails && (err != nil || status.Authenticated):
			t.Errorf("%s: %+v %v", name, status, err)
		}
	}
}

// TestEveryReadHasADeadline: its own, and the call's.
func TestEveryReadHasADeadline(t *testing.T) {
	f := start(t, 200*time.Millisecond)
	all := f.reads()
	all[apitest.TokenReviews] = func(ctx context.Context) error { return f.review(ctx, f.world.Token) }
	for resource, read := range all {
		f.On(resource, apitest.Hang)
		if err := read(t.Context()); err == nil || errors.Is(err, lookups.ErrAbsent) {
			t.Errorf("%s hangs: %v", resource, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := read(ended); err == nil || errors.Is(err, lookups.ErrAbsent) {
			t.Errorf("%s after the call: %v", resource, err)
		}
	}
}

// TestRetryAfterIsWithinTheDeadline: the client repeats what the server asks it to repeat, and no longer than it may.
func TestRetryAfterIsWithinTheDeadline(t *testing.T) {
	f := start(t, 30*time.Second)
	var asked atomic.Int64
	busy := func(seconds string, times int64) apitest.Fault {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if asked.Add(1) > times {
				return false
			}
			w.Header().Set("Retry-After", seconds)
			return apitest.Fail(429, metav1.StatusReasonTooManyRequests, "slow down")(w, r)
		}
	}
	f.On(apitest.TokenReviews, busy("0", 2))
	if err := f.review(t.Context(), f.world.Token); err != nil || asked.Load() != 3 {
		t.Errorf("%d requests: %v", asked.Load(), err)
	}
	short := start(t, 300*time.Millisecond)
	short.On(apitest.TokenReviews, busy("3600", 1<<40))
	if err := short.review(t.Context(), short.world.Token); err == nil {
		t.Error("an hour is over already")
	}
}

// TestReplayT10ThrottlingIsBoundedAndSaid: the client's own limit ends a read, with the keys to raise, instead of holding it up.
func TestReplayT10ThrottlingIsBoundedAndSaid(t *testing.T) {
	f := start(t, time.Minute, func(c *kubeclient.Config) {
		c.QPS, c.Burst = 0.1, 1
		c.ThrottleTimeout = driverconf.Duration(100 * time.Millisecond)
	})
	if err := f.review(t.Context(), f.world.Token); err != nil {
		t.Fatal(err)
	}
	err := f.review(t.Context(), f.world.Token)
	if !errors.Is(err, kubeclient.ErrThrottled) || !strings.Contains(err.Error(), "qps and burst") {
		t.Errorf("%v", err)
	}
	if n := f.Count("POST tokenreviews"); n != 1 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestMetrics(t *testing.T) {
	f := start(t, time.Minute)
	_ = f.review(t.Context(), f.world.Token)
	f.On(apitest.TokenReviews, apitest.Plain(418, "teapot"))
	_ = f.review(t.Context(), f.world.Token)
	f.On(apitest.TokenReviews, apitest.Fail(503, metav1.StatusReasonServiceUnavailable, "away"))
	_ = f.review(t.Context(), f.world.Token)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = f.review(ended, f.world.Token)
	want := map[string]float64{"201": 1, "4xx": 1, "503": 1, "none": 1, "200": 0}
	families, err := f.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "portcullis_tokenauth_tokenreviews_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			code := m.GetLabel()[0].GetValue()
			if n, ok := want[code]; ok && m.GetCounter().GetValue() != n {
				t.Errorf("%s: %v, want %v", code, m.GetCounter().GetValue(), n)
			}
			delete(want, code)
		}
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
	if problems, err := testutil.GatherAndLint(f.reg, "portcullis_tokenauth_tokenreviews_total", "portcullis_tokenauth_lookup_seconds"); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestNewRefuses(t *testing.T) {
	f := start(t, time.Minute)
	clients := f.Clients(t, zerolog.Nop(), prometheus.NewRegistry())
	for name, err := range map[string]error{
		"no timeout":  second(lookups.New(clients.Calls, 0, prometheus.NewRegistry())),
		"no client":   second(lookups.New(kubeclient.Client{}, time.Second, prometheus.NewRegistry())),
		"no registry": second(lookups.New(clients.Calls, time.Second, nil)),
		"twice":       second(lookups.New(clients.Calls, time.Second, f.reg)),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func second(_ *lookups.Cluster, err error) error { return err }
