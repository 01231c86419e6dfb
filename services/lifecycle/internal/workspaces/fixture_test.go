package workspaces_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/workspaces"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/allowlist/allowlisttest"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// How an API server answers is replayed here, refusals above all; that it answers so is shown against a real one in the tests of
// the whole program.
type apiServer struct {
	mu      sync.Mutex
	answers map[string][]answer // by "METHOD path", in order; the last one stays
	sent    []string
	bodies  map[string]string
	queries map[string][]url.Values
}

type answer struct {
	code int
	body any
}

const (
	namespaces = "/api/v1/namespaces"
	source     = "openshell"
	managed    = "openshell-gw-team"
	operator   = "team"
)

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	key := r.Method + " " + r.URL.Path
	s.sent = append(s.sent, key)
	s.bodies[key], s.queries[key] = string(body), append(s.queries[key], r.URL.Query())
	left := s.answers[key]
	var next answer
	switch {
	case len(left) == 0:
		next = failure(http.StatusNotImplemented, metav1.StatusReasonUnknown)
	case len(left) == 1:
		next = left[0]
	default:
		next, s.answers[key] = left[0], left[1:]
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(next.code)
	_ = json.NewEncoder(w).Encode(next.body)
}

// requests are those that were sent.
func (s *apiServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

func failure(code int, reason metav1.StatusReason) answer {
	return answer{code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "as the test says",
	}}
}

// because is a failure with a cause.
func because(code int, reason metav1.StatusReason, cause metav1.CauseType) answer {
	a := failure(code, reason)
	status := a.body.(metav1.Status)
	status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: cause}}}
	return answer{code, status}
}

func ok(ns *corev1.Namespace) answer { return answer{http.StatusOK, ns} }

func namespace(name string, change ...func(*corev1.Namespace)) *corev1.Namespace {
	ns := &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-1", Labels: map[string]string{}, Annotations: map[string]string{}},
	}
	if name == managed {
		ns.Labels[workspace.LabelManagedBy] = workspace.ManagedByOpenShell
		ns.Labels[workspace.LabelGatewayID], ns.Labels[workspace.LabelSandboxWorkspace] = "gw", "team"
	}
	for _, do := range change {
		do(ns)
	}
	return ns
}

func label(key, value string) func(*corev1.Namespace) {
	return func(ns *corev1.Namespace) { ns.Labels[key] = value }
}

func annotation(keys ...string) func(*corev1.Namespace) {
	return func(ns *corev1.Namespace) {
		for _, key := range keys {
			ns.Annotations["openshift.io/sa.scc."+key] = "1000/10"
		}
	}
}

func terminating(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceTerminating }

func deleting(ns *corev1.Namespace) { ns.DeletionTimestamp = new(metav1.Unix(1, 0)) }

func uid(u types.UID) func(*corev1.Namespace) { return func(ns *corev1.Namespace) { ns.UID = u } }

// list is the allowlist of a test: each Check takes the next answer, the last one stays.
type list []allowlist.Answer

func (l *list) Check(string) allowlist.Answer {
	now := (*l)[0]
	if len(*l) > 1 {
		*l = (*l)[1:]
	}
	return now
}

// listing makes a real answer of the allowlist.
func listing(t *testing.T, entries ...allowlist.Entry) allowlist.Answer {
	t.Helper()
	return allowlisttest.Check(t, "gw", operator, entries...)
}

type fixture struct {
	mode driverconf.Mode
	scc  workspaces.SCC
	ssh  bool
	list *list
	api  map[string][]answer
}

func managedBase() fixture {
	return fixture{mode: driverconf.ModeManaged, scc: workspaces.SCCCopy, api: map[string][]answer{
		"GET " + namespaces + "/" + source:                        {ok(namespace(source))},
		"POST " + namespaces:                                      {answer{http.StatusCreated, namespace(managed)}},
		"GET " + namespaces + "/" + managed:                       {ok(namespace(managed))},
		"DELETE " + namespaces + "/" + managed:                    {answer{http.StatusOK, metav1.Status{Status: metav1.StatusSuccess}}},
		"POST " + namespaces + "/" + managed + "/serviceaccounts": {answer{http.StatusCreated, corev1.ServiceAccount{}}},
		"PATCH /apis/networking.k8s.io/v1/namespaces/" + managed + "/networkpolicies/" + workspace.SSHIngress: {answer{http.StatusOK, map[string]any{}}},
	}}
}

func (f fixture) raise(t *testing.T) (*workspaces.Keeper, *apiServer) {
	t.Helper()
	api := &apiServer{answers: f.api, bodies: map[string]string{}, queries: map[string][]url.Values{}}
	server := httptest.NewServer(api)
	transport := &http.Transport{}
	t.Cleanup(func() { transport.CloseIdleConnections(); server.Close() })
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: server.URL, Transport: transport, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	})
	if err != nil {
		t.Fatal(err)
	}
	settings := workspaces.Settings{
		Scheme:  workspace.Scheme{Mode: f.mode, GatewayID: "gw", Namespace: source},
		Source:  source,
		Account: "runner", SCC: f.scc,
		SSHIngress:     driverconf.ManagedSSHIngress{Enabled: f.ssh, GatewayNamespace: "gateways", GatewayPodSelector: map[string]string{"app": "gateway"}},
		AllocationWait: 500 * time.Millisecond, AllocationPoll: time.Millisecond,
	}
	var checked workspaces.List
	if f.list != nil {
		checked = f.list
	}
	keeper, err := workspaces.New(settings, client, checked, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return keeper, api
}

// reasonOf is the reason of a refusal; any other error fails the test.
func reasonOf(t *testing.T, err error) verdict.Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	refusal := new(workspaces.Refusal)
	if !errors.As(err, &refusal) {
		t.Fatalf("%v is no refusal", err)
	}
	if refusal.Decision.Reason == "" {
		return verdict.Unexplained
	}
	return refusal.Decision.Reason
}
