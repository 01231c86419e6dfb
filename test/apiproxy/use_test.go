package apiproxy_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/apiproxy"
)

func TestUseOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method, path string
		want         apiproxy.Use
	}{
		{http.MethodGet, "/api/v1/namespaces/a/pods", apiproxy.Use{Verb: "list", Resource: "pods", Namespace: "a"}},
		{http.MethodGet, "/api/v1/pods?watch=true", apiproxy.Use{Verb: "watch", Resource: "pods"}},
		{http.MethodGet, "/api/v1/pods?watch=1", apiproxy.Use{Verb: "watch", Resource: "pods"}},
		{http.MethodGet, "/api/v1/pods?watch=false", apiproxy.Use{Verb: "list", Resource: "pods"}},
		{http.MethodGet, "/api/v1/namespaces/a/pods/b", apiproxy.Use{Verb: "get", Resource: "pods", Namespace: "a", Name: "b"}},
		{http.MethodPost, "/api/v1/namespaces/a/pods/b/exec", apiproxy.Use{Verb: "create", Resource: "pods/exec", Namespace: "a", Name: "b"}},
		{http.MethodDelete, "/api/v1/namespaces/a/secrets", apiproxy.Use{Verb: "deletecollection", Resource: "secrets", Namespace: "a"}},
		{http.MethodDelete, "/api/v1/namespaces/a/secrets/b", apiproxy.Use{Verb: "delete", Resource: "secrets", Namespace: "a", Name: "b"}},
		{
			http.MethodPatch, "/apis/agents.x-k8s.io/v1beta1/namespaces/a/sandboxes/b",
			apiproxy.Use{Verb: "patch", Group: "agents.x-k8s.io", Resource: "sandboxes", Namespace: "a", Name: "b"},
		},
		{
			http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/leases/leases/leases",
			apiproxy.Use{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "leases", Name: "leases"},
		},
		{http.MethodGet, "/api/v1/namespaces/a", apiproxy.Use{Verb: "get", Resource: "namespaces", Name: "a"}},
		{http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", apiproxy.Use{Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews"}},
		{http.MethodGet, "/version", apiproxy.Use{Verb: "get", Resource: "/version"}},
	} {
		if got := apiproxy.UseOf(httptest.NewRequest(tc.method, tc.path, http.NoBody)); got != tc.want {
			t.Errorf("%s %s is %+v, want %+v", tc.method, tc.path, got, tc.want)
		}
	}
}
