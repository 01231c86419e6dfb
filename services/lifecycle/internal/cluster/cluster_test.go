package cluster_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/cluster"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// answers are those of an API server to POST, GET and DELETE, by method.
type answers map[string]func(w http.ResponseWriter)

func raise(t *testing.T, a answers) *cluster.Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		a[r.Method](w)
	}))
	t.Cleanup(server.Close)
	cfg := &rest.Config{Host: server.URL, QPS: -1}
	typed, err1 := kubernetes.NewForConfig(cfg)
	objects, err2 := dynamic.NewForConfig(cfg)
	metas, err3 := metadata.NewForConfig(cfg)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	scheme := workspace.Scheme{Mode: driverconf.ModeOperator, GatewayID: "gw"}
	c, err := cluster.New(scheme, kubeclient.Client{Typed: typed, Dynamic: objects, Metadata: metas})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func fails(code int, reason metav1.StatusReason) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
		})
	}
}

func box(generation, uid string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox",
		"metadata": map[string]any{"namespace": "team", "name": "box", "uid": uid, "annotations": map[string]any{workspace.AnnotationGeneration: generation}},
	}}
}

func gives(u *unstructured.Unstructured) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { _ = json.NewEncoder(w).Encode(u.Object) }
}

// What was made is told from what was there by its generation, whatever became of the answer.
func TestCreate(t *testing.T) {
	ours, other := gives(box("g-ours", "uid-1")), gives(box("g-other", "uid-2"))
	cases := map[string]struct {
		post, get func(http.ResponseWriter)
		want      error
	}{
		"made":                         {ours, nil, nil},
		"there, ours by a retry":       {fails(409, metav1.StatusReasonAlreadyExists), ours, nil},
		"there, another's":             {fails(409, metav1.StatusReasonAlreadyExists), other, cluster.ErrExists},
		"no clear answer, made":        {fails(500, metav1.StatusReasonInternalError), ours, nil},
		"no clear answer, another's":   {fails(500, metav1.StatusReasonInternalError), other, cluster.ErrExists},
		"no clear answer, not there":   {fails(500, metav1.StatusReasonInternalError), fails(404, metav1.StatusReasonNotFound), cluster.ErrUnsettled},
		"no clear answer, not told":    {fails(500, metav1.StatusReasonInternalError), fails(500, metav1.StatusReasonInternalError), cluster.ErrUnsettled},
		"refused":                      {fails(403, metav1.StatusReasonForbidden), nil, cluster.ErrRefused},
		"the resource is not served":   {fails(404, metav1.StatusReasonNotFound), nil, cluster.ErrNotServed},
		"there, and it cannot be read": {fails(409, metav1.StatusReasonAlreadyExists), fails(500, metav1.StatusReasonInternalError), cluster.ErrExists},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			made, err := raise(t, answers{http.MethodPost: c.post, http.MethodGet: c.get}).Create(t.Context(),
				func(sandboxapi.Version) (*unstructured.Unstructured, error) { return box("g-ours", ""), nil })
			if !errors.Is(err, c.want) || (err == nil) != (made.UID == "uid-1") {
				t.Errorf("made %+v, error %v, want %v", made, err, c.want)
			}
		})
	}
}

// A conflict is looked into: only another uid, or nothing, is absence (contract 7.12).
func TestDelete(t *testing.T) {
	conflicts := 0
	once := func(w http.ResponseWriter) {
		if conflicts++; conflicts == 1 {
			fails(409, metav1.StatusReasonConflict)(w)
			return
		}
		gives(box("g", "uid-1"))(w)
	}
	cases := map[string]struct {
		remove, get func(http.ResponseWriter)
		gone, fails bool
	}{
		"there":                       {gives(box("g", "uid-1")), nil, true, false},
		"gone":                        {fails(404, metav1.StatusReasonNotFound), nil, false, false},
		"a write came between":        {once, gives(box("g", "uid-1")), true, false},
		"another has the name":        {fails(409, metav1.StatusReasonConflict), gives(box("g", "uid-2")), false, false},
		"a conflict, and then gone":   {fails(409, metav1.StatusReasonConflict), fails(404, metav1.StatusReasonNotFound), false, false},
		"a conflict, and not told":    {fails(409, metav1.StatusReasonConflict), fails(500, metav1.StatusReasonInternalError), false, true},
		"the API server is not well":  {fails(500, metav1.StatusReasonInternalError), nil, false, true},
		"the right to it was revoked": {fails(403, metav1.StatusReasonForbidden), nil, false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			gone, err := raise(t, answers{http.MethodDelete: c.remove, http.MethodGet: c.get}).
				Delete(t.Context(), sandboxapi.V1beta1, "team", "box", "uid-1")
			if gone != c.gone || (err != nil) != c.fails {
				t.Errorf("deleted %t, error %v", gone, err)
			}
		})
	}
	if _, err := raise(t, nil).Delete(t.Context(), sandboxapi.V1beta1, "team", "box", ""); err == nil || !strings.Contains(err.Error(), "uid") {
		t.Errorf("without a uid: %v", err)
	}
}
