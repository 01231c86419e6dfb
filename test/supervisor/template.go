package supervisor

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// User and Group are the identity of both Pods.
const (
	User  = 10001
	Group = 10002
)

// template is the workload Pod's spec (contract 7.5).
func template(b *Box) *corev1.PodSpec {
	return &corev1.PodSpec{
		SchedulingGates: []corev1.PodSchedulingGate{{Name: "openshell.ai/bootstrap"}},
		RestartPolicy:   corev1.RestartPolicyNever,
		DNSPolicy:       corev1.DNSNone,
		DNSConfig: &corev1.PodDNSConfig{
			Nameservers: []string{"127.0.0.53"},
			Options:     []corev1.PodDNSConfigOption{option("ndots", "5"), option("timeout", "2"), option("attempts", "2")},
		},
		AutomountServiceAccountToken: new(false), ServiceAccountName: runner, ImagePullSecrets: references(b.PullNames(b.Run.Generation)),
		TerminationGracePeriodSeconds: new(int64(5)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsUser: new(int64(User)), RunAsGroup: new(int64(Group)), RunAsNonRoot: new(true), FSGroup: new(int64(Group)),
			FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
			SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			Sysctls:             []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}},
		},
		Volumes: []corev1.Volume{
			memory("openshell-runtime"), memory("openshell-runtime-state"),
			{Name: "openshell-sandbox-bootstrap", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName: b.SecretName("sandbox", b.Run.Generation), DefaultMode: new(int32(0o440)),
			}}},
			{Name: "openshell-pod-identity", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
				Items: []corev1.DownwardAPIVolumeFile{{Path: "uid", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"}}},
			}}},
			memory("openshell-run"),
		},
		InitContainers: []corev1.Container{
			readOnly(container("openshell-sandbox-bootstrap", b.site.Images.Runtime, []string{"/openshell-sandbox", "bootstrap"},
				mount("openshell-runtime", "/.openshell/runtime"), mount("openshell-runtime-state", "/.openshell/state"),
				mount("openshell-sandbox-bootstrap", "/.openshell/bootstrap-input"), mount("openshell-pod-identity", "/.openshell/pod-identity"))),
			container("workspace-init", b.site.Images.Workload, []string{"/.openshell/runtime/openshell-sandbox", "seed-workspace"},
				mount("openshell-runtime", "/.openshell/runtime"), mount("workspace", "/mnt/openshell-workspace")),
		},
		Containers: []corev1.Container{agent(b.site.Images.Workload)},
	}
}

func agent(image string) corev1.Container {
	c := container("agent", image,
		[]string{"/.openshell/runtime/openshell-sandbox", "--bootstrap", "/.openshell/state/bootstrap/boundary.json"},
		mount("openshell-runtime", "/.openshell/runtime"), mount("openshell-runtime-state", "/.openshell/state"),
		mount("openshell-pod-identity", "/.openshell/pod-identity"), mount("openshell-run", "/run"), mount("workspace", "/sandbox"))
	c.Ports = []corev1.ContainerPort{{Name: "sandbox-control", ContainerPort: Port, Protocol: corev1.ProtocolTCP}}
	c.Env = []corev1.EnvVar{
		{Name: "GREETING", Value: "hello"},
		{Name: "OPENSHELL_LOG_LEVEL", Value: "info"},
		{Name: "OPENSHELL_TELEMETRY_ENABLED", Value: "false"},
		{Name: "OPENSHELL_SANDBOX_UID", Value: strconv.Itoa(User)},
		{Name: "OPENSHELL_SANDBOX_GID", Value: strconv.Itoa(Group)},
		{Name: "OPENSHELL_OCI_IMAGE_USER"},
	}
	return c
}

func container(name, image string, command []string, mounts ...corev1.VolumeMount) corev1.Container {
	return corev1.Container{
		Name: name, Image: image, Command: command, VolumeMounts: mounts,
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: new(int64(User)), RunAsGroup: new(int64(Group)), RunAsNonRoot: new(true),
			AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

func readOnly(c corev1.Container) corev1.Container {
	c.SecurityContext.ReadOnlyRootFilesystem = new(true)
	return c
}

func mount(name, path string) corev1.VolumeMount {
	return corev1.VolumeMount{Name: name, MountPath: path}
}

func memory(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}
}

func option(name, value string) corev1.PodDNSConfigOption {
	return corev1.PodDNSConfigOption{Name: name, Value: new(value)}
}
