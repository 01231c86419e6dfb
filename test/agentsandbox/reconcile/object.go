package reconcile

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
)

func ownerReference(s *api.Sandbox, d Dialect) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{
		APIVersion: d.Version.APIVersion(), Kind: api.Kind, Name: s.Name, UID: s.UID,
		Controller: &yes, BlockOwnerDeletion: &yes,
	}
}

// metadata returns the metadata of a child in JSON types, with the name hash and the controller owner reference.
func metadata(s *api.Sandbox, d Dialect, name string, labels, annotations map[string]string) map[string]any {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[api.LabelNameHash] = api.NameHash(s.Name)
	m := map[string]any{
		"name":      name,
		"namespace": s.Namespace,
		"labels":    jsonMap(labels),
		"ownerReferences": []any{map[string]any{
			"apiVersion": d.Version.APIVersion(), "kind": api.Kind, "name": s.Name, "uid": string(s.UID),
			"controller": true, "blockOwnerDeletion": true,
		}},
	}
	if len(annotations) > 0 {
		m["annotations"] = jsonMap(annotations)
	}
	return m
}

// podObject renders the Pod: the template without reserved keys, and one volume per claim template, which replaces a
// template volume of the same name.
func podObject(s *api.Sandbox, d Dialect) map[string]any {
	labels, annotations := templateMetadata(s)
	spec := runtime.DeepCopyJSON(s.Spec.PodTemplate.Spec)
	if len(s.Spec.VolumeClaimTemplates) > 0 {
		spec["volumes"] = mergeVolumes(spec["volumes"], s)
	}
	return map[string]any{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata":   metadata(s, d, s.Name, labels, annotations),
		"spec":       spec,
	}
}

func mergeVolumes(existing any, s *api.Sandbox) []any {
	claimed := make(map[any]bool)
	var volumes []any
	for _, t := range s.Spec.VolumeClaimTemplates {
		claimed[t.Metadata.Name] = true
		volumes = append(volumes, map[string]any{
			"name":                  t.Metadata.Name,
			"persistentVolumeClaim": map[string]any{"claimName": s.ClaimName(t)},
		})
	}
	list, _ := existing.([]any)
	var merged []any
	for _, v := range list {
		if volume, ok := v.(map[string]any); ok && claimed[volume["name"]] {
			continue
		}
		merged = append(merged, v)
	}
	return append(merged, volumes...)
}

func claimObject(s *api.Sandbox, t api.ClaimTemplate, d Dialect) map[string]any {
	return map[string]any{
		"apiVersion": "v1",
		"kind":       "PersistentVolumeClaim",
		"metadata":   metadata(s, d, s.ClaimName(t), t.Metadata.Labels, t.Metadata.Annotations),
		"spec":       runtime.DeepCopyJSON(t.Spec),
	}
}

// serviceObject renders a headless Service without ports. The real one repeats the container ports; the driver does not
// use it (contract 8.2).
func serviceObject(s *api.Sandbox, d Dialect) map[string]any {
	return map[string]any{
		"apiVersion": "v1",
		"kind":       "Service",
		"metadata":   metadata(s, d, s.Name, nil, nil),
		"spec": map[string]any{
			"clusterIP": "None",
			"selector":  map[string]any{api.LabelNameHash: api.NameHash(s.Name)},
		},
	}
}

func jsonMap(in map[string]string) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = v
	}
	return out
}
