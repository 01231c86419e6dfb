package sandboxapi

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestVersions(t *testing.T) {
	for _, v := range Versions() {
		if got, ok := VersionOf("agents.x-k8s.io/" + string(v)); !ok || got != v || v.APIVersion() != "agents.x-k8s.io/"+string(v) {
			t.Errorf("VersionOf = %q, %v for %q", got, ok, v)
		}
		want := schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: string(v), Resource: "sandboxes"}
		if v.GroupVersionResource() != want {
			t.Errorf("resource %v, want %v", v.GroupVersionResource(), want)
		}
	}
	for _, text := range []string{
		"", "/", "v1beta1", "agents.x-k8s.io", "agents.x-k8s.io/", "agents.x-k8s.io/v1", "agents.x-k8s.io/v1beta1/",
		"Agents.x-k8s.io/v1beta1", "extensions.agents.x-k8s.io/v1beta1", " agents.x-k8s.io/v1beta1",
	} {
		if v, ok := VersionOf(text); ok || v != "" {
			t.Errorf("VersionOf(%q) = %q, %v", text, v, ok)
		}
	}
	for _, v := range []Version{"", "v1"} {
		if v.Known() || v.APIVersion() != "" || !v.GroupVersionResource().Empty() {
			t.Errorf("version %q leads somewhere", v)
		}
	}
}

func reference(edit func(*metav1.OwnerReference)) metav1.OwnerReference {
	r := metav1.OwnerReference{APIVersion: "agents.x-k8s.io/v1beta1", Kind: "Sandbox", Name: "box", UID: "uid-1"}
	edit(&r)
	return r
}

func TestOwnerOf(t *testing.T) {
	ours := reference(func(*metav1.OwnerReference) {})
	yes, no := true, false
	longest := strings.Repeat("a", 253)
	edited := func(edit func(*metav1.OwnerReference)) []metav1.OwnerReference {
		return []metav1.OwnerReference{reference(edit)}
	}
	for _, c := range []struct {
		name string
		refs []metav1.OwnerReference
		want Owner
		err  error
	}{
		{"one", []metav1.OwnerReference{ours}, Owner{Version: V1beta1, Name: "box", UID: "uid-1"}, nil},
		{"the older version", edited(func(r *metav1.OwnerReference) { r.APIVersion = "agents.x-k8s.io/v1alpha1" }), Owner{Version: V1alpha1, Name: "box", UID: "uid-1"}, nil},
		{"the controller", edited(func(r *metav1.OwnerReference) { r.Controller = &yes }), Owner{Version: V1beta1, Name: "box", UID: "uid-1", Controller: true}, nil},
		{"not the controller", edited(func(r *metav1.OwnerReference) { r.Controller = &no }), Owner{Version: V1beta1, Name: "box", UID: "uid-1"}, nil},
		{"beside others", []metav1.OwnerReference{
			reference(func(r *metav1.OwnerReference) { r.Kind = "SandboxClaim" }),
			ours,
			reference(func(r *metav1.OwnerReference) { r.APIVersion = "v1" }),
		}, Owner{Version: V1beta1, Name: "box", UID: "uid-1"}, nil},
		{"none", nil, Owner{}, ErrNoOwner},
		{"another kind", edited(func(r *metav1.OwnerReference) { r.Kind = "sandbox" }), Owner{}, ErrNoOwner},
		{"another group", edited(func(r *metav1.OwnerReference) { r.APIVersion = "x-k8s.io/v1beta1" }), Owner{}, ErrNoOwner},
		{"a version of the future", edited(func(r *metav1.OwnerReference) { r.APIVersion = "agents.x-k8s.io/v1" }), Owner{}, ErrNoOwner},
		{"two", []metav1.OwnerReference{ours, reference(func(r *metav1.OwnerReference) { r.UID = "uid-2" })}, Owner{}, ErrManyOwners},
		{"the same twice", []metav1.OwnerReference{ours, ours}, Owner{}, ErrManyOwners},
		{"through both versions", []metav1.OwnerReference{ours, reference(func(r *metav1.OwnerReference) { r.APIVersion = "agents.x-k8s.io/v1alpha1" })}, Owner{}, ErrManyOwners},
		{"two, one of them incomplete", []metav1.OwnerReference{ours, reference(func(r *metav1.OwnerReference) { r.UID = "" })}, Owner{}, ErrManyOwners},
		{"no name", edited(func(r *metav1.OwnerReference) { r.Name = "" }), Owner{}, ErrOwnerIncomplete},
		{"no uid", edited(func(r *metav1.OwnerReference) { r.UID = "" }), Owner{}, ErrOwnerIncomplete},
		{"a name with dots", edited(func(r *metav1.OwnerReference) { r.Name = "a.b" }), Owner{Version: V1beta1, Name: "a.b", UID: "uid-1"}, nil},
		{"the longest name", edited(func(r *metav1.OwnerReference) { r.Name = longest }), Owner{Version: V1beta1, Name: longest, UID: "uid-1"}, nil},
		{"a name that is too long", edited(func(r *metav1.OwnerReference) { r.Name = longest + "a" }), Owner{}, ErrOwnerName},
		{"a name that is a path", edited(func(r *metav1.OwnerReference) { r.Name = "a/b" }), Owner{}, ErrOwnerName},
		{"a name that leads upwards", edited(func(r *metav1.OwnerReference) { r.Name = ".." }), Owner{}, ErrOwnerName},
		{"a name with a capital", edited(func(r *metav1.OwnerReference) { r.Name = "Box" }), Owner{}, ErrOwnerName},
		{"a name with a line end", edited(func(r *metav1.OwnerReference) { r.Name = "box\n" }), Owner{}, ErrOwnerName},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := OwnerOf(c.refs)
			if got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("OwnerOf = %+v, %v, want %+v, %v", got, err, c.want, c.err)
			}
		})
	}
}

func want(deleting bool) Sandbox {
	return Sandbox{Namespace: "team-a", Name: "box", UID: "uid-1", Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"b": "2"}, Deleting: deleting}
}

func TestFromMetadata(t *testing.T) {
	meta := func() *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: "team-a", Name: "box", UID: types.UID("uid-1"), Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"b": "2"}}
	}
	got, err := FromMetadata(meta())
	if diff := cmp.Diff(want(false), got); err != nil || diff != "" {
		t.Errorf("error %v, difference:\n%s", err, diff)
	}
	for name, at := range map[string]metav1.Time{"a time": metav1.NewTime(time.Unix(1, 0)), "the zero time": {}} {
		m := meta()
		m.DeletionTimestamp = &at
		if got, err := FromMetadata(m); err != nil || !got.Deleting {
			t.Errorf("deletion at %s: %+v, %v", name, got, err)
		}
	}
	for name, edit := range map[string]func(*metav1.ObjectMeta){
		"no uid": func(m *metav1.ObjectMeta) { m.UID = "" }, "no name": func(m *metav1.ObjectMeta) { m.Name = "" }, "no namespace": func(m *metav1.ObjectMeta) { m.Namespace = "" },
	} {
		m := meta()
		edit(m)
		if got, err := FromMetadata(m); err == nil || !cmp.Equal(got, Sandbox{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := FromMetadata(nil); err == nil {
		t.Error("nil was read")
	}
}
