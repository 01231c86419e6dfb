package conduct

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// annotationImages is of a Pod that was released: the images of its containers by their names, as a JSON object. It is written with the
// removal of the gate. Admission may write other images than are rendered, so nothing else tells what a Pod was released with; and of a
// Pod that runs, images are all that the API server lets be edited of what its containers run.
const annotationImages = "openshell.ai/sandbox-runtime-images"

// imagesOf are the images of a Pod's containers, as they are noted.
func imagesOf(pod *corev1.Pod) (string, error) {
	text, err := json.Marshal(images(pod))
	if err != nil {
		return "", fmt.Errorf("note the images of Pod %s: %w", pod.Name, err)
	}
	return string(text), nil
}

func images(pod *corev1.Pod) map[string]string {
	all := map[string]string{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		all[c.Name] = c.Image
	}
	return all
}

// altered says what somebody has made another of a Pod since it was released: its labels, an ephemeral container, which may mount what the
// others may, or an image, with which the kubelet starts a container again; empty when nothing is.
func (r *round) altered(found *corev1.Pod, role string) string {
	return cmp.Or(r.unlabelled(found, role), injected(found), exchanged(found))
}

// unlabelled says which label of a Pod is not that by which the fence, and of a workload the Service, find it; empty when both are. Labels
// of a Pod that runs can be edited, and without them no policy is about it.
func (r *round) unlabelled(found *corev1.Pod, role string) string {
	for _, l := range [...]struct{ key, want string }{
		{workspace.LabelBoundaryRole, role}, {workspace.LabelBoundaryPair, workspace.Pair(r.goal.Ref.SandboxID)},
	} {
		if got := found.Labels[l.key]; got != l.want {
			return fmt.Sprintf("its label %s is %.80q, and must be %q", l.key, got, l.want)
		}
	}
	return ""
}

// injected names an ephemeral container; empty when there is none.
func injected(found *corev1.Pod) string {
	if len(found.Spec.EphemeralContainers) == 0 {
		return ""
	}
	return fmt.Sprintf("it has the ephemeral container %.80q, and may have none", found.Spec.EphemeralContainers[0].Name)
}

// exchanged says which container has another image than it was released with; empty when none has. Where nothing is noted, as of a run that
// the in-process driver raised, nothing is compared.
func exchanged(found *corev1.Pod) string {
	text, noted := found.Annotations[annotationImages]
	if !noted {
		return ""
	}
	var released map[string]string
	if err := json.Unmarshal([]byte(text), &released); err != nil {
		return "its annotation " + annotationImages + " cannot be read, which says what it was released with"
	}
	now := images(found)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was := released[name]; was != now[name] {
			return fmt.Sprintf("the image of its container %.80s is %.160q, and it was released with %.160q", name, now[name], was)
		}
	}
	return ""
}
