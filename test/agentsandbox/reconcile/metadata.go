package reconcile

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
)

// templateMetadata returns the labels and annotations that a new Pod gets from its template: without reserved keys, with
// the two records of what was copied.
func templateMetadata(s *api.Sandbox) (labels, annotations map[string]string) {
	labels = allowed(s.Spec.PodTemplate.Metadata.Labels)
	annotations = allowed(s.Spec.PodTemplate.Metadata.Annotations)
	fromTemplate := keyList(annotations)
	if len(labels) > 0 {
		annotations[api.AnnotationPropagatedLabels] = keyList(labels)
	}
	if fromTemplate != "" {
		annotations[api.AnnotationPropagatedAnnotations] = fromTemplate
	}
	return labels, annotations
}

// propagate returns the metadata patch that brings a live Pod in line with its template, or nil. A key that an earlier
// pass copied and the template no longer has is removed; everything else on the Pod belongs to others.
func propagate(s *api.Sandbox, pod *corev1.Pod) map[string]any {
	labels, annotations := templateMetadata(s)
	labels[api.LabelNameHash] = api.NameHash(s.Name)
	for _, record := range []string{api.AnnotationPropagatedLabels, api.AnnotationPropagatedAnnotations} {
		if _, recorded := annotations[record]; !recorded && pod.Annotations[record] != "" {
			annotations[record] = ""
		}
	}
	changes := map[string]any{}
	if d := difference(pod.Labels, labels, pod.Annotations[api.AnnotationPropagatedLabels]); len(d) > 0 {
		changes["labels"] = d
	}
	if d := difference(pod.Annotations, annotations, pod.Annotations[api.AnnotationPropagatedAnnotations]); len(d) > 0 {
		changes["annotations"] = d
	}
	if len(changes) == 0 {
		return nil
	}
	return changes
}

// difference returns the merge patch from have to want; of the keys that want lacks, only those in the comma-separated
// record are removed.
func difference(have, want map[string]string, record string) map[string]any {
	changes := map[string]any{}
	for k, v := range want {
		if old, ok := have[k]; !ok || old != v {
			changes[k] = v
		}
	}
	for k := range strings.SplitSeq(record, ",") {
		_, present := have[k]
		_, wanted := want[k]
		if present && !wanted {
			changes[k] = nil
		}
	}
	return changes
}

// allowed copies a template's map without reserved keys.
func allowed(in map[string]string) map[string]string {
	out := make(map[string]string, len(in)+2)
	for k, v := range in {
		if !api.ReservedKey(k) {
			out[k] = v
		}
	}
	return out
}

func keyList(m map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ",")
}
