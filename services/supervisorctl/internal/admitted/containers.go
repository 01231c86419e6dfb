package admitted

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Names of our containers (contract 7.5).
const (
	BootstrapContainer = "openshell-sandbox-bootstrap"
	WorkspaceContainer = "workspace-init"
	AgentContainer     = "agent"
)

// Reasons about containers.
const (
	ContainerUnknown     Reason = "workload_container_unknown"
	ContainerEphemeral   Reason = "workload_container_ephemeral"
	ContainerMissing     Reason = "workload_container_missing"
	ContainerUser        Reason = "workload_container_user"
	ContainerGroup       Reason = "workload_container_group"
	ContainerNonRoot     Reason = "workload_container_non_root"
	ContainerEscalation  Reason = "workload_container_escalation"
	ContainerPrivileged  Reason = "workload_container_privileged"
	ContainerDrop        Reason = "workload_container_capabilities_kept"
	ContainerAdd         Reason = "workload_container_capabilities_added"
	ContainerSeccomp     Reason = "workload_container_seccomp"
	ContainerProcMount   Reason = "workload_container_proc_mount"
	ContainerSELinux     Reason = "workload_container_selinux"
	ContainerAppArmor    Reason = "workload_container_apparmor"
	ContainerWindows     Reason = "workload_container_windows"
	ContainerCommand     Reason = "workload_container_command"
	ContainerHook        Reason = "workload_container_hook"
	ContainerRestart     Reason = "workload_container_restart"
	ContainerEnvSource   Reason = "workload_container_env_source"
	ContainerEnvReserved Reason = "workload_container_env_reserved"
	ContainerHostPort    Reason = "workload_container_host_port"
	ContainerDevice      Reason = "workload_container_device"
)

// commands are what our containers run, command and arguments together (contract 7.5).
var commands = map[string][]string{
	BootstrapContainer: {"/openshell-sandbox", "bootstrap"},
	WorkspaceContainer: {"/.openshell/runtime/openshell-sandbox", "seed-workspace"},
	AgentContainer:     {"/.openshell/runtime/openshell-sandbox", "--bootstrap", "/.openshell/state/bootstrap/boundary.json"},
}

func containers() []check {
	return []check{
		{ContainerUnknown, unknown},
		{ContainerEphemeral, func(p *corev1.Pod, _ *Expected) string {
			return unless(len(p.Spec.EphemeralContainers) == 0,
				"the Pod has %d ephemeral containers, and must have none", len(p.Spec.EphemeralContainers))
		}},
		{ContainerMissing, missing},
	}
}

// privileges are what our containers may do.
func privileges() []check {
	return []check{
		{ContainerUser, each(func(c *corev1.Container, e *Expected) string {
			return unless(is(rights(c).RunAsUser, int64(e.User)), "runAsUser is %s, and must be %d", value(rights(c).RunAsUser), e.User)
		})},
		{ContainerGroup, each(func(c *corev1.Container, e *Expected) string {
			return unless(is(rights(c).RunAsGroup, int64(e.Group)), "runAsGroup is %s, and must be %d", value(rights(c).RunAsGroup), e.Group)
		})},
		{ContainerNonRoot, each(func(c *corev1.Container, _ *Expected) string {
			return unless(is(rights(c).RunAsNonRoot, true), "runAsNonRoot is %s, and must be true", value(rights(c).RunAsNonRoot))
		})},
		{ContainerEscalation, each(func(c *corev1.Container, _ *Expected) string {
			return unless(is(rights(c).AllowPrivilegeEscalation, false),
				"allowPrivilegeEscalation is %s, and must be false", value(rights(c).AllowPrivilegeEscalation))
		})},
		{ContainerPrivileged, each(func(c *corev1.Container, _ *Expected) string {
			return unless(!is(rights(c).Privileged, true), "privileged is true")
		})},
		{ContainerDrop, each(func(c *corev1.Container, _ *Expected) string {
			return unless(slices.Contains(capabilities(c).Drop, "ALL"), "capabilities.drop is %.120v, and must have ALL", capabilities(c).Drop)
		})},
		{ContainerAdd, each(func(c *corev1.Container, _ *Expected) string {
			return unless(len(capabilities(c).Add) == 0, "capabilities.add is %.120v, and must be empty", capabilities(c).Add)
		})},
		{ContainerSeccomp, each(func(c *corev1.Container, _ *Expected) string {
			profile := rights(c).SeccompProfile
			return unless(profile == nil || profile.Type == corev1.SeccompProfileTypeRuntimeDefault,
				"seccompProfile is %.40s, and may only be RuntimeDefault", seccomp(profile))
		})},
		{ContainerProcMount, each(func(c *corev1.Container, _ *Expected) string {
			mount := rights(c).ProcMount
			return unless(mount == nil || *mount == corev1.DefaultProcMount, "procMount is %s, and may only be Default", value(mount))
		})},
		{ContainerSELinux, each(func(c *corev1.Container, _ *Expected) string {
			return selinux("securityContext", rights(c).SELinuxOptions)
		})},
		{ContainerAppArmor, each(func(c *corev1.Container, _ *Expected) string {
			return appArmor("securityContext", rights(c).AppArmorProfile)
		})},
		{ContainerWindows, each(func(c *corev1.Container, _ *Expected) string {
			return unless(rights(c).WindowsOptions == nil, "windowsOptions is set")
		})},
	}
}

// conduct is what our containers run, and with what.
func conduct() []check {
	return []check{
		{ContainerCommand, each(func(c *corev1.Container, _ *Expected) string {
			got := slices.Concat(c.Command, c.Args)
			return unless(slices.Equal(got, commands[c.Name]), "it runs %.160q, and must run %q", got, commands[c.Name])
		})},
		{ContainerHook, each(hook)},
		{ContainerRestart, each(func(c *corev1.Container, _ *Expected) string {
			return unless(c.RestartPolicy == nil && len(c.RestartPolicyRules) == 0,
				"it has a restart policy of its own: %s, and %d rules", value(c.RestartPolicy), len(c.RestartPolicyRules))
		})},
		{ContainerEnvSource, each(envSource)},
		{ContainerEnvReserved, each(envReserved)},
		{ContainerHostPort, each(func(c *corev1.Container, _ *Expected) string {
			i := slices.IndexFunc(c.Ports, func(port corev1.ContainerPort) bool { return port.HostPort != 0 || port.HostIP != "" })
			return unless(i < 0, "a port of it is open on the node")
		})},
		{ContainerDevice, each(func(c *corev1.Container, _ *Expected) string {
			return unless(len(c.VolumeDevices) == 0 && len(c.Resources.Claims) == 0,
				"it has %d devices and %d resource claims, and must have none", len(c.VolumeDevices), len(c.Resources.Claims))
		})},
	}
}

// each makes a check for every container that is one of ours; the others are refused as such.
func each(fails func(*corev1.Container, *Expected) string) func(*corev1.Pod, *Expected) string {
	return func(p *corev1.Pod, e *Expected) string {
		for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				if found := fails(&list[i], e); found != "" && commands[list[i].Name] != nil {
					return "container " + list[i].Name + ": " + found
				}
			}
		}
		return ""
	}
}

func unknown(p *corev1.Pod, _ *Expected) string {
	for _, c := range p.Spec.InitContainers {
		if c.Name != BootstrapContainer && c.Name != WorkspaceContainer {
			return unless(false, "init container %.80q is not one of ours", c.Name)
		}
	}
	for _, c := range p.Spec.Containers {
		if c.Name != AgentContainer {
			return unless(false, "container %.80q is not one of ours", c.Name)
		}
	}
	return ""
}

// missing wants the bootstrap for the first init container: another one before it would find nothing to run.
func missing(p *corev1.Pod, _ *Expected) string {
	if len(p.Spec.InitContainers) == 0 || p.Spec.InitContainers[0].Name != BootstrapContainer {
		return "the first init container is not " + BootstrapContainer
	}
	return unless(len(p.Spec.Containers) > 0 && p.Spec.Containers[0].Name == AgentContainer, "there is no container %s", AgentContainer)
}

func rights(c *corev1.Container) corev1.SecurityContext {
	if c.SecurityContext == nil {
		return corev1.SecurityContext{}
	}
	return *c.SecurityContext
}

func capabilities(c *corev1.Container) corev1.Capabilities {
	if list := rights(c).Capabilities; list != nil {
		return *list
	}
	return corev1.Capabilities{}
}

// hook finds what the kubelet would run in a container beside its command.
func hook(c *corev1.Container, _ *Expected) string {
	if c.Lifecycle != nil {
		return "it has a lifecycle hook"
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil && probe.Exec != nil {
			return unless(false, "a probe of it runs %.120q", probe.Exec.Command)
		}
	}
	return ""
}

// envSource lets fields of the Pod itself be, which hold nothing that the container may not know.
func envSource(c *corev1.Container, _ *Expected) string {
	if len(c.EnvFrom) > 0 {
		return "its environment is taken from a Secret or ConfigMap (envFrom)"
	}
	for _, v := range c.Env {
		if v.ValueFrom != nil && (v.ValueFrom.FieldRef == nil && v.ValueFrom.ResourceFieldRef == nil || v.ValueFrom.SecretKeyRef != nil ||
			v.ValueFrom.ConfigMapKeyRef != nil || v.ValueFrom.FileKeyRef != nil) {
			return unless(false, "variable %.80q is taken from a Secret, a ConfigMap or a file", v.Name)
		}
	}
	return ""
}

// envReserved knows every variable of the runtime's that is rendered (contract 7.5).
func envReserved(c *corev1.Container, e *Expected) string {
	for _, v := range c.Env {
		if !strings.HasPrefix(strings.ToUpper(v.Name), "OPENSHELL_") {
			continue
		}
		ok := false
		switch v.Name {
		case "OPENSHELL_LOG_LEVEL", "OPENSHELL_TELEMETRY_ENABLED":
			ok = true
		case "OPENSHELL_SANDBOX_UID":
			ok = v.Value == strconv.FormatUint(uint64(e.User), 10)
		case "OPENSHELL_SANDBOX_GID":
			ok = v.Value == strconv.FormatUint(uint64(e.Group), 10)
		case "OPENSHELL_OCI_IMAGE_USER":
			ok = v.Value == ""
		}
		if !ok || v.ValueFrom != nil {
			return unless(false, "variable %.80q is not rendered, or with another value", v.Name)
		}
	}
	return ""
}
