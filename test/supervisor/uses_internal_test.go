package supervisor

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestUseOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method, path string
		want         Use
	}{
		{http.MethodGet, "/api/v1/namespaces/a/pods", Use{Verb: "list", Resource: "pods", Namespace: "a"}},
		{http.MethodGet, "/api/v1/pods?watch=true", Use{Verb: "watch", Resource: "pods"}},
		{http.MethodGet, "/api/v1/pods?watch=1", Use{Verb: "watch", Resource: "pods"}},
		{http.MethodGet, "/api/v1/pods?watch=false", Use{Verb: "list", Resource: "pods"}},
		{http.MethodGet, "/api/v1/namespaces/a/pods/b", Use{Verb: "get", Resource: "pods", Namespace: "a", Name: "b"}},
		{http.MethodPost, "/api/v1/namespaces/a/pods/b/exec", Use{Verb: "create", Resource: "pods/exec", Namespace: "a", Name: "b"}},
		{http.MethodDelete, "/api/v1/namespaces/a/secrets", Use{Verb: "deletecollection", Resource: "secrets", Namespace: "a"}},
		{http.MethodDelete, "/api/v1/namespaces/a/secrets/b", Use{Verb: "delete", Resource: "secrets", Namespace: "a", Name: "b"}},
		{
			http.MethodPatch, "/apis/agents.x-k8s.io/v1beta1/namespaces/a/sandboxes/b",
			Use{Verb: "patch", Group: "agents.x-k8s.io", Resource: "sandboxes", Namespace: "a", Name: "b"},
		},
		{
			http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/leases/leases/leases",
			Use{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "leases", Name: "leases"},
		},
		{http.MethodGet, "/api/v1/namespaces/a", Use{Verb: "get", Resource: "namespaces", Name: "a"}},
		{http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", Use{Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews"}},
		{http.MethodGet, "/version", Use{Verb: "get", Resource: "/version"}},
	} {
		if got := useOf(httptest.NewRequest(tc.method, tc.path, http.NoBody)); got != tc.want {
			t.Errorf("%s %s is %+v, want %+v", tc.method, tc.path, got, tc.want)
		}
	}
}
