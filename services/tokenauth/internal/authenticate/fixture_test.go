package authenticate

import (
	"maps"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/allowlist/allowlisttest"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const (
	gatewayID    = "a"
	team         = "b-c"
	sandboxID    = "0A4B8C1E-5f0e"
	podName      = "os-supervisor-0a4b8c1e-5f0e"
	podUID       = "7c1d2e3f-0a4b-4c8d-8e9f-a0b1c2d3e4f5"
	boxName      = "box"
	boxUID       = "0a4b8c1e-5f0e-4d9a-9a51-6f7a3c2b1d00"
	namespaceUID = "5e5e5e5e-0000-4000-8000-000000000001"
)

var modes = []driverconf.Mode{driverconf.ModeShared, driverconf.ModeManaged, driverconf.ModeOperator}

// namespaceIn is where the valid bearer lives.
func namespaceIn(mode driverconf.Mode) string {
	switch mode {
	case driverconf.ModeShared:
		return "sandboxes"
	case driverconf.ModeManaged:
		return "openshell-a-b-c"
	default:
		return team
	}
}

// evaluatorIn is the evaluator of the valid bearer's gateway.
func evaluatorIn(t testing.TB, mode driverconf.Mode) *Evaluator {
	t.Helper()
	e, err := evaluators[mode]()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var evaluators = map[driverconf.Mode]func() (*Evaluator, error){
	driverconf.ModeShared:   sync.OnceValues(func() (*Evaluator, error) { return New(policyIn(driverconf.ModeShared)) }),
	driverconf.ModeManaged:  sync.OnceValues(func() (*Evaluator, error) { return New(policyIn(driverconf.ModeManaged)) }),
	driverconf.ModeOperator: sync.OnceValues(func() (*Evaluator, error) { return New(policyIn(driverconf.ModeOperator)) }),
}

func policyIn(mode driverconf.Mode) Policy {
	return PolicyOf(&driverconf.Kubernetes{
		WorkspaceMode: mode, GatewayID: gatewayID, Namespace: "sandboxes", ServiceAccountName: "sandbox-runner",
	})
}

// world is everything that facts are made of, in a form that a case can break. facts copies it.
type world struct {
	mode    driverconf.Mode
	bytes   int
	odd     bool // the credential has not the form of a token
	gateway string

	review                       authenticationv1.TokenReviewStatus
	namespace, pod               metav1.ObjectMeta
	sandbox                      sandboxapi.Sandbox
	list, again                  allowlist.Answer
	version                      sandboxapi.Version
	reviewIs, nsIs, podIs, boxIs how
}

// how a lookup went. The zero value is found.
type how int

const (
	found how = iota
	missing
	failed
	unasked
)

// valid is the bearer that every mode grants.
func valid(t testing.TB, mode driverconf.Mode) *world {
	t.Helper()
	namespace := namespaceIn(mode)
	w := &world{
		mode: mode, bytes: 900, gateway: gatewayID, version: sandboxapi.V1beta1,
		review: authenticationv1.TokenReviewStatus{
			Authenticated: true, Audiences: []string{"another", Audience},
			User: authenticationv1.UserInfo{
				Username: "system:serviceaccount:" + namespace + ":sandbox-runner", UID: "account-uid",
				Extra: map[string]authenticationv1.ExtraValue{ExtraPodName: {podName}, ExtraPodUID: {podUID}},
			},
		},
		namespace: metav1.ObjectMeta{Name: namespace, UID: namespaceUID, Labels: map[string]string{}},
		pod: metav1.ObjectMeta{
			Name: podName, Namespace: namespace, UID: podUID,
			Annotations: map[string]string{"openshell.ai/sandbox-id": sandboxID},
			Labels: map[string]string{
				"openshell.ai/boundary-role": "supervisor", "openshell.ai/boundary-pair": "0a4b8c1e-5f0e", "openshell.ai/sandbox-id": sandboxID,
			},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other"},
				{APIVersion: "agents.x-k8s.io/v1beta1", Kind: "Sandbox", Name: boxName, UID: boxUID},
			},
		},
		sandbox: sandboxapi.Sandbox{
			Namespace: namespace, Name: boxName, UID: boxUID,
			Labels: map[string]string{
				"openshell.ai/managed-by": "openshell", "openshell.ai/sandbox-id": sandboxID, "openshell.ai/gateway-id": gatewayID,
				"openshell.ai/sandbox-workspace": team,
			},
			Annotations: map[string]string{"openshell.ai/sandbox-runtime-supervisor-uid": podUID},
		},
	}
	if mode == driverconf.ModeManaged {
		w.namespace.Labels = map[string]string{
			"openshell.ai/managed-by": "openshell", "openshell.ai/gateway-id": gatewayID, "openshell.ai/sandbox-workspace": team,
		}
	}
	if mode == driverconf.ModeOperator {
		w.list, w.again = listed(t), listed(t)
		w.again.Age += time.Second
	}
	return w
}

// owner is the reference to the Sandbox.
func (w *world) owner() *metav1.OwnerReference { return &w.pod.OwnerReferences[1] }

func (w *world) role() string { return w.pod.Labels[workspace.LabelBoundaryRole] }

func (w *world) facts() *Facts {
	namespace := namespaceIn(w.mode)
	pod, box := w.pod, w.sandbox
	pod.Labels, pod.Annotations = maps.Clone(pod.Labels), maps.Clone(pod.Annotations)
	return &Facts{
		CredentialBytes: w.bytes, CredentialCompact: !w.odd, GatewayID: w.gateway, List: w.list, ListAgain: w.again,
		Review:    look(w.reviewIs, Question{Subject: SubjectReview}, &w.review),
		Namespace: look(w.nsIs, Question{Subject: SubjectNamespace, Namespace: namespace}, &w.namespace),
		Pod:       look(w.podIs, Question{Subject: SubjectPod, Namespace: namespace, Name: podName}, &pod),
		Sandbox:   look(w.boxIs, Question{Subject: SubjectSandbox, Namespace: namespace, Name: boxName, Version: w.version}, &box),
	}
}

func look[T any](h how, q Question, value *T) Lookup[T] {
	switch h {
	case found:
		return Found(q, value)
	case missing:
		return Missing[T](q)
	case failed:
		return Failed[T](q, errAPI)
	default:
		return Lookup[T]{}
	}
}

var errAPI = apiError("dial tcp 10.0.0.1:443: connection refused\nretry")

type apiError string

func (e apiError) Error() string { return string(e) }

// The properties ask for it a hundred thousand times.
var (
	listedOnce   sync.Once
	listedAnswer allowlist.Answer
)

// listed is a yes of a real reader about the valid bearer's namespace: only package allowlist can make one.
func listed(t testing.TB) allowlist.Answer {
	t.Helper()
	listedOnce.Do(func() {
		listedAnswer = allowlisttest.Check(t, gatewayID, team, allowlist.Entry{Name: team, UID: namespaceUID})
	})
	answer := listedAnswer
	if !answer.Allowed() || answer.UID != namespaceUID {
		t.Fatalf("the reader answers %+v", answer)
	}
	return answer
}
