package cluster_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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
	return raiseRaw(t, func(w http.ResponseWriter, r *http.Request) { a[r.Method](w) })
}

// raiseRaw is raise for who looks at the requests.
func raiseRaw(t *testing.T, serve http.HandlerFunc) *cluster.Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		serve(w, r)
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
		"made":                       {ours, nil, nil},
		"there, ours by a retry":     {fails(409, metav1.StatusReasonAlreadyExists), ours, nil},
		"there, another's":           {fails(409, metav1.StatusReasonAlreadyExists), other, cluster.ErrExists},
		"no clear answer, made":      {fails(500, metav1.StatusReasonInternalError), ours, nil},
		"no clear answer, another's": {fails(500, metav1.StatusReasonInternalError), other, cluster.ErrExists},
		"no clear answer, not there": {fails(500, metav1.StatusReasonInternalError), fails(404, metav1.StatusReasonNotFound), cluster.ErrUnsettled},
		"no clear answer, not told":  {fails(500, metav1.StatusReasonInternalError), fails(500, metav1.StatusReasonInternalError), cluster.ErrUnsettled},
		"refused":                    {fails(403, metav1.StatusReasonForbidden), nil, cluster.ErrRefused},
		"the resource is not served": {fails(404, metav1.StatusReasonNotFound), nil, cluster.ErrNotServed},
		"the namespace is going": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden,
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
			})
		}, nil, cluster.ErrTerminating},
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

// What the API server has not judged is not refused, and what it quotes of the object is in no error.
func TestCreateThatNobodyJudged(t *testing.T) {
	for reason, code := range map[metav1.StatusReason]int{
		metav1.StatusReasonUnauthorized: 401, metav1.StatusReasonConflict: 409, metav1.StatusReasonTooManyRequests: 429,
	} {
		_, err := raise(t, answers{http.MethodPost: fails(code, reason)}).Create(t.Context(),
			func(sandboxapi.Version) (*unstructured.Unstructured, error) { return box("g-ours", ""), nil })
		if err == nil || errors.Is(err, cluster.ErrRefused) || errors.Is(err, cluster.ErrExists) {
			t.Errorf("%s: %v", reason, err)
		}
	}
	_, err := raise(t, answers{http.MethodPost: func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid,
			Message: `spec.env: Invalid value: "s3cr3t": ` + strings.Repeat("no ", 1<<16),
		})
	}}).Create(t.Context(), func(sandboxapi.Version) (*unstructured.Unstructured, error) { return box("g-ours", ""), nil })
	if !errors.Is(err, cluster.ErrRefused) || strings.Contains(err.Error(), "s3cr3t") || len(err.Error()) > 1024 {
		t.Errorf("%.2000v", err)
	}
}

// What is reaped is as it was found: neither another object of the name, nor one that was answered for meanwhile.
func TestReap(t *testing.T) {
	found := cluster.Made{Namespace: "team", Name: "box", UID: "uid-1", Version: sandboxapi.V1beta1, ResourceVersion: "7"}
	cases := map[string]struct {
		remove         func(http.ResponseWriter)
		changed, fails bool
	}{
		"as it was found":             {gives(box("g", "uid-1")), false, false},
		"gone":                        {fails(404, metav1.StatusReasonNotFound), false, false},
		"written to, or another":      {fails(409, metav1.StatusReasonConflict), true, true},
		"the API server is not well":  {fails(500, metav1.StatusReasonInternalError), false, true},
		"the right to it was revoked": {fails(403, metav1.StatusReasonForbidden), false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var sent metav1.DeleteOptions
			asked := 0
			api := raiseRaw(t, func(w http.ResponseWriter, r *http.Request) {
				if asked++; r.Method != http.MethodDelete || json.NewDecoder(r.Body).Decode(&sent) != nil {
					t.Errorf("asked to %s", r.Method)
				}
				c.remove(w)
			})
			err := api.Reap(t.Context(), found)
			if (err != nil) != c.fails || errors.Is(err, cluster.ErrChanged) != c.changed || asked != 1 {
				t.Errorf("error %v, %d requests", err, asked)
			}
			p := sent.Preconditions
			if p == nil || p.UID == nil || *p.UID != "uid-1" || p.ResourceVersion == nil || *p.ResourceVersion != "7" {
				t.Errorf("asked to delete with %+v", p)
			}
		})
	}
	for _, spoil := range []func(*cluster.Made){func(m *cluster.Made) { m.UID = "" }, func(m *cluster.Made) { m.ResourceVersion = "" }} {
		half := found
		spoil(&half)
		if err := raise(t, nil).Reap(t.Context(), half); err == nil {
			t.Errorf("it deletes %+v", half)
		}
	}
}

// What is left over is of a Sandbox that is gone, and is named by its uid: the name may be another's by now.
func TestLeftovers(t *testing.T) {
	pod := func(name, sandbox, uid string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: sandboxapi.V1beta1.APIVersion(), Kind: sandboxapi.Kind, Name: sandbox, UID: types.UID(uid),
		}}}}
	}
	orphan := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "orphan"}}
	api := func(answer map[string]func(http.ResponseWriter)) *cluster.Cluster {
		return raiseRaw(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/pods") {
				_ = json.NewEncoder(w).Encode(metav1.PartialObjectMetadataList{
					TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
					Items:    []metav1.PartialObjectMetadata{pod("a", "box", "uid-1"), pod("b", "box", "uid-1"), pod("c", "other", "uid-3"), orphan},
				})
				return
			}
			answer[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]](w)
		})
	}
	absent := fails(404, metav1.StatusReasonNotFound)
	unserved := func(w http.ResponseWriter) { http.NotFound(w, nil) }
	first, second := cluster.Leftover{Namespace: "team", Sandbox: "box", UID: "uid-1"}, cluster.Leftover{Namespace: "team", Sandbox: "other", UID: "uid-3"}
	cases := map[string]struct {
		box, other func(http.ResponseWriter)
		want       []cluster.Leftover
		fails      bool
	}{
		"both are gone":            {absent, absent, []cluster.Leftover{first, second}, false},
		"a name was taken again":   {gives(box("g", "uid-2")), absent, []cluster.Leftover{first, second}, false},
		"one is there":             {gives(box("g", "uid-1")), absent, []cluster.Leftover{second}, false},
		"of one nobody can say":    {fails(500, metav1.StatusReasonInternalError), absent, []cluster.Leftover{second}, true},
		"the resource is unserved": {unserved, unserved, nil, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := api(map[string]func(http.ResponseWriter){"box": c.box, "other": c.other}).Leftovers(t.Context(), "gw", "a")
			if !slices.Equal(got, c.want) || (err != nil) != c.fails {
				t.Errorf("%+v, %v", got, err)
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
