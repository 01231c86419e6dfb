package companion

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// WorkloadVolume is the volume of the workload Pod that holds its bootstrap Secret (contract 7.5).
const WorkloadVolume = "openshell-sandbox-bootstrap"

// Template is what changes in a Sandbox's podTemplate from one run to the next (contract 7.11 step 14).
type Template struct {
	// Volumes are all volumes of the template, in their order, the bootstrap Secret's with the name of the new run.
	Volumes []corev1.Volume
	// ImagePullSecrets replace those of the template.
	ImagePullSecrets []corev1.LocalObjectReference
}

// RestartTemplate makes the volumes of the template that stands into those of the run of s. It changes nothing but the name
// of one Secret; a template without exactly one volume for it was not rendered by this driver, or was changed since, and is
// an error.
func (r *Renderer) RestartTemplate(s Sandbox, standing []corev1.Volume) (Template, error) {
	if err := s.check(r.scheme); err != nil {
		return Template{}, fmt.Errorf("rendering the pod template of a restart: %w", err)
	}
	found := 0
	volumes := make([]corev1.Volume, 0, len(standing))
	for i := range standing {
		volume := standing[i].DeepCopy()
		if volume.Name == WorkloadVolume {
			if volume.Secret == nil {
				return Template{}, fmt.Errorf("rendering the pod template of a restart: its volume %s is no Secret", WorkloadVolume)
			}
			found++
			volume.Secret.SecretName = workspace.SandboxSecret(s.ID, s.Generation)
		}
		volumes = append(volumes, *volume)
	}
	if found != 1 {
		return Template{}, fmt.Errorf("rendering the pod template of a restart: it has %d volumes %s, and must have one", found, WorkloadVolume)
	}
	return Template{Volumes: volumes, ImagePullSecrets: r.pullReferences(&s)}, nil
}
