package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// Change is a write to a Sandbox. Annotations are those of a merge patch: nil takes one away.
type Change struct {
	Annotations map[string]any
	// Mode is zero when it stays.
	Mode sandboxapi.Mode
	// Volumes and PullSecrets replace those of the Pod's template when Volumes is not nil.
	Volumes     []corev1.Volume
	PullSecrets []corev1.LocalObjectReference
	// WhateverStatus says that the change rests on nothing of the Sandbox's status, which the controller writes at the same time: it is made
	// as long as all else is as it was read, the annotations, the labels, and the generation, which goes up with every change of the spec and
	// when the Sandbox is deleted. Not together with Volumes.
	WhateverStatus bool
}

// ChangeSandbox writes a Change to the Sandbox as it was read. ErrConflict when it has been written to since. As with CreateSecret the
// client sends it once: one that was carried out would be in conflict with itself when it is sent again without a word.
func (c *Cluster) ChangeSandbox(ctx context.Context, at *sandboxapi.Object, change Change) (*sandboxapi.Object, error) {
	kind, patch, err := change.patch(at)
	if err != nil {
		return nil, err
	}
	return write(ctx, c, verbChange, sandboxes, at.Namespace, at.Name, func(ctx context.Context) (*sandboxapi.Object, error) {
		// The dynamic client has no way to say how often it tries.
		request := c.client.Typed.CoreV1().RESTClient().Patch(kind).MaxRetries(0).Body(patch)
		return askForSandbox(ctx, request, at.Version, at.Namespace, at.Name)
	})
}

// patch is a merge patch of the very version that was read, or else one that tests what the change rests on.
func (c *Change) patch(at *sandboxapi.Object) (kind types.PatchType, text []byte, err error) {
	spec := map[string]any{}
	if c.Mode != 0 {
		if spec, err = c.Mode.Spec(at.Version); err != nil {
			return "", nil, fmt.Errorf("change the Sandbox %s/%s: %w", at.Namespace, at.Name, err)
		}
	}
	kind = types.MergePatchType
	var patch any
	switch {
	// Without these there is nothing to test.
	case c.WhateverStatus && c.Volumes == nil && at.UID != "" && at.Generation > 0 && len(at.Annotations) > 0 && len(at.Labels) > 0:
		kind, patch = types.JSONPatchType, c.tested(at, spec)
	default:
		patch = c.merged(at, spec)
	}
	if text, err = json.Marshal(patch); err != nil {
		return "", nil, fmt.Errorf("write the change of the Sandbox %s/%s: %w", at.Namespace, at.Name, err)
	}
	return kind, text, nil
}

func (c *Change) merged(at *sandboxapi.Object, spec map[string]any) map[string]any {
	metadata := map[string]any{"resourceVersion": at.ResourceVersion, "uid": at.UID}
	if len(c.Annotations) > 0 {
		metadata["annotations"] = c.Annotations
	}
	patch := map[string]any{"metadata": metadata}
	if c.Volumes != nil {
		spec["podTemplate"] = map[string]any{"spec": map[string]any{"volumes": c.Volumes, "imagePullSecrets": c.PullSecrets}}
	}
	if len(spec) > 0 {
		patch["spec"] = spec
	}
	return patch
}

// tested is a JSON patch. The API server makes its tests and its write one, again for each version that it finds.
func (c *Change) tested(at *sandboxapi.Object, spec map[string]any) []map[string]any {
	test := func(path string, value any) map[string]any {
		return map[string]any{"op": "test", "path": path, "value": value}
	}
	const annotations = "/metadata/annotations"
	patch := []map[string]any{
		test("/metadata/uid", at.UID), test("/metadata/generation", at.Generation), test("/metadata/labels", at.Labels), test(annotations, at.Annotations),
	}
	if len(c.Annotations) > 0 {
		all := maps.Clone(at.Annotations)
		for key, value := range c.Annotations {
			if text, ok := value.(string); ok {
				all[key] = text
			} else {
				delete(all, key)
			}
		}
		patch = append(patch, map[string]any{"op": "add", "path": annotations, "value": all}) // replaces those that were tested
	}
	for _, key := range slices.Sorted(maps.Keys(spec)) {
		patch = append(patch, map[string]any{"op": "add", "path": "/spec/" + key, "value": spec[key]})
	}
	return patch
}
