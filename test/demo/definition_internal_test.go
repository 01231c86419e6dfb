package demo

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/crd"
)

// elsewhere is somebody else's cluster with a definition of Sandboxes that a demo brought, which nobody uses. As the API server does, it gives
// what is changed another version, and deletes only what the preconditions say.
type elsewhere struct {
	t       *testing.T
	client  *fake.Clientset
	dynamic *dynamicfake.FakeDynamicClient
	version int

	listing, noted, deleting func() error // what happens meanwhile; nil is nothing
}

func newElsewhere(t *testing.T, labels map[string]string) *elsewhere {
	t.Helper()
	e := &elsewhere{t: t, client: fake.NewClientset(), version: 1}
	e.dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{definitions: "CustomResourceDefinitionList", sandboxes: "SandboxList"}, definition("a", labels))
	e.dynamic.PrependReactor("list", sandboxes.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		err := happens(e.listing)
		return err != nil, nil, err
	})
	e.dynamic.PrependReactor("update", definitions.Resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		e.version++
		object := action.(clienttesting.UpdateAction).GetObject().(*unstructured.Unstructured)
		object.SetResourceVersion(strconv.Itoa(e.version))
		e.put(object)
		return true, object, happens(e.noted)
	})
	e.dynamic.PrependReactor("delete", definitions.Resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		if err := happens(e.deleting); err != nil {
			return true, nil, err
		}
		e.deleting = nil
		is, must := e.there(), action.(clienttesting.DeleteAction).GetDeleteOptions().Preconditions
		if must == nil || must.UID == nil || must.ResourceVersion == nil {
			t.Error("it is deleted whatever it is by now")
			return false, nil, nil
		}
		if *must.UID != is.GetUID() || *must.ResourceVersion != is.GetResourceVersion() {
			return true, nil, apierrors.NewConflict(definitions.GroupResource(), crd.Name, errors.New("the preconditions"))
		}
		return false, nil, nil
	})
	return e
}

func happens(what func() error) error {
	if what == nil {
		return nil
	}
	return what()
}

func definition(uid types.UID, labels map[string]string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
	u.SetName(crd.Name)
	u.SetUID(uid)
	u.SetResourceVersion("1")
	u.SetLabels(labels)
	return u
}

func (e *elsewhere) put(u *unstructured.Unstructured) {
	if err := e.dynamic.Tracker().Update(definitions, u, ""); err != nil {
		e.t.Error(err)
	}
}

// there is the definition, nil when it is gone.
func (e *elsewhere) there() *unstructured.Unstructured {
	object, err := e.dynamic.Tracker().Get(definitions, "", crd.Name)
	if err != nil {
		return nil
	}
	return object.(*unstructured.Unstructured)
}

// touched is the definition as another demo leaves it that begins to use it.
func (e *elsewhere) touched() {
	e.version++
	u := e.there().DeepCopy()
	u.SetResourceVersion(strconv.Itoa(e.version))
	e.put(u)
}

func (e *elsewhere) demo() error {
	return e.client.Tracker().Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other-definition", Labels: map[string]string{labelDemo: "other"}}})
}

func (e *elsewhere) box() error {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": api.V1beta1.APIVersion(), "kind": api.Kind}}
	u.SetNamespace("theirs")
	u.SetName("box")
	return e.dynamic.Tracker().Create(sandboxes, u, "theirs")
}

func (e *elsewhere) world(prefix string) *World {
	return &World{site: &Site{}, options: Options{Prefix: prefix}, client: e.client, dynamic: e.dynamic}
}

// TestRemoveDefinition: the definition that a demo brought goes when nobody uses it, and never with anything of somebody else's.
func TestRemoveDefinition(t *testing.T) {
	demos := map[string]string{labelDemo: "former"}
	for name, c := range map[string]struct {
		labels map[string]string
		change func(*elsewhere) error
		stays  bool
		fails  string
	}{
		"of no use":                    {labels: demos},
		"not a demo's":                 {stays: true},
		"a demo is there":              {labels: demos, change: (*elsewhere).demo, stays: true},
		"a Sandbox is there":           {labels: demos, change: (*elsewhere).box, stays: true},
		"a Sandbox after the look":     {labels: demos, change: func(e *elsewhere) error { e.noted = e.box; return nil }, stays: true},
		"a demo after the look":        {labels: demos, change: func(e *elsewhere) error { e.noted = e.demo; return nil }, stays: true},
		"a demo after the second look": {labels: demos, change: beginsLate, stays: true},
		"changed after the second look, and of no use": {labels: demos, change: func(e *elsewhere) error {
			e.deleting = func() error { e.touched(); return nil }
			return nil
		}},
		"replaced after the second look": {labels: demos, change: func(e *elsewhere) error {
			e.deleting = func() error { e.put(definition("b", nil)); return nil }
			return nil
		}, stays: true},
		"Sandboxes cannot be seen": {labels: demos, change: func(e *elsewhere) error {
			e.listing = func() error { return errors.New("by the test") }
			return nil
		}, stays: true, fails: "look whether Sandboxes are used: by the test"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newElsewhere(t, c.labels)
			if c.change != nil {
				if err := c.change(e); err != nil {
					t.Fatal(err)
				}
			}
			err := e.world("mine").removeDefinition(t.Context())
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("the error is %v, want %q", err, c.fails)
			}
			if stays := e.there() != nil; stays != c.stays {
				t.Errorf("it stays: %t, want %t", stays, c.stays)
			}
			if u := e.there(); u != nil && c.labels == nil && len(u.GetAnnotations()) > 0 {
				t.Errorf("somebody else's was changed: %v", u.GetAnnotations())
			}
		})
	}
}

// beginsLate has a demo begin just before the definition is deleted.
func beginsLate(e *elsewhere) error {
	e.deleting = func() error {
		e.touched()
		return e.demo()
	}
	return nil
}

// TestMarkDefinition: the definition is marked for a demo's own exactly when the demo noted before that it would bring it, and what is there
// is what demos bring.
func TestMarkDefinition(t *testing.T) {
	const ours, theirs = `{"metadata":{"annotations":{"portcullis.test/crd-variant":"v1beta1"}}}`, `{"metadata":{}}`
	mine := map[string]string{labelDemo: "mine", labelBrings: "true"}
	for name, c := range map[string]struct {
		claim  map[string]string // nil is no namespace
		there  string            // what the API server answers, empty for none
		own    bool
		marked bool
	}{
		"brought":               {mine, ours, false, true},
		"of the cluster":        {map[string]string{labelDemo: "mine"}, ours, false, false},
		"no claim":              {nil, ours, false, false},
		"a namespace of theirs": {map[string]string{labelBrings: "true"}, ours, false, false},
		"somebody was quicker":  {mine, theirs, false, false},
		"not brought yet":       {mine, "", false, false},
		"a cluster of ours":     {mine, ours, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if c.there == "" {
					w.WriteHeader(http.StatusNotFound)
					_ = json.NewEncoder(w).Encode(apierrors.NewNotFound(definitions.GroupResource(), crd.Name).Status())
					return
				}
				_, _ = w.Write([]byte(c.there))
			}))
			defer server.Close()
			e := newElsewhere(t, nil)
			w := e.world("mine")
			w.site.REST, w.site.Own = &rest.Config{Host: server.URL}, c.own
			if c.claim != nil {
				claim := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.home("definition"), Labels: c.claim}}
				if err := e.client.Tracker().Add(claim); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.markDefinition(t.Context()); err != nil {
				t.Fatal(err)
			}
			if marked := e.there().GetLabels()[labelDemo] == "mine"; marked != c.marked {
				t.Errorf("marked: %t, want %t", marked, c.marked)
			}
		})
	}
}
