package supervisor_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// injections are what a mutating webhook does to the Pods of a role, as a JSON patch.
var injections = []struct {
	name, role, patch string
	want              verdict.Reason // none is none
}{
	{"a mesh's proxy beside the agent", "workload", `[{"op":"add","path":"/spec/containers/-","value":{"name":"mesh-proxy","image":"mesh/proxy:1"}}]`, verdict.WorkloadAltered},
	{"an init container", "workload", `[{"op":"add","path":"/spec/initContainers/0","value":{"name":"mesh-init","image":"mesh/init:1"}}]`, verdict.WorkloadAltered},
	{"a variable of ours", "workload", `[{"op":"add","path":"/spec/containers/0/env/-","value":{"name":"OPENSHELL_ENDPOINT","value":"http://elsewhere"}}]`, verdict.WorkloadAltered},
	{"the node's network", "workload", `[{"op":"add","path":"/spec/hostNetwork","value":true}]`, verdict.WorkloadRefused}, // with the sysctl of the Pod it is invalid, and so never admitted
	{"a further network", "workload", `[{"op":"add","path":"/metadata/annotations/k8s.v1.cni.cncf.io~1networks","value":"flat"}]`, verdict.WorkloadAltered},
	{"another ServiceAccount", "supervisor", `[{"op":"add","path":"/spec/serviceAccountName","value":"other"},{"op":"add","path":"/spec/serviceAccount","value":"other"}]`, verdict.CompanionAltered},
	{"a toleration and a label", "workload", `[{"op":"add","path":"/metadata/labels/team","value":"blue"},` +
		`{"op":"add","path":"/spec/tolerations","value":[{"key":"agents","operator":"Exists"}]}]`, ""},
}

// TestWebhookInjects: what a real admission webhook makes of a Pod is judged before any Secret is made for it (contract 7.2 step 20).
func TestWebhookInjects(t *testing.T) {
	t.Parallel()
	s, client := started(t)
	for _, tc := range injections {
		t.Run(tc.name, func(t *testing.T) {
			ns := namespace(t, s)
			_, err := s.Cluster.Client().CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
			must(t, err)
			calls := injectInto(t, s, ns, tc.role, tc.patch)
			b := s.Box(ns)
			_, err = client.Provision(t.Context(), b, b.Run)
			if calls.Load() == 0 {
				t.Fatal("the webhook was not asked")
			}
			if tc.want == "" {
				must(t, err)
				return
			}
			decision := demandRefused(t, err, tc.want)
			t.Log(decision.Explain())
			demandNothing(t, s, b, true)
			for _, e := range s.History.Events(ns) {
				if e.Kind == supervisor.Secrets {
					t.Errorf("a Secret was made: %s", e)
				}
			}
		})
	}
}

// injectInto has a webhook patch the Pods of a role that are made in a namespace, and counts how often it is asked.
func injectInto(t *testing.T, s *supervisor.Site, namespace, role, patch string) *atomic.Int32 {
	t.Helper()
	calls := &atomic.Int32{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<20)).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "not a review", http.StatusBadRequest)
			return
		}
		calls.Add(1)
		kind := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Patch: []byte(patch), PatchType: &kind}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	hooks := s.Cluster.Client().AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := hooks.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "inject-" + namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "inject.portcullis.test",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
			ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{"openshell.ai/boundary-role": role}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			FailurePolicy: new(admissionregistrationv1.Fail), TimeoutSeconds: new(int32(5)),
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, hooks.Delete(context.WithoutCancel(t.Context()), "inject-"+namespace, metav1.DeleteOptions{}))
	})
	// The API server learns of the webhook in its own time.
	probe := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: map[string]string{"openshell.ai/boundary-role": role}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe:1"}}},
	}
	cluster.Eventually(t, "the API server asks the webhook", func(ctx context.Context) error {
		// The patch may not fit the probe, so that its answer says nothing: that it was asked is enough.
		_, _ = s.Cluster.Client().CoreV1().Pods(namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if calls.Load() == 0 {
			return errors.New("it was not asked")
		}
		return nil
	})
	calls.Store(0)
	return calls
}
