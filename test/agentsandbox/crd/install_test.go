package crd

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	typed "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// life is the test of one stage; each finds what the one before left.
type life struct {
	*testing.T
	config *rest.Config
}

// TestCluster takes one API server through the life of the definition. The order matters, and the server is not shared:
// this is the only test that removes the definition.
func TestCluster(t *testing.T) {
	config := cluster.StartPrivate(t).RESTConfig()
	for _, stage := range []struct {
		name string
		run  func(life)
	}{
		{"nothing installed", life.nothingInstalled},
		{"v1alpha1 only", life.oldOnly},
		{"upgrade", life.upgrade},
		{"converters take over", life.takeOver},
		{"schema", life.schema},
		{"v1beta1 widens to both", life.widen},
		{"someone else's definition", life.foreignDefinition},
	} {
		if !t.Run(stage.name, func(t *testing.T) { stage.run(life{t, config}) }) {
			t.FailNow() // later stages start from this one's end
		}
	}
}

func (t life) nothingInstalled() {
	config := t.config
	must(t, Uninstall(deadline(t), config))
	if v, err := Installed(deadline(t), config); v != "" || err != nil {
		t.Fatalf("Installed = %q, %v; want none", v, err)
	}
	if err := Install(deadline(t), config, ""); err == nil {
		t.Error("Install took the zero variant")
	}
	if err := Upgrade(deadline(t), config); err == nil || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("Upgrade of nothing = %v, want a refusal", err)
	}
}

func (t life) oldOnly() {
	config := t.config
	var installs sync.WaitGroup
	for range 8 { // as many test packages would
		installs.Go(func() {
			if err := Install(deadline(t), config, V1alpha1); err != nil {
				t.Error(err)
			}
		})
	}
	installs.Wait()
	if _, err := sandboxes(t, config, api.V1beta1).List(deadline(t), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("LIST v1beta1 = %v, want not found", err)
	}
	create(t, config, api.V1alpha1, "old", map[string]any{"replicas": int64(0)})
	for _, v := range []Variant{V1beta1, Both} {
		if err := Install(deadline(t), config, v); err == nil || !strings.Contains(err.Error(), "own") {
			t.Errorf("Install(%q) over v1alpha1 = %v, want a refusal", v, err)
		}
	}
	c, err := NewConverter(config, zerolog.Nop())
	must(t, err)
	if err := c.Run(deadline(t)); err == nil || !strings.Contains(err.Error(), "install") {
		t.Errorf("a converter without conversion ran and returned %v", err)
	}
}

func (t life) upgrade() {
	config := t.config
	must(t, Upgrade(deadline(t), config))
	startConverter(t, config)

	// What was stored before the upgrade reads as v1beta1.
	u, err := sandboxes(t, config, api.V1beta1).Get(deadline(t), "old", metav1.GetOptions{})
	must(t, err)
	if mode, _, _ := unstructured.NestedString(u.Object, "spec", "operatingMode"); mode != api.ModeSuspended {
		t.Errorf("operatingMode of the old sandbox = %q, want Suspended", mode)
	}
	// It resumes in v1beta1, and v1alpha1 sees that.
	must(t, unstructured.SetNestedField(u.Object, api.ModeRunning, "spec", "operatingMode"))
	_, err = sandboxes(t, config, api.V1beta1).Update(deadline(t), u, metav1.UpdateOptions{})
	must(t, err)
	old, err := sandboxes(t, config, api.V1alpha1).Get(deadline(t), "old", metav1.GetOptions{})
	must(t, err)
	if replicas, _, _ := unstructured.NestedInt64(old.Object, "spec", "replicas"); replicas != 1 {
		t.Errorf("replicas of the resumed sandbox = %d, want 1", replicas)
	}
	if _, leaked := old.GetAnnotations()[api.AnnotationV1alpha1State]; leaked {
		t.Error("v1alpha1 clients see the kept state annotation")
	}

	if err := Upgrade(deadline(t), config); err == nil {
		t.Error("a second Upgrade was accepted")
	}
	if err := Install(deadline(t), config, V1alpha1); err == nil {
		t.Error("Install(V1alpha1) over both was accepted")
	}
	for _, v := range []Variant{V1beta1, Both} {
		must(t, Install(deadline(t), config, v))
		if have, err := Installed(deadline(t), config); have != Both || err != nil {
			t.Errorf("after Install(%q): Installed = %q, %v; want both", v, have, err)
		}
	}
}

// takeOver stops the registered converter and waits for the other to serve.
func (t life) takeOver() {
	config := t.config
	stopFirst := startConverter(t, config)
	startConverter(t, config)
	registered := func() string {
		d, err := definitions(t, config).Get(deadline(t), Name, metav1.GetOptions{})
		must(t, err)
		return *d.Spec.Conversion.Webhook.ClientConfig.URL
	}
	first := registered()
	stopFirst()
	await(t, "another converter is registered and converts", func() bool {
		_, err := sandboxes(t, config, api.V1alpha1).List(deadline(t), metav1.ListOptions{})
		return registered() != first && err == nil
	})
}

// schema breaks one valid Sandbox in one way per case.
func (t life) schema() {
	config := t.config
	startConverter(t, config)
	tests := map[string]struct {
		version api.Version
		change  func(spec map[string]any)
		want    string // part of the refusal, "" for acceptance
	}{
		"v1beta1":                 {api.V1beta1, func(map[string]any) {}, ""},
		"v1alpha1":                {api.V1alpha1, func(map[string]any) {}, ""},
		"two replicas":            {api.V1alpha1, func(s map[string]any) { s["replicas"] = int64(2) }, "spec.replicas"},
		"unknown mode":            {api.V1beta1, func(s map[string]any) { s["operatingMode"] = "Paused" }, "spec.operatingMode"},
		"unknown policy":          {api.V1beta1, func(s map[string]any) { s["shutdownPolicy"] = "Keep" }, "spec.shutdownPolicy"},
		"no pod template":         {api.V1beta1, func(s map[string]any) { delete(s, "podTemplate") }, "spec.podTemplate"},
		"no containers":           {api.V1beta1, func(s map[string]any) { s["podTemplate"] = map[string]any{"spec": map[string]any{}} }, "containers"},
		"shutdownTime is no time": {api.V1beta1, func(s map[string]any) { s["shutdownTime"] = "soon" }, "spec.shutdownTime"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			u := object(tc.version, "", nil)
			tc.change(u.Object["spec"].(map[string]any))
			u.SetGenerateName("case-")
			_, err := sandboxes(t, config, tc.version).Create(deadline(t), u, metav1.CreateOptions{DryRun: []string{"All"}})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("create = %v, want an error with %q", err, tc.want)
			}
		})
	}
	t.Run("pruning and defaults", func(t *testing.T) {
		created := create(t, config, api.V1beta1, "pruned", map[string]any{
			"agentSocket": "/run/agent.sock", // contract 8.2
			"replicas":    int64(0),          // the other version's field
			"podTemplate": map[string]any{
				"metadata": map[string]any{"name": "x", "labels": map[string]any{"a": "b"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c"}}, "hostUsers": false},
			},
		})
		spec := created.Object["spec"].(map[string]any)
		if spec["agentSocket"] != nil || spec["replicas"] != nil {
			t.Errorf("unknown fields were kept: %v", spec)
		}
		if spec["operatingMode"] != api.ModeRunning || spec["shutdownPolicy"] != api.ShutdownRetain {
			t.Errorf("defaults are missing: %v", spec)
		}
		template := spec["podTemplate"].(map[string]any)
		if template["metadata"].(map[string]any)["name"] != nil {
			t.Error("template metadata kept more than labels and annotations")
		}
		if template["spec"].(map[string]any)["hostUsers"] != false {
			t.Error("the pod spec lost a field")
		}
	})
	t.Run("volumeClaimTemplates are immutable", func(t *testing.T) { life{t, config}.claimsImmutable() })
	t.Run("status is a subresource", func(t *testing.T) {
		u := create(t, config, api.V1beta1, "status", nil)
		must(t, unstructured.SetNestedField(u.Object, "n1", "status", "nodeName"))
		u, err := sandboxes(t, config, api.V1beta1).Update(deadline(t), u, metav1.UpdateOptions{})
		must(t, err)
		if u.Object["status"] != nil {
			t.Error("a write of the main resource changed the status")
		}
		generation := u.GetGeneration()
		must(t, unstructured.SetNestedField(u.Object, "n1", "status", "nodeName"))
		must(t, unstructured.SetNestedField(u.Object, api.ModeSuspended, "spec", "operatingMode"))
		u, err = sandboxes(t, config, api.V1beta1).UpdateStatus(deadline(t), u, metav1.UpdateOptions{})
		must(t, err)
		mode, _, _ := unstructured.NestedString(u.Object, "spec", "operatingMode")
		if node, _, _ := unstructured.NestedString(u.Object, "status", "nodeName"); node != "n1" || mode != api.ModeRunning || u.GetGeneration() != generation {
			t.Errorf("after a status write: nodeName %q, mode %q, generation %d; want n1, Running, %d", node, mode, u.GetGeneration(), generation)
		}
	})
}

func (t life) claimsImmutable() {
	config := t.config
	claim := func(name string) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"name": name},
			"spec": map[string]any{
				"accessModes": []any{"ReadWriteOnce"},
				"resources":   map[string]any{"requests": map[string]any{"storage": "1Gi"}},
			},
		}
	}
	with := create(t, config, api.V1beta1, "with", map[string]any{"volumeClaimTemplates": []any{claim("workspace")}})
	without := create(t, config, api.V1beta1, "without", nil)
	tests := map[string]struct {
		base   *unstructured.Unstructured
		change func(spec map[string]any)
		ok     bool
	}{
		"change":                    {with, func(s map[string]any) { s["volumeClaimTemplates"] = []any{claim("other")} }, false},
		"more":                      {with, func(s map[string]any) { s["volumeClaimTemplates"] = []any{claim("workspace"), claim("other")} }, false},
		"remove":                    {with, func(s map[string]any) { delete(s, "volumeClaimTemplates") }, false},
		"add":                       {without, func(s map[string]any) { s["volumeClaimTemplates"] = []any{claim("workspace")} }, false},
		"another field beside them": {with, func(s map[string]any) { s["operatingMode"] = api.ModeSuspended }, true},
	}
	for name, tc := range tests {
		u := tc.base.DeepCopy()
		tc.change(u.Object["spec"].(map[string]any))
		_, err := sandboxes(t, config, api.V1beta1).Update(deadline(t), u, metav1.UpdateOptions{DryRun: []string{"All"}})
		if (err == nil) != tc.ok || err != nil && !apierrors.IsInvalid(err) {
			t.Errorf("%s: update = %v, want accepted: %v", name, err, tc.ok)
		}
	}
}

func (t life) widen() {
	config := t.config
	must(t, Uninstall(deadline(t), config))
	must(t, Install(deadline(t), config, V1beta1))
	create(t, config, api.V1beta1, "new", map[string]any{"operatingMode": api.ModeSuspended})
	must(t, Install(deadline(t), config, Both))
	startConverter(t, config)
	u, err := sandboxes(t, config, api.V1alpha1).Get(deadline(t), "new", metav1.GetOptions{})
	must(t, err)
	if replicas, found, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); !found || replicas != 0 {
		t.Errorf("replicas of a suspended v1beta1 sandbox = %d (found %v), want 0", replicas, found)
	}
}

func (t life) foreignDefinition() {
	config := t.config
	must(t, Uninstall(deadline(t), config))
	d, err := definition(V1beta1)
	must(t, err)
	d.Annotations = nil
	_, err = definitions(t, config).Create(deadline(t), d, metav1.CreateOptions{})
	must(t, err)
	for _, v := range []Variant{V1alpha1, V1beta1, Both} {
		if err := Install(deadline(t), config, v); err == nil {
			t.Errorf("Install(%q) changed a definition that is not ours", v)
		}
	}
	if v, err := Installed(deadline(t), config); err != nil || v == "" || v.Versions() != nil {
		t.Errorf("Installed = %q, %v; want a value without versions", v, err)
	}
	must(t, Uninstall(deadline(t), config))
}

// startConverter runs a converter until the test ends or the returned function is called, and waits until it is ready.
func startConverter(t testing.TB, config *rest.Config) (stop func()) {
	t.Helper()
	c, err := NewConverter(config, zerolog.New(zerolog.NewTestWriter(t)))
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("converter: %v", err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-c.Ready():
	case err := <-done:
		done <- nil
		t.Fatalf("the converter ended before it was ready: %v", err)
	case <-deadline(t).Done():
		t.Fatal("the converter was not ready in time")
	}
	return stop
}

func object(version api.Version, name string, spec map[string]any) *unstructured.Unstructured {
	full := map[string]any{
		"podTemplate": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "agent"}}}},
	}
	for k, v := range spec {
		full[k] = v
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": version.APIVersion(), "kind": api.Kind, "spec": full,
	}}
	u.SetName(name)
	return u
}

func create(t testing.TB, config *rest.Config, version api.Version, name string, spec map[string]any) *unstructured.Unstructured {
	t.Helper()
	u, err := sandboxes(t, config, version).Create(deadline(t), object(version, name, spec), metav1.CreateOptions{})
	must(t, err)
	return u
}

func sandboxes(t testing.TB, config *rest.Config, version api.Version) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	must(t, err)
	return client.Resource(version.Resource()).Namespace(metav1.NamespaceDefault)
}

func definitions(t testing.TB, config *rest.Config) typed.CustomResourceDefinitionInterface {
	t.Helper()
	d, err := client(config)
	must(t, err)
	return d
}

// deadline returns a context that ends long after anything here should have.
func deadline(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for ctx := deadline(t); !condition(); {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		case <-time.After(poll):
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
