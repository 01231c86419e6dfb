package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// written are the kinds that the policies are about, with what the API server wants of an object of each.
var written = map[string]struct {
	resource schema.GroupVersionResource
	object   map[string]any
}{
	"Secret":         {corev1.SchemeGroupVersion.WithResource("secrets"), map[string]any{"apiVersion": "v1", "kind": "Secret"}},
	"Service":        {corev1.SchemeGroupVersion.WithResource("services"), map[string]any{"apiVersion": "v1", "kind": "Service", "spec": map[string]any{"clusterIP": "None"}}},
	"ConfigMap":      {corev1.SchemeGroupVersion.WithResource("configmaps"), map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}},
	"ServiceAccount": {corev1.SchemeGroupVersion.WithResource("serviceaccounts"), map[string]any{"apiVersion": "v1", "kind": "ServiceAccount"}},
	"Pod": {corev1.SchemeGroupVersion.WithResource("pods"), map[string]any{
		"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}},
	}},
	"NetworkPolicy": {schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}, map[string]any{
		"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": map[string]any{"podSelector": map[string]any{}},
	}},
	"Sandbox": {schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxes"}, map[string]any{
		"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox",
		"spec": map[string]any{"podTemplate": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}}},
	}},
}

// thing is an object of a kind by its labels.
type thing struct {
	kind   string
	labels map[string]string
}

func (o thing) String() string { return o.kind + " " + fmt.Sprint(o.labels) }

func (o thing) named(name string) *unstructured.Unstructured {
	object := (&unstructured.Unstructured{Object: written[o.kind].object}).DeepCopy()
	object.SetName(name)
	object.SetLabels(o.labels)
	return object
}

// made are the things that the daemons make, as the golden files of what they render have them: all kinds with all the labels.
func made(t *testing.T) map[string]thing {
	t.Helper()
	services := filepath.Join(root, "services")
	all := map[string]thing{}
	keep := func(o thing) { all[o.String()] = o }
	for directory, kind := range map[string]string{"companion": "", "fence": "NetworkPolicy", "probe": "Pod"} {
		for _, file := range filesIn(t, filepath.Join(services, "supervisorctl", "internal", directory, "testdata"), ".yaml") {
			for document := range strings.SplitSeq(file, "\n---\n") {
				if strings.TrimSpace(document) == "" {
					continue
				}
				kind := kind
				if title, _, _ := strings.Cut(document, "\n"); kind == "" && strings.HasPrefix(title, "# ") {
					kind = title[strings.LastIndex(title, " ")+1:]
				}
				if kind == "template" { // a patch of the Sandbox, which is below
					continue
				}
				var object metav1.PartialObjectMetadata
				if err := yaml.Unmarshal([]byte(document), &object); err != nil || written[kind].object == nil {
					t.Fatalf("%q is no object: %v", document, err)
				}
				keep(thing{kind, object.Labels})
			}
		}
	}
	for _, file := range filesIn(t, filepath.Join(services, "lifecycle", "internal", "template", "testdata"), ".json") {
		var sandbox struct {
			metav1.PartialObjectMetadata
			Spec struct {
				PodTemplate metav1.PartialObjectMetadata `json:"podTemplate"`
			} `json:"spec"`
		}
		if err := json.Unmarshal([]byte(file), &sandbox); err != nil {
			t.Fatal(err)
		}
		keep(thing{"Sandbox", sandbox.Labels})
		keep(thing{"Pod", sandbox.Spec.PodTemplate.Labels})
	}
	return all
}

func filesIn(t *testing.T, directory, suffix string) (texts []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(directory, "*"+suffix))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s has no files: %v", directory, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

func (g *guard) account(name string) string { return "system:serviceaccount:" + g.mesh + ":" + name }

// objects is a client of the things of a kind in a namespace, as somebody who may do everything else.
func (g *guard) objects(t *testing.T, user, kind, namespace string) dynamic.ResourceInterface {
	t.Helper()
	config := g.config(user, approvers)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(written[kind].resource).Namespace(namespace)
}

// open gives a namespace labels.
func (g *guard) open(t *testing.T, namespace string, labels map[string]string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.as(t, "approver", approvers).CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, text, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

var dry = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// ending says what daemons may do, to what is theirs, in a namespace that is not allowed.
type ending struct{ change, remove func(kind string) bool }

var (
	endsNothing = ending{func(string) bool { return false }, func(string) bool { return false }}
	// endsRuns is what it takes to stop a run.
	endsRuns = ending{func(kind string) bool { return kind == "Sandbox" }, func(string) bool { return true }}
)

// demandWrites: the daemons make things of every kind in open and nowhere else, change and delete there what is theirs, elsewhere so far as
// may says, and nothing that is not theirs, nowhere.
func (g *guard) demandWrites(t *testing.T, open, shut string, may ending, why ...string) {
	t.Helper()
	for kind := range written {
		for _, name := range daemons {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				_, err := g.objects(t, g.account(name), kind, shut).Create(t.Context(), thing{kind: kind}.named("x"), dry)
				forbidden(t, "in a namespace that is not allowed", err, append(why, shut)...)
				if _, err = g.objects(t, g.account(name), kind, open).Create(t.Context(), thing{kind: kind}.named("x"), dry); err != nil {
					t.Errorf("in an allowed namespace: %v", err)
				}
			})
		}
	}
	t.Run("others", func(t *testing.T) {
		t.Parallel()
		for _, user := range []string{g.account("certs"), "system:serviceaccount:" + shut + ":supervisorctl", "somebody"} {
			if _, err := g.objects(t, user, "Secret", shut).Create(t.Context(), thing{kind: "Secret"}.named("x"), dry); err != nil {
				t.Errorf("%s: %v", user, err)
			}
		}
	})
	// change takes an object over and deletes it, both to see only.
	change := func(t *testing.T, o thing, namespace, name string) (taken, deleted error) {
		t.Helper()
		if _, err := g.objects(t, "somebody", o.kind, namespace).Create(t.Context(), o.named(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		theirs := g.objects(t, g.account("supervisorctl"), o.kind, namespace)
		// That somebody else's becomes theirs by the request itself does not count.
		take := []byte(`{"metadata":{"labels":{"openshell.ai/managed-by":"openshell"},"annotations":{"a":"b"}}}`)
		_, taken = theirs.Patch(t.Context(), name, types.MergePatchType, take, metav1.PatchOptions{DryRun: dry.DryRun})
		return taken, theirs.Delete(t.Context(), name, metav1.DeleteOptions{DryRun: dry.DryRun})
	}
	things := made(t)
	for i, title := range slices.Sorted(maps.Keys(things)) {
		t.Run("theirs/"+title, func(t *testing.T) {
			t.Parallel()
			o := things[title]
			if taken, deleted := change(t, o, open, fmt.Sprintf("theirs-%d", i)); taken != nil || deleted != nil {
				t.Errorf("in %s: %v, %v", open, taken, deleted)
			}
			taken, deleted := change(t, o, shut, fmt.Sprintf("theirs-%d", i))
			goes(t, "changes it in "+shut, taken, may.change(o.kind), shut)
			goes(t, "deletes it in "+shut, deleted, may.remove(o.kind), shut)
		})
	}
	for kind := range written {
		t.Run("foreign/"+kind, func(t *testing.T) {
			t.Parallel()
			for i, labels := range []map[string]string{nil, {"a": "b"}, {workspace.LabelComponent: "fence-canary"}, {workspace.LabelManagedBy: "somebody"}, {workspace.LabelGatewayID: "openshell"}} {
				for _, namespace := range []string{open, shut} {
					name := fmt.Sprintf("foreign-%d", i)
					taken, deleted := change(t, thing{kind, labels}, namespace, name)
					forbidden(t, "changes what is not theirs", taken, namespace)
					forbidden(t, "deletes what is not theirs", deleted, namespace)
				}
			}
		})
	}
}

// goes demands that something goes, or the guard's refusal.
func goes(t *testing.T, what string, err error, want bool, says ...string) {
	t.Helper()
	switch {
	case !want:
		forbidden(t, what, err, says...)
	case err != nil:
		t.Errorf("%s: %v", what, err)
	}
}

// TestDaemonWritesGuard: a daemon makes nothing in a namespace that is not allowed, whatever its rights; what is its own it may end
// there; and others are not bound.
func TestDaemonWritesGuard(t *testing.T) {
	t.Parallel()
	g := newGuard(t)
	open, shut := g.Namespace(t), g.Namespace(t)
	label := map[string]string{g.label: "allowed"}
	g.open(t, open, label)
	g.awaitWrites(t, shut)
	g.demandWrites(t, open, shut, endsRuns, g.label+"=allowed")
	g.demandNoRaise(t, open, shut)
	t.Run("reserved", func(t *testing.T) {
		t.Parallel()
		kube := "kube-" + g.mesh
		g.makeNamespace(t, kube)
		for _, namespace := range []string{g.mesh, kube} {
			g.open(t, namespace, label)
			_, err := g.objects(t, g.account("supervisorctl"), "Secret", namespace).Create(t.Context(), thing{kind: "Secret"}.named("x"), dry)
			forbidden(t, "in a namespace that no label opens", err, namespace, "their own")
		}
	})
}

// demandNoRaise: in a namespace that has lost the label a Sandbox is suspended and told about, and neither resumed nor given another Pod.
func (g *guard) demandNoRaise(t *testing.T, open, shut string) {
	t.Helper()
	const theirs = `"metadata":{"labels":{"openshell.ai/managed-by":"openshell"}}`
	tests := map[string]struct {
		before, patch string
		goes          bool
	}{
		"suspends":                {`"operatingMode":"Running"`, `{"spec":{"operatingMode":"Suspended"}}`, true},
		"tells of one that runs":  {`"operatingMode":"Running"`, `{"metadata":{"annotations":{"a":"b"}}}`, true},
		"resumes":                 {`"operatingMode":"Suspended"`, `{"spec":{"operatingMode":"Running"}}`, false},
		"resumes by the default":  {`"operatingMode":"Suspended"`, `{"spec":{"operatingMode":null}}`, false},
		"gives it another volume": {`"operatingMode":"Suspended"`, `{"spec":{"podTemplate":{"spec":{"volumes":[{"name":"v","emptyDir":{}}]}}}}`, false},
	}
	for i, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run("raise/"+name, func(t *testing.T) {
			t.Parallel()
			test := tests[name]
			for _, namespace := range []string{open, shut} {
				text := fmt.Sprintf(`{"apiVersion":"agents.x-k8s.io/v1beta1","kind":"Sandbox",%s,"spec":{%s,"podTemplate":{"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, theirs, test.before)
				o := &unstructured.Unstructured{}
				if err := o.UnmarshalJSON([]byte(text)); err != nil {
					t.Fatal(err)
				}
				o.SetName(fmt.Sprintf("raise-%d", i))
				if _, err := g.objects(t, "somebody", "Sandbox", namespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				_, err := g.objects(t, g.account("supervisorctl"), "Sandbox", namespace).Patch(t.Context(), o.GetName(), types.MergePatchType, []byte(test.patch), metav1.PatchOptions{DryRun: dry.DryRun})
				goes(t, name+" in "+namespace, err, test.goes || namespace == open, "raise nothing")
			}
		})
	}
}

// makeNamespace makes one of another name than those of tests.
func (g *guard) makeNamespace(t *testing.T, name string) {
	t.Helper()
	namespaces := g.Client().CoreV1().Namespaces()
	if _, err := namespaces.Create(t.Context(), labelled(name, nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.remove(t, namespaces.Delete, name) })
}

// TestManagedWritesGuard: the same in managed mode, where the labels are those that lifecycle gives to the namespaces that it makes; it
// makes and deletes no others.
func TestManagedWritesGuard(t *testing.T) {
	t.Parallel()
	g := newGuardOf(t, "managed", 2)
	own := map[string]string{workspace.LabelManagedBy: workspace.ManagedByOpenShell, workspace.LabelGatewayID: g.mesh}
	open, shut := g.Namespace(t), g.Namespace(t)
	g.open(t, open, own)
	other := maps.Clone(own)
	other[workspace.LabelGatewayID] = "other"
	g.open(t, shut, other)
	g.awaitWrites(t, shut)
	g.demandWrites(t, open, shut, endsNothing, g.mesh)
	t.Run("namespaces", func(t *testing.T) {
		t.Parallel()
		lifecycle := g.as(t, g.account("lifecycle")).CoreV1().Namespaces()
		bare, kube := g.Namespace(t), "kube-"+g.mesh
		g.makeNamespace(t, kube)
		for _, reserved := range []string{g.mesh, kube} {
			g.open(t, reserved, own)
		}
		name := g.mesh + "-made"
		create := func(name string, labels map[string]string) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := lifecycle.Create(ctx, labelled(name, labels), dry)
				return err
			}
		}
		remove := func(name string) func(context.Context) error {
			return func(ctx context.Context) error {
				return lifecycle.Delete(ctx, name, metav1.DeleteOptions{DryRun: dry.DryRun})
			}
		}
		tests := map[string]struct {
			goes bool
			do   func(context.Context) error
		}{
			"makes its own":             {true, create(name, own)},
			"makes another gateway's":   {false, create(name, other)},
			"makes one without labels":  {false, create(name, nil)},
			"makes one of Kubernetes":   {false, create("kube-x"+g.mesh, own)},
			"deletes its own":           {true, remove(open)},
			"deletes another":           {false, remove(bare)},
			"deletes another gateway's": {false, remove(shut)},
			"deletes the mesh's":        {false, remove(g.mesh)},
			"deletes Kubernetes'":       {false, remove(kube)},
			"takes another": {false, func(ctx context.Context) error {
				text := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q,%q:%q}}}`, workspace.LabelManagedBy, workspace.ManagedByOpenShell, workspace.LabelGatewayID, g.mesh)
				_, err := lifecycle.Patch(ctx, bare, types.MergePatchType, text, metav1.PatchOptions{DryRun: dry.DryRun})
				return err
			}},
		}
		for name, test := range tests {
			err := test.do(t.Context())
			goes(t, name, err, test.goes, g.mesh)
		}
	})
	t.Run("reserved", func(t *testing.T) {
		t.Parallel()
		g.open(t, g.mesh, own)
		_, err := g.objects(t, g.account("supervisorctl"), "Secret", g.mesh).Create(t.Context(), thing{kind: "Secret"}.named("x"), dry)
		forbidden(t, "in the mesh's own namespace", err, g.mesh)
	})
}
