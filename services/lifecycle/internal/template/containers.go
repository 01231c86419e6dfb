package template

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/identity"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Names of the containers (contract 7.5).
const (
	BootstrapContainer = "openshell-sandbox-bootstrap"
	WorkspaceContainer = "workspace-init"
	AgentContainer     = "agent"
)

// Names of the volumes, and where they are mounted (contract 7.5).
const (
	volumeRuntime   = "openshell-runtime"
	volumeState     = "openshell-runtime-state"
	volumeBootstrap = "openshell-sandbox-bootstrap"
	volumeIdentity  = "openshell-pod-identity"
	volumeRun       = "openshell-run"

	runtimeDirectory   = "/.openshell/runtime"
	stateDirectory     = "/.openshell/state"
	bootstrapDirectory = "/.openshell/bootstrap-input"
	identityDirectory  = "/.openshell/pod-identity"
	runDirectory       = "/run"
	workspaceDirectory = "/sandbox"
	seedDirectory      = "/mnt/openshell-workspace"

	secretMode = int32(0o440)
)

const (
	imageBinary   = "/openshell-sandbox"
	runtimeBinary = runtimeDirectory + "/openshell-sandbox"
	boundaryFile  = stateDirectory + "/bootstrap/boundary.json"
	boundaryPort  = "sandbox-control"
)

func (r *Renderer) initContainers(s *request.Spec, run *Run) []corev1.Container {
	k := &r.settings
	bootstrap := container(BootstrapContainer, k.SandboxRuntimeImage, k.SandboxRuntimeImagePullPolicy, run.Identity, imageBinary, "bootstrap")
	bootstrap.SecurityContext.ReadOnlyRootFilesystem = new(true)
	bootstrap.Resources = lent(s.Resources)
	bootstrap.VolumeMounts = []corev1.VolumeMount{
		writable(volumeRuntime, runtimeDirectory), writable(volumeState, stateDirectory),
		readOnly(volumeBootstrap, bootstrapDirectory), readOnly(volumeIdentity, identityDirectory),
	}
	if !seeds(s) {
		return []corev1.Container{bootstrap}
	}
	seed := container(WorkspaceContainer, s.Image, k.ImagePullPolicy, run.Identity, runtimeBinary, "seed-workspace")
	seed.Resources = lent(s.Resources)
	seed.VolumeMounts = []corev1.VolumeMount{readOnly(volumeRuntime, runtimeDirectory), writable(workspace.ClaimTemplate, seedDirectory)}
	return []corev1.Container{bootstrap, seed}
}

func (r *Renderer) agent(s *request.Spec, run *Run) corev1.Container {
	agent := container(AgentContainer, s.Image, r.settings.ImagePullPolicy, run.Identity, runtimeBinary, "--bootstrap", boundaryFile)
	agent.Ports = []corev1.ContainerPort{{
		Name: boundaryPort, ContainerPort: int32(r.settings.SandboxRuntime.BoundaryPort), Protocol: corev1.ProtocolTCP,
	}}
	agent.Env = r.environment(s, run)
	agent.Resources = s.Resources
	agent.VolumeMounts = []corev1.VolumeMount{
		readOnly(volumeRuntime, runtimeDirectory), writable(volumeState, stateDirectory), readOnly(volumeIdentity, identityDirectory),
		writable(volumeRun, runDirectory), writable(workspace.ClaimTemplate, workspaceDirectory),
	}
	for _, m := range s.Mounts {
		agent.VolumeMounts = append(agent.VolumeMounts, corev1.VolumeMount{
			Name: m.Volume, MountPath: m.Path, SubPath: m.SubPath, ReadOnly: m.ReadOnly,
		})
	}
	return agent
}

func container(name, image string, policy driverconf.PullPolicy, who identity.Identity, command ...string) corev1.Container {
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: corev1.PullPolicy(policy), Command: command,
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: new(int64(who.User)), RunAsGroup: new(int64(who.Group)), RunAsNonRoot: new(true),
			AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// lent is what of the agent's resources an init container may have for its own time.
func lent(of corev1.ResourceRequirements) corev1.ResourceRequirements {
	pick := func(list corev1.ResourceList) corev1.ResourceList {
		var out corev1.ResourceList
		for _, kind := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			if q, ok := list[kind]; ok {
				if out == nil {
					out = corev1.ResourceList{}
				}
				out[kind] = q.DeepCopy()
			}
		}
		return out
	}
	return corev1.ResourceRequirements{Limits: pick(of.Limits), Requests: pick(of.Requests)}
}

// volumes are the driver's and then the caller's. The one of the workspace is the controller's, from the claim template.
func volumes(s *request.Spec, run *Run) []corev1.Volume {
	list := []corev1.Volume{
		memory(volumeRuntime), memory(volumeState),
		{Name: volumeBootstrap, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: workspace.SandboxSecret(s.ID, run.Generation), DefaultMode: new(secretMode),
		}}},
		{Name: volumeIdentity, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{Path: "uid", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"}}},
		}}},
		memory(volumeRun),
	}
	for _, v := range s.Volumes {
		list = append(list, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.Claim, ReadOnly: v.ReadOnly},
		}})
	}
	return list
}

func memory(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}
}

func writable(volume, path string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: volume, MountPath: path}
}

func readOnly(volume, path string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: volume, MountPath: path, ReadOnly: true}
}
