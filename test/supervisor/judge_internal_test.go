package supervisor

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/companions/bootstrap"
	"github.com/portcullis-mesh/portcullis/test/companions/materialtest"
)

// pod is one of a pair, with a gate or without.
func pod(t *testing.T, role string, gated bool, change func(*corev1.Pod)) *unstructured.Unstructured {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "box", UID: types.UID(role), Labels: map[string]string{"openshell.ai/boundary-pair": "id", "openshell.ai/boundary-role": role},
	}}
	if role == "supervisor" {
		p.Name = "os-supervisor-id"
	}
	if gated {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}}
	}
	if change != nil {
		change(p)
	}
	object, err := api.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: object}
}

func secret(t *testing.T, change func(*corev1.Secret)) *unstructured.Unstructured {
	t.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "os-sandbox-id-g", UID: "secret", OwnerReferences: []metav1.OwnerReference{{Kind: "Pod"}},
			Labels: map[string]string{"openshell.ai/managed-by": "openshell", "openshell.ai/sandbox-id": "id"},
		},
		Immutable: new(true), Type: corev1.SecretTypeOpaque,
	}
	change(s)
	object, err := api.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: object}
}

// A judge that finds nothing wrong with anything would pass every test: each of these is a breach.
func TestJudgeFindsBreaches(t *testing.T) {
	t.Parallel()
	policy := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
		"name": "openshell-sandbox-workloads", "uid": "policy", "labels": map[string]any{"openshell.ai/managed-by": "openshell"},
	}}}
	box := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
		"name": "box", "uid": "box", "labels": map[string]any{"openshell.ai/sandbox-id": "id"},
	}}}
	going := func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }
	changed := policy.DeepCopy()
	plain := func(*corev1.Secret) {}
	for name, tc := range map[string]struct {
		events []Event
		want   string
	}{
		"a workload without a gate and a fence": {[]Event{{Kind: Pods, Object: pod(t, "workload", false, nil)}}, "no policy"},
		"a supervisor without a gate and a fence": {[]Event{
			{Kind: Pods, Object: pod(t, "supervisor", true, nil)}, {Kind: Pods, Object: pod(t, "supervisor", false, nil)},
		}, "no policy"},
		"a workload that goes before its supervisor": {[]Event{
			{Kind: Pods, Object: pod(t, "supervisor", true, nil)},
			{Kind: Pods, Object: pod(t, "workload", true, nil)},
			{Kind: Pods, Object: pod(t, "workload", true, going)},
		}, "while its supervisor"},
		"a workload that is gone before its supervisor": {[]Event{
			{Kind: Pods, Object: pod(t, "supervisor", true, nil)},
			{Kind: Pods, Object: pod(t, "workload", true, nil)},
			{Kind: Pods, Object: pod(t, "workload", true, nil), Removed: true},
		}, "while its supervisor"},
		"a policy that is written to": {[]Event{{Kind: Policies, Object: policy}, {Kind: Policies, Object: changed}}, "changed or removed"},
		"a policy that is removed":    {[]Event{{Kind: Policies, Object: policy}, {Kind: Policies, Object: policy, Removed: true}}, "changed or removed"},
		"a Secret before the Pods":    {[]Event{{Kind: Sandboxes, Object: box}, {Kind: Secrets, Object: secret(t, plain)}}, "before both Pods"},
		"a Secret that can be changed": {[]Event{
			{Kind: Secrets, Object: secret(t, func(s *corev1.Secret) { s.Immutable = nil })},
		}, "immutable"},
		"a Secret without an owner": {[]Event{
			{Kind: Secrets, Object: secret(t, func(s *corev1.Secret) { s.OwnerReferences = nil })},
		}, "owners"},
		"a Secret for a Pod that runs": {[]Event{
			{Kind: Sandboxes, Object: box},
			{Kind: Pods, Object: pod(t, "supervisor", true, nil)},
			{Kind: Pods, Object: pod(t, "workload", false, nil)},
			{Kind: Secrets, Object: secret(t, plain)},
		}, "no gate any more"},
		"a Secret without a fence": {[]Event{
			{Kind: Sandboxes, Object: box},
			{Kind: Pods, Object: pod(t, "supervisor", true, nil)},
			{Kind: Pods, Object: pod(t, "workload", true, nil)},
			{Kind: Secrets, Object: secret(t, plain)},
		}, "no policy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := last(tc.events); got == nil || !strings.Contains(got.Error(), tc.want) {
				t.Errorf("found %v, want %q in it", got, tc.want)
			}
		})
	}
}

// last is what the judge says of the last event.
func last(events []Event) (found error) {
	state := State{}
	for _, e := range events {
		before := state[e.Kind+"/"+e.Object.GetName()]
		state.apply(e)
		found = breach(state, before, e)
	}
	return found
}

// Secrets of two attempts do not verify each other.
func TestLeafOfAnotherAttempt(t *testing.T) {
	t.Parallel()
	m := materialtest.Make(t, "127.0.0.1:5500")
	tls := m.Descriptor["tls"].(materialtest.Object)
	d := bootstrap.Descriptor{TLS: bootstrap.TransportTLS{ServerName: tls["server_name"].(string), TrustAnchorPEM: tls["trust_anchor_pem"].(string)}}
	of := func(leaf materialtest.Pair) error {
		s := &set{own: &corev1.Secret{Data: map[string][]byte{"tls.crt": leaf.Certificate, "tls.key": leaf.Key}}}
		s.theirs = &corev1.Secret{Data: map[string][]byte{"proxy-ca.crt": leaf.Certificate, "proxy-ca.key": leaf.Key}}
		return s.leaf(d)
	}
	if err := of(m.Leaf); err != nil {
		t.Errorf("of the same attempt: %v", err)
	}
	if err := of(materialtest.ForeignLeaf(t)); err == nil || !strings.Contains(err.Error(), "two attempts") {
		t.Errorf("of another: %v", err)
	}
}

// What a test takes away drags the rest with it in no order, and all else that happens meanwhile counts: so does what becomes of what the test
// did not touch.
func TestDisorderIsNoLawlessness(t *testing.T) {
	t.Parallel()
	events := []Event{
		{Kind: Pods, Revision: 1, Object: pod(t, "supervisor", true, nil)},
		{Kind: Pods, Revision: 2, Object: pod(t, "workload", true, nil)},
		{Kind: Pods, Revision: 3, Object: pod(t, "workload", true, nil), Removed: true},
		{Kind: Pods, Revision: 4, Object: pod(t, "supervisor", false, nil)},
	}
	for name, tc := range map[string]struct {
		prepare func(*History)
		want    []string
	}{
		"judged":                              {func(*History) {}, []string{"while its supervisor", "no policy"}},
		"disordered":                          {func(h *History) { h.Disordered("x-1") }, []string{"no policy"}},
		"disordered, and one harmed":          {func(h *History) { h.Disordered("x-1"); h.Excuse("x-1", Pods+"/os-supervisor-id") }, nil},
		"disordered, incomplete and unfenced": {func(h *History) { h.Disordered("x-1"); h.Incomplete("x-1", Pods+"/os-supervisor-id") }, []string{"no policy"}},
		"another one harmed":                  {func(h *History) { h.Excuse("x-1", Pods+"/other") }, []string{"while its supervisor", "no policy"}},
	} {
		said := &verdicts{TB: t}
		h := &History{t: said, events: map[string][]Event{"x-1": events}, lawless: map[string]bool{}, excused: map[string]bool{}, disordered: map[string]bool{}, incomplete: map[string]bool{}}
		tc.prepare(h)
		h.judged()
		if len(said.said) != len(tc.want) {
			t.Errorf("%s: it says %q, want %q", name, said.said, tc.want)
			continue
		}
		for i, want := range tc.want {
			if !strings.Contains(said.said[i], want) {
				t.Errorf("%s: it says %q, want %q", name, said.said, tc.want)
			}
		}
	}
}
