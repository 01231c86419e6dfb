package supervisor_test

import (
	"encoding/json"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// The writes of a start test a Sandbox's uid, generation, labels and annotations. That holds them to what they rest on because of what an
// API server does, which is tried here on a real one: what a controller says in the status changes none of these, and a deletion that a
// finalizer holds up changes the generation. And a test that fails is told by a status that nothing else has.
func TestPremisesOfAWrite(t *testing.T) {
	t.Parallel()
	premises(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
}

func premises(t *testing.T, c *cluster.Cluster, dialect reconcile.Dialect) {
	t.Helper()
	s := supervisor.New(t, c, dialect)
	ctx := t.Context()
	ns, err := s.Namespace(ctx, nil)
	must(t, err)
	b, err := s.Make(ctx, ns)
	must(t, err)
	sandboxes := c.Dynamic().Resource(dialect.Version.Resource()).Namespace(ns)
	held, err := sandboxes.Patch(ctx, b.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":["portcullis.test/held"]}}`), metav1.PatchOptions{})
	must(t, err)
	t.Cleanup(func() {
		_, _ = sandboxes.Patch(t.Context(), b.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
	const annotations = "/metadata/annotations"
	body, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": held.GetUID()},
		{"op": "test", "path": "/metadata/generation", "value": held.GetGeneration()},
		{"op": "test", "path": "/metadata/labels", "value": held.GetLabels()},
		{"op": "test", "path": annotations, "value": held.GetAnnotations()},
	})
	must(t, err)
	write := func() error {
		_, err := sandboxes.Patch(ctx, b.Name, types.JSONPatchType, body, metav1.PatchOptions{})
		return err
	}
	must(t, write())
	status := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Other","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	_, err = sandboxes.Patch(ctx, b.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status")
	must(t, err)
	must(t, write())

	must(t, sandboxes.Delete(ctx, b.Name, metav1.DeleteOptions{}))
	going, err := sandboxes.Get(ctx, b.Name, metav1.GetOptions{})
	must(t, err)
	if going.GetDeletionTimestamp() == nil || going.GetGeneration() == held.GetGeneration() {
		t.Fatalf("a Sandbox that is deleted has generation %d, as before", going.GetGeneration())
	}
	failed := write()
	if !apierrors.IsInvalid(failed) {
		t.Fatalf("a write that rests on what is no more ends in %v", failed)
	}
	var told apierrors.APIStatus
	if !errors.As(failed, &told) {
		t.Fatal(failed)
	}
	if d := told.Status().Details; d != nil && (d.Name != "" || len(d.Causes) > 0) {
		t.Errorf("a test that fails names an object or a field, as other refusals do: %+v", d)
	}
}
