package admitted_test

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/admitted"
)

const (
	id     = "4b67c0d0-1111-2222-3333-444444444444"
	secret = "os-sandbox-" + id + "-g00000000001"
)

func expected() admitted.Expected {
	return admitted.Expected{
		Namespace: "sandboxes", Name: "team-a--demo", SandboxName: "team-a--demo", SandboxUID: "uid-sandbox", ID: id,
		User: 10001, Group: 10002, Secret: secret, ServiceAccount: "sandbox", PullSecrets: []string{"registry"},
		Claims: map[string]string{"data": "datasets"}, HostGatewayIP: "192.0.2.1", RuntimeClass: "gvisor", UserNamespace: true,
	}
}

// valid is the workload Pod as an API server returns it: what was rendered, with defaults, the controller's additions and
// those of the built-in admission, and held back by its gate.
func valid() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "sandboxes", Name: "team-a--demo", UID: "uid-workload", ResourceVersion: "7",
			Labels: map[string]string{
				"app": "demo", "agents.x-k8s.io/sandbox-name-hash": "0a1b2c3d",
				"openshell.ai/boundary-pair": id, "openshell.ai/boundary-role": "workload",
			},
			Annotations: map[string]string{"openshell.ai/sandbox-id": id, "openshell.io/sandbox-id": id},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "agents.x-k8s.io/v1beta1", Kind: "Sandbox", Name: "team-a--demo", UID: "uid-sandbox",
				Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: corev1.PodSpec{
			SchedulingGates:    []corev1.PodSchedulingGate{{Name: "openshell.ai/bootstrap"}},
			RestartPolicy:      corev1.RestartPolicyNever,
			ServiceAccountName: "sandbox", DeprecatedServiceAccount: "sandbox", AutomountServiceAccountToken: new(false),
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
			RuntimeClassName: new("gvisor"), HostUsers: new(false),
			HostAliases: []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"host.docker.internal", "host.openshell.internal"}}},
			DNSPolicy:   corev1.DNSNone,
			DNSConfig: &corev1.PodDNSConfig{
				Nameservers: []string{"127.0.0.53"},
				Options:     []corev1.PodDNSConfigOption{{Name: "ndots", Value: new("5")}, {Name: "timeout", Value: new("2")}, {Name: "attempts", Value: new("2")}},
			},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: new(int64(10001)), RunAsGroup: new(int64(10002)), RunAsNonRoot: new(true), FSGroup: new(int64(10002)),
				FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
				SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				Sysctls:             []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}},
			},
			InitContainers: []corev1.Container{
				container("openshell-sandbox-bootstrap", []string{"/openshell-sandbox", "bootstrap"}, nil,
					mount("openshell-runtime", "/.openshell/runtime"), mount("openshell-runtime-state", "/.openshell/state"),
					mount("openshell-sandbox-bootstrap", "/.openshell/bootstrap-input"), mount("openshell-pod-identity", "/.openshell/pod-identity")),
				container("workspace-init", []string{"/.openshell/runtime/openshell-sandbox", "seed-workspace"}, nil,
					mount("openshell-runtime", "/.openshell/runtime"), mount("workspace", "/mnt/openshell-workspace")),
			},
			Containers: []corev1.Container{
				container("agent", []string{"/.openshell/runtime/openshell-sandbox"}, []string{"--bootstrap", "/.openshell/state/bootstrap/boundary.json"},
					mount("openshell-runtime", "/.openshell/runtime"), mount("openshell-runtime-state", "/.openshell/state"),
					mount("openshell-pod-identity", "/.openshell/pod-identity"), mount("openshell-run", "/run"),
					mount("workspace", "/sandbox"), mount("data", "/sandbox/data")),
			},
			Volumes: []corev1.Volume{
				memory("openshell-runtime"), memory("openshell-runtime-state"), memory("openshell-run"),
				{Name: "openshell-sandbox-bootstrap", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: new(int32(0o440))}}},
				{Name: "openshell-pod-identity", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
					DefaultMode: new(int32(0o644)),
					Items:       []corev1.DownwardAPIVolumeFile{{Path: "uid", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"}}},
				}}},
				claim("workspace", "workspace-team-a--demo"), claim("data", "datasets"),
			},
			SchedulerName: "default-scheduler", TerminationGracePeriodSeconds: new(int64(30)), EnableServiceLinks: new(true),
			Priority: new(int32(0)), PreemptionPolicy: new(corev1.PreemptLowerPriority),
			Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort},
	}
}

func container(name string, command, args []string, mounts ...corev1.VolumeMount) corev1.Container {
	c := corev1.Container{
		Name: name, Image: "registry.example/" + name, ImagePullPolicy: corev1.PullIfNotPresent, Command: command, Args: args,
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		Env: []corev1.EnvVar{{Name: "MODE", Value: "demo"}},
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: new(int64(10001)), RunAsGroup: new(int64(10002)), RunAsNonRoot: new(true),
			AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: mounts,
	}
	if name == "agent" {
		c.Ports = []corev1.ContainerPort{{Name: "sandbox-control", ContainerPort: 5500, Protocol: corev1.ProtocolTCP}}
		c.Env = append(c.Env,
			corev1.EnvVar{Name: "OPENSHELL_LOG_LEVEL", Value: "info"}, corev1.EnvVar{Name: "OPENSHELL_TELEMETRY_ENABLED", Value: "false"},
			corev1.EnvVar{Name: "OPENSHELL_SANDBOX_UID", Value: "10001"}, corev1.EnvVar{Name: "OPENSHELL_SANDBOX_GID", Value: "10002"},
			corev1.EnvVar{Name: "OPENSHELL_OCI_IMAGE_USER"})
	}
	return c
}

func mount(name, path string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: name, MountPath: path}
}

func memory(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}
}

func claim(name, of string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: of}}}
}

func volumeOf(p *corev1.Pod, name string) *corev1.Volume {
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].Name == name {
			return &p.Spec.Volumes[i]
		}
	}
	return &corev1.Volume{}
}

// Our containers, where they stand in the valid Pod.
func boot(p *corev1.Pod) *corev1.Container  { return &p.Spec.InitContainers[0] }
func seed(p *corev1.Pod) *corev1.Container  { return &p.Spec.InitContainers[1] }
func agent(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }
