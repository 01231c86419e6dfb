package sandboxapi

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := OwnerOf(c.refs)
			if got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("OwnerOf = %+v, %v, want %+v, %v", got, err, c.want, c.err)
			}
		})
	}
}

const object = `{"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {
	"namespace": "team-a", "name": "box", "uid": "uid-1",
	"labels": {"a": "1"}, "annotations": {"b": "2"}}}`

func want(deleting bool) Sandbox {
	return Sandbox{Namespace: "team-a", Name: "box", UID: "uid-1", Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"b": "2"}, Deleting: deleting}
}

func decode(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestFromUnstructured(t *testing.T) {
	edit := func(from, to string) string {
		if !strings.Contains(object, from) {
			t.Fatalf("the object has no %s", from)
		}
		return strings.Replace(object, from, to, 1)
	}
	read := []struct {
		name, text string
		want       func(*Sandbox)
	}{
		{"whole", object, func(*Sandbox) {}},
		{"the older version", edit("v1beta1", "v1alpha1"), func(*Sandbox) {}},
		{"no labels", edit(`"labels": {"a": "1"},`, ""), func(s *Sandbox) { s.Labels = nil }},
		{"labels null", edit(`{"a": "1"}`, "null"), func(s *Sandbox) { s.Labels = nil }},
		{"being deleted", edit(`"uid":`, `"deletionTimestamp": "2026-01-02T03:04:05Z", "uid":`), func(s *Sandbox) { s.Deleting = true }},
		{"being deleted, at a time that does not parse", edit(`"uid":`, `"deletionTimestamp": "soon", "uid":`), func(s *Sandbox) { s.Deleting = true }},
		{"being deleted, at no text", edit(`"uid":`, `"deletionTimestamp": 7, "uid":`), func(s *Sandbox) { s.Deleting = true }},
		{"deletion null", edit(`"uid":`, `"deletionTimestamp": null, "uid":`), func(*Sandbox) {}},
	}
	for _, c := range read {
		t.Run(c.name, func(t *testing.T) {
			expected := want(false)
			c.want(&expected)
			got, err := FromUnstructured(decode(t, c.text))
			if diff := cmp.Diff(expected, got); err != nil || diff != "" {
				t.Errorf("error %v, difference:\n%s", err, diff)
			}
		})
	}
	for name, text := range map[string]string{
		"another kind": edit(`"Sandbox"`, `"Pod"`), "another group": edit("agents.x-k8s.io/v1beta1", "v1"), "an unknown version": edit("v1beta1", "v2"),
		"no uid": edit("uid-1", ""), "no name": edit("box", ""), "no namespace": edit("team-a", ""), "uid is a number": edit(`"uid-1"`, "7"),
		"labels are a list": edit(`{"a": "1"}`, "[]"), "a label is a number": edit(`"1"`, "1"), "an annotation is null": edit(`"2"`, "null"),
		"metadata is a text": `{"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": "x"}`,
		"no metadata":        `{"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox"}`, "null": "null",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := FromUnstructured(decode(t, text)); err == nil || !cmp.Equal(got, Sandbox{}) {
				t.Errorf("FromUnstructured = %+v, %v", got, err)
			}
		})
	}
	if _, err := FromUnstructured(nil); err == nil {
		t.Error("nil was read")
	}
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
