package template

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// What the runtime answers names at, and with which options (contract 7.5).
const (
	resolver = "127.0.0.53"
	// portSysctl lets a process that is not root listen on every port of its own network.
	portSysctl = "net.ipv4.ip_unprivileged_port_start"
)

// hostNames lead to the host gateway, in the order of the stock driver.
var hostNames = [...]string{"host.docker.internal", "host.openshell.internal"}

// Pod is the template of the workload Pod (contract 7.5): metadata with labels and annotations only, and the spec.
func (r *Renderer) Pod(sandbox request.Sandbox, run Run) (*corev1.PodTemplateSpec, error) {
	spec := sandbox.Spec()
	if err := r.checkPod(&spec, &run); err != nil {
		return nil, fmt.Errorf("rendering the workload Pod: %w", err)
	}
	return r.pod(&spec, &run), nil
}

func (r *Renderer) pod(s *request.Spec, run *Run) *corev1.PodTemplateSpec {
	pod := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: podLabels(s), Annotations: podAnnotations(s)}}
	group := int64(run.Identity.Group)
	pod.Spec = corev1.PodSpec{
		SchedulingGates: []corev1.PodSchedulingGate{{Name: workspace.SchedulingGate}},
		RestartPolicy:   corev1.RestartPolicyNever,
		DNSPolicy:       corev1.DNSNone,
		DNSConfig: &corev1.PodDNSConfig{
			Nameservers: []string{resolver},
			Options: []corev1.PodDNSConfigOption{
				{Name: "ndots", Value: new("5")}, {Name: "timeout", Value: new("2")}, {Name: "attempts", Value: new("2")},
			},
		},
		ServiceAccountName: r.settings.ServiceAccountName, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
		ImagePullSecrets: r.pullSecrets(s, run),
		NodeSelector:     s.NodeSelector, Tolerations: s.Tolerations, PriorityClassName: s.PriorityClass,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsUser: new(int64(run.Identity.User)), RunAsGroup: &group, RunAsNonRoot: new(true),
			FSGroup: &group, FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			Sysctls:        []corev1.Sysctl{{Name: portSysctl, Value: "0"}},
		},
		Volumes:        volumes(s, run),
		InitContainers: r.initContainers(s, run),
		Containers:     []corev1.Container{r.agent(s, run)},
	}
	if s.UserNamespace {
		pod.Spec.HostUsers = new(false)
	}
	if s.RuntimeClass != "" {
		pod.Spec.RuntimeClassName = &s.RuntimeClass
	}
	if ip := r.settings.HostGatewayIP; ip != "" {
		pod.Spec.HostAliases = []corev1.HostAlias{{IP: ip, Hostnames: hostNames[:]}}
	}
	return pod
}

func podLabels(s *request.Spec) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, s.Labels)
	labels[workspace.LabelBoundaryPair] = workspace.Pair(s.ID)
	labels[workspace.LabelBoundaryRole] = workspace.RoleWorkload
	return labels
}

// podAnnotations has both spellings of the annotation with the sandbox id: readers of either release find it (contract 14.4).
func podAnnotations(s *request.Spec) map[string]string {
	annotations := map[string]string{}
	maps.Copy(annotations, s.Annotations)
	annotations[workspace.AnnotationSandboxID] = s.ID
	annotations[workspace.AnnotationSandboxIDFormer] = s.ID
	return annotations
}

// PullSecretNames are the names under which the workload Pod refers to pull Secrets, in order: those of this generation's copies in
// managed mode, and those of the settings elsewhere (contract 9.5).
func (r *Renderer) PullSecretNames(sandboxID, generation string) []string {
	names := slices.Clone(r.settings.ImagePullSecrets)
	if r.settings.WorkspaceMode == driverconf.ModeManaged {
		for i := range names {
			names[i] = workspace.PullSecret(sandboxID, generation, i)
		}
	}
	return names
}

func (r *Renderer) pullSecrets(s *request.Spec, run *Run) []corev1.LocalObjectReference {
	var references []corev1.LocalObjectReference
	for _, name := range r.PullSecretNames(s.ID, run.Generation) {
		references = append(references, corev1.LocalObjectReference{Name: name})
	}
	return references
}

// environment is the agent's (contract 7.5). The driver's own come last, so that no variable of the caller's is expanded in them.
func (r *Renderer) environment(s *request.Spec, run *Run) []corev1.EnvVar {
	env := make([]corev1.EnvVar, 0, len(s.Environment)+5)
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		env = append(env, corev1.EnvVar{Name: name, Value: s.Environment[name]})
	}
	if s.LogLevel != "" {
		env = append(env, corev1.EnvVar{Name: "OPENSHELL_LOG_LEVEL", Value: s.LogLevel})
	}
	return append(env,
		corev1.EnvVar{Name: "OPENSHELL_TELEMETRY_ENABLED", Value: strconv.FormatBool(r.options.Telemetry)},
		corev1.EnvVar{Name: "OPENSHELL_SANDBOX_UID", Value: strconv.FormatUint(uint64(run.Identity.User), 10)},
		corev1.EnvVar{Name: "OPENSHELL_SANDBOX_GID", Value: strconv.FormatUint(uint64(run.Identity.Group), 10)},
		corev1.EnvVar{Name: "OPENSHELL_OCI_IMAGE_USER"},
	)
}

// seeds reports whether the image's workspace is copied into the volume: not when the caller mounts something below it
// (contract 11.4).
func seeds(s *request.Spec) bool {
	return !slices.ContainsFunc(s.Mounts, func(m request.Mount) bool {
		for p := m.Path; p != "/" && p != "."; p = path.Dir(p) {
			if p == workspaceDirectory {
				return true
			}
		}
		return false
	})
}
