package companion

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/material"
	"github.com/portcullis-mesh/portcullis/shared/mainprocess"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// SupervisorContainer is the name of the supervisor Pod's container.
const SupervisorContainer = "supervisor"

// graceSeconds is how long a supervisor may take to end (contract 7.6); stopping waits for it (contract 7.10).
const graceSeconds = 30

const (
	binary       = "/openshell-supervisor"
	healthSocket = runDirectory + "/health.sock"
)

// hostNames lead to the host gateway, in the order of the stock driver.
var hostNames = [...]string{"host.docker.internal", "host.openshell.internal"}

// SupervisorPod is the supervisor of one run (contract 7.6), held back by its scheduling gate.
func (r *Renderer) SupervisorPod(s Sandbox) (*corev1.Pod, error) {
	if err := s.check(r.scheme); err != nil {
		return nil, fmt.Errorf("rendering the supervisor Pod: %w", err)
	}
	main, err := mainprocess.Decode(s.MainProcess)
	if err != nil {
		return nil, fmt.Errorf("rendering the supervisor Pod: main process: %w", err)
	}
	volumes, mounts := r.volumes(&s)
	environment, err := r.environment(&s, main)
	if err != nil {
		return nil, fmt.Errorf("rendering the supervisor Pod: main process: %w", err)
	}
	return &corev1.Pod{
		ObjectMeta: r.supervisorMetadata(&s),
		Spec: corev1.PodSpec{
			SchedulingGates:               []corev1.PodSchedulingGate{{Name: workspace.SchedulingGate}},
			RestartPolicy:                 corev1.RestartPolicyOnFailure,
			TerminationGracePeriodSeconds: new(int64(graceSeconds)),
			ServiceAccountName:            r.settings.ServiceAccountName,
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			ImagePullSecrets:              r.pullReferences(&s),
			HostAliases:                   r.hostAliases(),
			SecurityContext: &corev1.PodSecurityContext{
				FSGroup:             new(int64(s.Group)),
				FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
				SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: SupervisorContainer, Image: r.settings.SupervisorImage,
				ImagePullPolicy: corev1.PullPolicy(r.settings.SupervisorImagePullPolicy),
				Command:         r.command(), Env: environment, VolumeMounts: mounts,
				SecurityContext: restricted(&s), ReadinessProbe: readiness(),
				// The last lines of a supervisor that did not start are in its Pod's status then, where the reason is looked for.
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			}},
			Volumes: volumes,
		},
	}, nil
}

// supervisorMetadata writes both spellings of the annotation with the sandbox id: readers of either release find it
// (contract 14.4, rossoctl 1815).
func (r *Renderer) supervisorMetadata(s *Sandbox) metav1.ObjectMeta {
	labels := s.labels(workspace.ComponentSupervisor)
	labels[workspace.LabelGatewayID] = r.settings.GatewayID
	labels[workspace.LabelBoundaryPair] = workspace.Pair(s.ID)
	labels[workspace.LabelBoundaryRole] = workspace.RoleSupervisor
	return metav1.ObjectMeta{
		Namespace: s.Namespace, Name: workspace.SupervisorPod(s.ID),
		Labels: labels, OwnerReferences: s.ownedBySandbox(),
		Annotations: map[string]string{
			workspace.AnnotationSandboxID:       s.ID,
			workspace.AnnotationSandboxIDFormer: s.ID,
			workspace.AnnotationGeneration:      s.Generation,
		},
	}
}

func (r *Renderer) hostAliases() []corev1.HostAlias {
	if r.settings.HostGatewayIP == "" {
		return nil
	}
	return []corev1.HostAlias{{IP: r.settings.HostGatewayIP, Hostnames: hostNames[:]}}
}

// restricted is what the "restricted" Pod security standard asks for (contract 14.5, 2812).
func restricted(s *Sandbox) *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsUser: new(int64(s.User)), RunAsGroup: new(int64(s.Group)), RunAsNonRoot: new(true),
		ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func readiness() *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{binary, "health", "--socket", healthSocket}}},
		PeriodSeconds: 1, FailureThreshold: 3,
	}
}

// command is the supervisor's command line (contract 7.6).
func (r *Renderer) command() []string {
	k := &r.settings
	command := []string{
		binary,
		"--backend-descriptor-file", bootstrapDirectory + "/" + material.FileDescriptor,
		"--auth-bundle-file", bootstrapDirectory + "/" + material.FileAuth,
		"--workdir", "/sandbox",
		"--health-socket-path", healthSocket,
	}
	if k.HTTPSProxy != "" {
		command = append(command, "--upstream-proxy", literal(k.HTTPSProxy))
	}
	if k.NoProxy != "" {
		command = append(command, "--upstream-no-proxy", literal(k.NoProxy))
	}
	if k.ProxyAuthSecretName != "" {
		command = append(command, "--upstream-proxy-auth-file", proxyAuthDirectory+"/"+proxyAuthFile)
	}
	if k.ProxyAuthAllowInsecure {
		command = append(command, "--upstream-proxy-auth-allow-insecure")
	}
	if k.ProxyConnectByHostname {
		command = append(command, "--upstream-proxy-connect-by-hostname")
	}
	if k.ProxyCABundle != "" {
		command = append(command, "--upstream-proxy-ca-bundle", bootstrapDirectory+"/"+material.FileUpstreamProxyCA)
	}
	return command
}
