package cluster_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/cluster"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const alpha, beta = sandboxapi.V1alpha1, sandboxapi.V1beta1

// upgraded is an API server whose Agent Sandbox definitions change, with a Cluster that tells the time by the test.
type upgraded struct {
	*cluster.Cluster
	now    time.Time
	served []sandboxapi.Version
	asked  []sandboxapi.Version
	answer http.HandlerFunc
}

// raiseUpgraded answers what is about a version that is served as answer does, and 404 in the API server's own way to what is not.
func raiseUpgraded(t *testing.T, answer http.HandlerFunc, served ...sandboxapi.Version) *upgraded {
	t.Helper()
	u := &upgraded{now: time.Unix(1_800_000_000, 0), served: served, answer: answer}
	u.Cluster = raiseRaw(t, func(w http.ResponseWriter, r *http.Request) {
		rest, of := strings.CutPrefix(r.URL.Path, "/apis/agents.x-k8s.io/")
		if !of { // it is about Pods
			u.answer(w, r)
			return
		}
		version, _, _ := strings.Cut(rest, "/")
		u.asked = append(u.asked, sandboxapi.Version(version))
		if !slices.Contains(u.served, sandboxapi.Version(version)) {
			http.NotFound(w, r)
			return
		}
		u.answer(w, r)
	})
	u.SetNow(func() time.Time { return u.now })
	return u
}

// create makes a Sandbox and demands in which version that is tried, and that it is rendered for each.
func (u *upgraded) create(t *testing.T, what string, want ...sandboxapi.Version) (cluster.Made, error) {
	t.Helper()
	u.asked = nil
	var rendered []sandboxapi.Version
	made, err := u.Create(t.Context(), func(v sandboxapi.Version) (*unstructured.Unstructured, error) {
		rendered = append(rendered, v)
		b := box("g-ours", "")
		b.SetAPIVersion(v.APIVersion())
		return b, nil
	})
	if !slices.Equal(u.asked, want) || !slices.Equal(rendered, want) {
		t.Errorf("%s it is made in %v, rendered for %v, want %v", what, u.asked, rendered, want)
	}
	if err == nil && made.Version != want[len(want)-1] {
		t.Errorf("%s it is said to be made in %q", what, made.Version)
	}
	return made, err
}

// echo answers a create with what was sent.
func echo(w http.ResponseWriter, r *http.Request) {
	var sent unstructured.Unstructured
	if err := json.NewDecoder(r.Body).Decode(&sent.Object); err != nil {
		fails(http.StatusBadRequest, metav1.StatusReasonBadRequest)(w)
		return
	}
	sent.SetUID("uid-1")
	gives(&sent)(w)
}

// The version that is served is found by the creates themselves: the older one is tried first for a while after it has answered alone, and then
// the newer one again, so that an upgrade needs no restart (contract 8.1).
func TestVersionsOfACreate(t *testing.T) {
	u := raiseUpgraded(t, echo, alpha)
	made := func(what string, want ...sandboxapi.Version) {
		t.Helper()
		if got, err := u.create(t, what, want...); err != nil || got.UID != "uid-1" {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	made("at first", beta, alpha)
	made("then", alpha)
	u.now = u.now.Add(30*time.Second - 1)
	made("just before the newer one is due", alpha)
	u.now = u.now.Add(1)
	made("when the newer one is due", beta, alpha)
	made("after it was still not served", alpha)

	u.served = []sandboxapi.Version{alpha, beta}
	made("after an upgrade, while both are served", alpha)
	u.now = u.now.Add(30 * time.Second)
	made("when the newer one is due again", beta)
	made("from then on", beta)

	u.served = []sandboxapi.Version{alpha}
	made("after the newer one was withdrawn", beta, alpha)
	u.served = []sandboxapi.Version{beta}
	made("after the older one was withdrawn", alpha, beta)
	made("from then on", beta)

	u.served = []sandboxapi.Version{alpha}
	made("once more the older one", beta, alpha)
	u.served = nil
	for what, order := range [][]sandboxapi.Version{{alpha, beta}, {beta, alpha}} { // the second time it is forgotten which one answered
		if got, err := u.create(t, "with none", order...); !errors.Is(err, cluster.ErrNotServed) {
			t.Errorf("create %d with none: %+v, %v", what+1, got, err)
		}
	}
	u.served = []sandboxapi.Version{beta}
	made("when there is one again", beta)
}

// Whatever else a version answers is its answer: the other is not tried.
func TestVersionsAreNotTriedForOtherAnswers(t *testing.T) {
	noNamespace := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: http.StatusNotFound,
			Reason: metav1.StatusReasonNotFound, Details: &metav1.StatusDetails{Kind: "namespaces", Name: "team"},
		})
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"the namespace is not there": {noNamespace, cluster.ErrRefused},
		"refused":                    {func(w http.ResponseWriter, _ *http.Request) { fails(403, metav1.StatusReasonForbidden)(w) }, cluster.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			u := raiseUpgraded(t, c.answer, alpha, beta)
			if made, err := u.create(t, name, beta); !errors.Is(err, c.want) || errors.Is(err, cluster.ErrNotServed) {
				t.Errorf("made %+v, error %v, want %v", made, err, c.want)
			}
		})
	}
}

// What is about a Sandbox that is there is asked for in the version in which it was found, and what looks for one finds it in the older version.
func TestVersionsOfOtherCalls(t *testing.T) {
	found := cluster.Made{Namespace: "team", Name: "box", UID: "uid-1", Version: alpha, ResourceVersion: "7"}
	object := func(w http.ResponseWriter, _ *http.Request) { gives(box("g", "uid-1"))(w) }
	marked := func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
			Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{
				Namespace: "team", Name: "box", UID: "uid-1", ResourceVersion: "7",
				Labels: map[string]string{workspace.LabelCreate: workspace.CreatePending, workspace.LabelSandboxWorkspace: "team"},
			}}},
		})
	}
	podOf := func(uid types.UID) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/pods") {
				object(w, r)
				return
			}
			_ = json.NewEncoder(w).Encode(metav1.PartialObjectMetadataList{
				TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
				Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "pod", OwnerReferences: []metav1.OwnerReference{{
					APIVersion: alpha.APIVersion(), Kind: sandboxapi.Kind, Name: "box", UID: uid,
				}}}}},
			})
		}
	}
	cases := map[string]struct {
		answer http.HandlerFunc
		call   func(t *testing.T, u *upgraded) error
		asked  []sandboxapi.Version
	}{
		"delete": {object, func(t *testing.T, u *upgraded) error {
			gone, err := u.Delete(t.Context(), alpha, "team", "box", "uid-1")
			return said(gone, err)
		}, []sandboxapi.Version{alpha}},
		"reap":     {object, func(t *testing.T, u *upgraded) error { return u.Reap(t.Context(), found) }, []sandboxapi.Version{alpha}},
		"answered": {object, func(t *testing.T, u *upgraded) error { return u.Answered(t.Context(), found) }, []sandboxapi.Version{alpha}},
		"abandoned": {marked, func(t *testing.T, u *upgraded) error {
			got, err := u.Abandoned(t.Context(), time.Minute)
			return said(slices.Equal(got, []cluster.Made{found}), err)
		}, []sandboxapi.Version{beta, alpha}},
		"left over beside its Sandbox": {podOf("uid-1"), func(t *testing.T, u *upgraded) error {
			got, err := u.Leftovers(t.Context(), "gw", "a")
			return said(len(got) == 0, err)
		}, []sandboxapi.Version{beta, alpha}},
		"left over beside another": {podOf("uid-2"), func(t *testing.T, u *upgraded) error {
			got, err := u.Leftovers(t.Context(), "gw", "a")
			return said(slices.Equal(got, []cluster.Leftover{{Namespace: "team", Sandbox: "box", UID: "uid-2"}}), err)
		}, []sandboxapi.Version{beta, alpha}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			u := raiseUpgraded(t, c.answer, alpha)
			if err := c.call(t, u); err != nil || !slices.Equal(u.asked, c.asked) {
				t.Errorf("asked in %v, want %v: %v", u.asked, c.asked, err)
			}
		})
	}
	// Nothing that is not served is absent.
	u := raiseUpgraded(t, podOf("uid-1"))
	if got, err := u.Leftovers(t.Context(), "gw", "a"); err == nil {
		t.Errorf("with no version left over is %v", got)
	}
	if got, err := u.Abandoned(t.Context(), time.Minute); !errors.Is(err, cluster.ErrNotServed) {
		t.Errorf("with no version abandoned is %v, %v", got, err)
	}
}

// said is an error when what was said is not so.
func said(so bool, err error) error {
	if err == nil && !so {
		return errors.New("it says something else")
	}
	return err
}
