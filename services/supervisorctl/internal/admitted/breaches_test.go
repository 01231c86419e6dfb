package admitted_test

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/admitted"
)

// breach makes one thing wrong with the valid Pod. Breaches of one part may undo each other; those of different parts do not.
type breach struct {
	name   string
	part   string
	reason admitted.Reason
	breaks func(*corev1.Pod)
}

var breaches = []breach{
	{"no uid", "uid", admitted.PodMissing, func(p *corev1.Pod) { p.UID = "" }},
	{"another name", "name", admitted.WrongPod, func(p *corev1.Pod) { p.Name = "other" }},
	{"another namespace", "namespace", admitted.WrongPod, func(p *corev1.Pod) { p.Namespace = "other" }},
	{"being deleted", "deletion", admitted.Deleting, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }},
	{"no owner", "owner", admitted.OwnerMismatch, func(p *corev1.Pod) { p.OwnerReferences = nil }},
	{"another Sandbox", "owner", admitted.OwnerMismatch, func(p *corev1.Pod) { p.OwnerReferences[0].UID = "uid-before" }},
	{"a Sandbox of another name", "owner", admitted.OwnerMismatch, func(p *corev1.Pod) { p.OwnerReferences[0].Name = "other" }},
	{"owned and not controlled", "owner", admitted.OwnerMismatch, func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }},
	{"two Sandboxes", "owner", admitted.OwnerMismatch, func(p *corev1.Pod) {
		p.OwnerReferences = append(p.OwnerReferences, p.OwnerReferences...)
	}},
	{"owned by another kind", "owner", admitted.OwnerMismatch, func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" }},
	{"no pair", "pair", admitted.PairLabel, func(p *corev1.Pod) { delete(p.Labels, "openshell.ai/boundary-pair") }},
	{"another pair", "pair", admitted.PairLabel, func(p *corev1.Pod) { p.Labels["openshell.ai/boundary-pair"] = "other" }},
	{"no role", "role", admitted.RoleLabel, func(p *corev1.Pod) { delete(p.Labels, "openshell.ai/boundary-role") }},
	{"the role of a supervisor", "role", admitted.RoleLabel, func(p *corev1.Pod) { p.Labels["openshell.ai/boundary-role"] = "supervisor" }},
	{"no sandbox id", "id", admitted.SandboxIDAnnotation, func(p *corev1.Pod) { p.Annotations = nil }},
	{"another sandbox id", "id", admitted.SandboxIDAnnotation, func(p *corev1.Pod) {
		p.Annotations = map[string]string{"openshell.ai/sandbox-id": "other"}
	}},
	{"two sandbox ids", "id", admitted.SandboxIDAnnotation, func(p *corev1.Pod) {
		p.Annotations = map[string]string{"openshell.ai/sandbox-id": id, "openshell.io/sandbox-id": "other"}
	}},
	{"no gate", "gate", admitted.GateMissing, func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }},
	{"another gate", "gate", admitted.GateMissing, func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/other"}}
	}},
	{"on a node", "node", admitted.AlreadyScheduled, func(p *corev1.Pod) { p.Spec.NodeName = "node-1" }},

	{"the node's network", "net", admitted.HostNetwork, func(p *corev1.Pod) { p.Spec.HostNetwork = true }},
	{"the node's processes", "pid", admitted.HostPID, func(p *corev1.Pod) { p.Spec.HostPID = true }},
	{"the node's memory", "ipc", admitted.HostIPC, func(p *corev1.Pod) { p.Spec.HostIPC = true }},
	{"a second network", "networks", admitted.ExtraNetwork, func(p *corev1.Pod) { annotate(p, "k8s.v1.cni.cncf.io/networks", "macvlan") }},
	{"another first network", "networks", admitted.ExtraNetwork, func(p *corev1.Pod) { annotate(p, "v1.multus-cni.io/default-network", "macvlan") }},
	{"shared processes", "share", admitted.SharedProcesses, func(p *corev1.Pod) { p.Spec.ShareProcessNamespace = new(true) }},
	{"restarted always", "restart", admitted.RestartPolicy, func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }},
	{"restarted on failure", "restart", admitted.RestartPolicy, func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }},
	{"names of the cluster", "dnspolicy", admitted.DNSPolicy, func(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSClusterFirst }},
	{"names of the node", "dnspolicy", admitted.DNSPolicy, func(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSDefault }},
	{"another resolver", "dns", admitted.DNSNameservers, func(p *corev1.Pod) { p.Spec.DNSConfig.Nameservers = []string{"10.96.0.10"} }},
	{"a second resolver", "dns", admitted.DNSNameservers, func(p *corev1.Pod) {
		p.Spec.DNSConfig.Nameservers = append(p.Spec.DNSConfig.Nameservers, "10.96.0.10")
	}},
	{"a resolver before ours", "dns", admitted.DNSNameservers, func(p *corev1.Pod) {
		p.Spec.DNSConfig.Nameservers = []string{"10.96.0.10", "127.0.0.53"}
	}},
	{"no resolver", "dns", admitted.DNSNameservers, func(p *corev1.Pod) { p.Spec.DNSConfig.Nameservers = nil }},
	{"no DNS at all", "dns", admitted.DNSNameservers, func(p *corev1.Pod) { p.Spec.DNSConfig = &corev1.PodDNSConfig{} }},
	{"names completed", "searches", admitted.DNSSearches, func(p *corev1.Pod) { p.Spec.DNSConfig.Searches = []string{"svc.cluster.local"} }},
	{"a name led astray", "hosts", admitted.HostAliases, func(p *corev1.Pod) {
		p.Spec.HostAliases = append(p.Spec.HostAliases, corev1.HostAlias{IP: "203.0.113.9", Hostnames: []string{"api.example"}})
	}},
	{"the host gateway led astray", "hosts", admitted.HostAliases, func(p *corev1.Pod) {
		p.Spec.HostAliases = []corev1.HostAlias{{IP: "203.0.113.9", Hostnames: []string{"host.openshell.internal"}}}
	}},
	{"another name of the host gateway", "hosts", admitted.HostAliases, func(p *corev1.Pod) {
		p.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"api.example"}}}
	}},
	{"a mounted token", "automount", admitted.TokenMounted, func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = new(true) }},
	{"a token mounted by default", "automount", admitted.TokenMounted, func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil }},
	{"a projected token", "token", admitted.TokenProjected, func(p *corev1.Pod) {
		addVolume(p, "kube-api-access-abcde", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{}}, {ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		}}})
	}},
	{"another account", "account", admitted.ServiceAccount, func(p *corev1.Pod) { p.Spec.ServiceAccountName = "admin" }},
	{"no account", "account", admitted.ServiceAccount, func(p *corev1.Pod) { p.Spec.ServiceAccountName = "" }},
	{"one more pull Secret", "pull", admitted.ImagePullSecrets, func(p *corev1.Pod) {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: "other"})
	}},
	{"no pull Secret", "pull", admitted.ImagePullSecrets, func(p *corev1.Pod) { p.Spec.ImagePullSecrets = nil }},
	{"our Secret for pulling", "pull", admitted.ImagePullSecrets, func(p *corev1.Pod) {
		p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: secret}}
	}},
	{"another runtime", "class", admitted.RuntimeClass, func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("runc") }},
	{"the common runtime", "class", admitted.RuntimeClass, func(p *corev1.Pod) { p.Spec.RuntimeClassName = nil }},
	{"the node's users", "users", admitted.UserNamespaceMissing, func(p *corev1.Pod) { p.Spec.HostUsers = new(true) }},
	{"the node's users by default", "users", admitted.UserNamespaceMissing, func(p *corev1.Pod) { p.Spec.HostUsers = nil }},
	{"a resource claim", "claims", admitted.ResourceClaims, func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }},

	{"another user", "poduser", admitted.PodUser, func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = new(int64(0)) }},
	{"no user", "poduser", admitted.PodUser, func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = nil }},
	{"another group", "podgroup", admitted.PodGroup, func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsGroup = new(int64(0)) }},
	{"no group", "podgroup", admitted.PodGroup, func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsGroup = nil }},
	{"maybe root", "podroot", admitted.PodNonRoot, func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsNonRoot = new(false) }},
	{"maybe root by default", "podroot", admitted.PodNonRoot, func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsNonRoot = nil }},
	{"files of another group", "fsgroup", admitted.PodFSGroup, func(p *corev1.Pod) { p.Spec.SecurityContext.FSGroup = new(int64(10003)) }},
	{"files of no group", "fsgroup", admitted.PodFSGroup, func(p *corev1.Pod) { p.Spec.SecurityContext.FSGroup = nil }},
	{"any system call", "podseccomp", admitted.PodSeccomp, func(p *corev1.Pod) {
		p.Spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	}},
	{"another profile of system calls", "podseccomp", admitted.PodSeccomp, func(p *corev1.Pod) {
		p.Spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("x")}
	}},
	{"no profile of system calls", "podseccomp", admitted.PodSeccomp, func(p *corev1.Pod) { p.Spec.SecurityContext.SeccompProfile = nil }},
	{"no sysctl", "sysctl", admitted.PodSysctls, func(p *corev1.Pod) { p.Spec.SecurityContext.Sysctls = nil }},
	{"another value of the sysctl", "sysctl", admitted.PodSysctls, func(p *corev1.Pod) { p.Spec.SecurityContext.Sysctls[0].Value = "1024" }},
	{"one more sysctl", "sysctl", admitted.PodSysctls, func(p *corev1.Pod) {
		p.Spec.SecurityContext.Sysctls = append(p.Spec.SecurityContext.Sysctls, corev1.Sysctl{Name: "net.ipv4.ip_forward", Value: "1"})
	}},
	{"further groups", "groups", admitted.PodSupplementalGroups, func(p *corev1.Pod) { p.Spec.SecurityContext.SupplementalGroups = []int64{0} }},
	{"groups of the image", "groupspolicy", admitted.PodSupplementalPolicy, func(p *corev1.Pod) {
		p.Spec.SecurityContext.SupplementalGroupsPolicy = new(corev1.SupplementalGroupsPolicyMerge)
	}},
	{"an SELinux type", "podselinux", admitted.PodSELinux, func(p *corev1.Pod) {
		p.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
	}},
	{"an SELinux user", "podselinux", admitted.PodSELinux, func(p *corev1.Pod) {
		p.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{User: "system_u", Level: "s0"}
	}},
	{"no AppArmor", "podapparmor", admitted.PodAppArmor, func(p *corev1.Pod) {
		p.Spec.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}},
	{"no AppArmor by annotation", "podapparmor", admitted.PodAppArmor, func(p *corev1.Pod) {
		annotate(p, "container.apparmor.security.beta.kubernetes.io/agent", "unconfined")
	}},
	{"options of Windows", "podwindows", admitted.PodWindows, func(p *corev1.Pod) {
		p.Spec.SecurityContext.WindowsOptions = &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}
	}},

	{"a sidecar", "sidecar", admitted.ContainerUnknown, func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "istio-proxy"})
	}},
	{"a sidecar as ours", "sidecar", admitted.ContainerUnknown, func(p *corev1.Pod) {
		c := *agent(p).DeepCopy()
		c.Name = "openshell-sandbox-bootstrap"
		p.Spec.Containers = append(p.Spec.Containers, c)
	}},
	{"an init container", "init", admitted.ContainerUnknown, func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "istio-init"})
	}},
	{"an init container that stays", "init", admitted.ContainerUnknown, func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "istio-proxy", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)})
	}},
	{"an ephemeral container", "ephemeral", admitted.ContainerEphemeral, func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger"}}}
	}},

	{"another user of the agent", "user", admitted.ContainerUser, func(p *corev1.Pod) { agent(p).SecurityContext.RunAsUser = new(int64(0)) }},
	{"another user of the bootstrap", "user", admitted.ContainerUser, func(p *corev1.Pod) { boot(p).SecurityContext.RunAsUser = new(int64(0)) }},
	{"another user of the workspace", "user", admitted.ContainerUser, func(p *corev1.Pod) { seed(p).SecurityContext.RunAsUser = nil }},
	{"another group of the agent", "group", admitted.ContainerGroup, func(p *corev1.Pod) { agent(p).SecurityContext.RunAsGroup = new(int64(0)) }},
	{"another group of the bootstrap", "group", admitted.ContainerGroup, func(p *corev1.Pod) { boot(p).SecurityContext.RunAsGroup = nil }},
	{"the agent maybe root", "root", admitted.ContainerNonRoot, func(p *corev1.Pod) { agent(p).SecurityContext.RunAsNonRoot = new(false) }},
	{"the bootstrap maybe root", "root", admitted.ContainerNonRoot, func(p *corev1.Pod) { boot(p).SecurityContext.RunAsNonRoot = nil }},
	{"the agent may gain rights", "escalation", admitted.ContainerEscalation, func(p *corev1.Pod) { agent(p).SecurityContext.AllowPrivilegeEscalation = new(true) }},
	{"the bootstrap may gain rights", "escalation", admitted.ContainerEscalation, func(p *corev1.Pod) { boot(p).SecurityContext.AllowPrivilegeEscalation = nil }},
	{"the agent privileged", "privileged", admitted.ContainerPrivileged, func(p *corev1.Pod) { agent(p).SecurityContext.Privileged = new(true) }},
	{"the workspace privileged", "privileged", admitted.ContainerPrivileged, func(p *corev1.Pod) { seed(p).SecurityContext.Privileged = new(true) }},
	{"the agent keeps capabilities", "drop", admitted.ContainerDrop, func(p *corev1.Pod) { agent(p).SecurityContext.Capabilities.Drop = nil }},
	{"the bootstrap keeps all but one", "drop", admitted.ContainerDrop, func(p *corev1.Pod) {
		boot(p).SecurityContext.Capabilities.Drop = []corev1.Capability{"NET_RAW"}
	}},
	{"the agent gets a capability", "add", admitted.ContainerAdd, func(p *corev1.Pod) {
		agent(p).SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
	}},
	{"the bootstrap gets a capability", "add", admitted.ContainerAdd, func(p *corev1.Pod) {
		boot(p).SecurityContext.Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE"}
	}},
	{"the agent with any system call", "seccomp", admitted.ContainerSeccomp, func(p *corev1.Pod) {
		agent(p).SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	}},
	{"the agent with all of procfs", "proc", admitted.ContainerProcMount, func(p *corev1.Pod) {
		agent(p).SecurityContext.ProcMount = new(corev1.UnmaskedProcMount)
	}},
	{"an SELinux type of the agent", "selinux", admitted.ContainerSELinux, func(p *corev1.Pod) {
		agent(p).SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
	}},
	{"an SELinux role of the bootstrap", "selinux", admitted.ContainerSELinux, func(p *corev1.Pod) {
		boot(p).SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Role: "r"}
	}},
	{"no AppArmor for the agent", "apparmor", admitted.ContainerAppArmor, func(p *corev1.Pod) {
		agent(p).SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}},
	{"options of Windows for the agent", "windows", admitted.ContainerWindows, func(p *corev1.Pod) {
		agent(p).SecurityContext.WindowsOptions = &corev1.WindowsSecurityContextOptions{}
	}},
	{"another command", "command", admitted.ContainerCommand, func(p *corev1.Pod) { agent(p).Command = []string{"/bin/sh", "-c"} }},
	{"another boundary", "command", admitted.ContainerCommand, func(p *corev1.Pod) { agent(p).Args[1] = "/sandbox/boundary.json" }},
	{"one more argument", "command", admitted.ContainerCommand, func(p *corev1.Pod) { agent(p).Args = append(agent(p).Args, "--debug") }},
	{"the image's command", "command", admitted.ContainerCommand, func(p *corev1.Pod) { agent(p).Command, agent(p).Args = nil, nil }},
	{"another command of the bootstrap", "bootcommand", admitted.ContainerCommand, func(p *corev1.Pod) { boot(p).Command = []string{"/bin/sh"} }},
	{"another command of the workspace", "seedcommand", admitted.ContainerCommand, func(p *corev1.Pod) { seed(p).Command[1] = "exec" }},
	{"a hook after the start", "hook", admitted.ContainerHook, func(p *corev1.Pod) {
		agent(p).Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh"}}}}
	}},
	{"a probe that runs something", "probe", admitted.ContainerHook, func(p *corev1.Pod) {
		agent(p).StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh"}}}}
	}},
	{"the bootstrap stays", "stays", admitted.ContainerRestart, func(p *corev1.Pod) { boot(p).RestartPolicy = new(corev1.ContainerRestartPolicyAlways) }},
	{"the agent comes back", "rules", admitted.ContainerRestart, func(p *corev1.Pod) { agent(p).RestartPolicyRules = []corev1.ContainerRestartRule{{}} }},
	{"a value of our Secret", "envsource", admitted.ContainerEnvSource, func(p *corev1.Pod) {
		addEnv(agent(p), corev1.EnvVar{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: "tls.key",
		}}})
	}},
	{"a value of a ConfigMap", "envsource", admitted.ContainerEnvSource, func(p *corev1.Pod) {
		addEnv(seed(p), corev1.EnvVar{Name: "KEY", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{}}})
	}},
	{"a value of a file", "envsource", admitted.ContainerEnvSource, func(p *corev1.Pod) {
		addEnv(seed(p), corev1.EnvVar{Name: "KEY", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}})
	}},
	{"a value of nothing", "envsource", admitted.ContainerEnvSource, func(p *corev1.Pod) {
		addEnv(seed(p), corev1.EnvVar{Name: "KEY", ValueFrom: &corev1.EnvVarSource{}})
	}},
	{"a value of a field and a Secret", "envsource", admitted.ContainerEnvSource, func(p *corev1.Pod) {
		addEnv(seed(p), corev1.EnvVar{Name: "KEY", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}, SecretKeyRef: &corev1.SecretKeySelector{},
		}})
	}},
	{"a value of a field and a ConfigMap", "envsource", admitted.ContainerEnvSource, func(p *corev1.Pod) {
		addEnv(seed(p), corev1.EnvVar{Name: "KEY", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}, ConfigMapKeyRef: &corev1.ConfigMapKeySelector{},
		}})
	}},
	{"all of a Secret", "envfrom", admitted.ContainerEnvSource, func(p *corev1.Pod) {
		boot(p).EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}
	}},
	{"a variable of the runtime", "reserved", admitted.ContainerEnvReserved, func(p *corev1.Pod) {
		addEnv(agent(p), corev1.EnvVar{Name: "OPENSHELL_ENDPOINT", Value: "https://x"})
	}},
	{"another user for the runtime", "reserved", admitted.ContainerEnvReserved, func(p *corev1.Pod) {
		addEnv(agent(p), corev1.EnvVar{Name: "OPENSHELL_SANDBOX_UID", Value: "0"})
	}},
	{"a user of the image for the runtime", "reserved", admitted.ContainerEnvReserved, func(p *corev1.Pod) {
		addEnv(boot(p), corev1.EnvVar{Name: "OPENSHELL_OCI_IMAGE_USER", Value: "root"})
	}},
	{"a group from elsewhere", "reserved", admitted.ContainerEnvReserved, func(p *corev1.Pod) {
		addEnv(agent(p), corev1.EnvVar{Name: "OPENSHELL_SANDBOX_GID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}})
	}},
	{"a port on the node", "port", admitted.ContainerHostPort, func(p *corev1.Pod) { agent(p).Ports[0].HostPort = 5500 }},
	{"a device", "device", admitted.ContainerDevice, func(p *corev1.Pod) {
		agent(p).VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/x"}}
	}},
	{"a claimed resource", "resource", admitted.ContainerDevice, func(p *corev1.Pod) { agent(p).Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}} }},

	{"no bootstrap volume", "bootvolume", admitted.BootstrapVolume, func(p *corev1.Pod) { volumeOf(p, "openshell-sandbox-bootstrap").Name = "x" }},
	{"the Secret of another run", "bootvolume", admitted.BootstrapVolume, func(p *corev1.Pod) {
		volumeOf(p, "openshell-sandbox-bootstrap").Secret = &corev1.SecretVolumeSource{SecretName: "other", DefaultMode: new(int32(0o440))}
	}},
	{"no Secret at all", "bootvolume", admitted.BootstrapVolume, func(p *corev1.Pod) {
		volumeOf(p, "openshell-sandbox-bootstrap").VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
	}},
	{"an optional Secret", "bootform", admitted.BootstrapForm, func(p *corev1.Pod) { bootSecret(p).Optional = new(true) }},
	{"a Secret for all to read", "bootform", admitted.BootstrapForm, func(p *corev1.Pod) { bootSecret(p).DefaultMode = new(int32(0o644)) }},
	{"a Secret with the usual mode", "bootform", admitted.BootstrapForm, func(p *corev1.Pod) { bootSecret(p).DefaultMode = nil }},
	{"part of a Secret", "bootform", admitted.BootstrapForm, func(p *corev1.Pod) { bootSecret(p).Items = []corev1.KeyToPath{{Key: "tls.key", Path: "x"}} }},
	{"the Secret a second time", "again", admitted.BootstrapElsewhere, func(p *corev1.Pod) {
		addVolume(p, "again", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}})
	}},
	{"the Secret a second time for a claim", "claimed", admitted.BootstrapElsewhere, func(p *corev1.Pod) {
		volumeOf(p, "data").VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}
	}},
	{"the Secret projected", "again", admitted.BootstrapElsewhere, func(p *corev1.Pod) {
		addVolume(p, "again", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}},
		}}})
	}},
	{"the Secret for a driver", "again", admitted.BootstrapElsewhere, func(p *corev1.Pod) {
		addVolume(p, "again", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "x", NodePublishSecretRef: &corev1.LocalObjectReference{Name: secret}}})
	}},
	{"a directory of the node", "volume", admitted.VolumeUnknown, func(p *corev1.Pod) {
		addVolume(p, "host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})
	}},
	{"an injected volume", "volume", admitted.VolumeUnknown, func(p *corev1.Pod) {
		addVolume(p, "istio-envoy", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	}},
	{"an injected driver's volume", "volume", admitted.VolumeUnknown, func(p *corev1.Pod) {
		addVolume(p, "certificates", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "csi.example"}})
	}},
	{"an injected Secret", "volume", admitted.VolumeUnknown, func(p *corev1.Pod) {
		addVolume(p, "vault", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "vault"}})
	}},
	{"state on the node's disk", "state", admitted.VolumeSource, func(p *corev1.Pod) {
		volumeOf(p, "openshell-runtime-state").VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	}},
	{"state in a directory of the node", "state", admitted.VolumeSource, func(p *corev1.Pod) {
		volumeOf(p, "openshell-runtime-state").VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}}
	}},
	{"the runtime from a claim", "runtime", admitted.VolumeSource, func(p *corev1.Pod) {
		volumeOf(p, "openshell-runtime").VolumeSource = claim("", "other").VolumeSource
	}},
	{"another workspace", "workspace", admitted.VolumeSource, func(p *corev1.Pod) {
		volumeOf(p, "workspace").PersistentVolumeClaim.ClaimName = "workspace-team-b--demo"
	}},
	{"another claim", "claimed", admitted.VolumeSource, func(p *corev1.Pod) { volumeOf(p, "data").VolumeSource = claim("", "other").VolumeSource }},
	{"another file of the identity", "identity", admitted.VolumeSource, func(p *corev1.Pod) {
		volumeOf(p, "openshell-pod-identity").DownwardAPI.Items[0].FieldRef.FieldPath = "metadata.annotations['uid']"
	}},
	{"one more file of the identity", "identity", admitted.VolumeSource, func(p *corev1.Pod) {
		items := &volumeOf(p, "openshell-pod-identity").DownwardAPI.Items
		*items = append(*items, (*items)[0])
	}},
	{"the agent mounts the Secret", "bootmount", admitted.BootstrapMount, func(p *corev1.Pod) {
		addMount(agent(p), mount("openshell-sandbox-bootstrap", "/.openshell/bootstrap-input"))
	}},
	{"the workspace mounts the Secret", "bootmount", admitted.BootstrapMount, func(p *corev1.Pod) {
		addMount(seed(p), mount("openshell-sandbox-bootstrap", "/x"))
	}},
	{"the bootstrap mounts the Secret twice", "bootmount", admitted.BootstrapMount, func(p *corev1.Pod) {
		addMount(boot(p), mount("openshell-sandbox-bootstrap", "/sandbox"))
	}},
	{"the agent alone mounts the Secret", "bootmount", admitted.BootstrapMount, func(p *corev1.Pod) {
		agent(p).VolumeMounts[0], boot(p).VolumeMounts[2] = boot(p).VolumeMounts[2], agent(p).VolumeMounts[0]
	}},
	{"the bootstrap mounts the Secret elsewhere", "bootmount", admitted.BootstrapMount, func(p *corev1.Pod) {
		boot(p).VolumeMounts[2].MountPath = "/.openshell/state/bootstrap"
	}},
	{"the bootstrap mounts no Secret", "bootmount", admitted.BootstrapMount, func(p *corev1.Pod) { boot(p).VolumeMounts = boot(p).VolumeMounts[:2] }},
	{"an ephemeral container mounts the Secret", "ephemeral", admitted.ContainerEphemeral, func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "debugger", VolumeMounts: []corev1.VolumeMount{mount("openshell-sandbox-bootstrap", "/x")},
		}}}
	}},
	{"part of the Secret is mounted", "bootmount", admitted.MountPath, func(p *corev1.Pod) { boot(p).VolumeMounts[2].SubPath = "tls.key" }},
	{"a part by an expression is mounted", "bootmount", admitted.MountPath, func(p *corev1.Pod) { boot(p).VolumeMounts[2].SubPathExpr = "$(MODE)" }},
	{"state is mounted elsewhere", "agentmount", admitted.MountPath, func(p *corev1.Pod) { addMount(agent(p), mount("openshell-runtime-state", "/sandbox/state")) }},
	{"a claim over the runtime", "agentmount", admitted.MountPath, func(p *corev1.Pod) { addMount(agent(p), mount("data", "/.openshell/runtime/openshell-sandbox")) }},
	{"a claim over all of ours", "agentmount", admitted.MountPath, func(p *corev1.Pod) { addMount(agent(p), mount("data", "/.openshell/")) }},
	{"a claim over everything", "agentmount", admitted.MountPath, func(p *corev1.Pod) { addMount(agent(p), mount("data", "/")) }},
	{"a claim by a way round", "agentmount", admitted.MountPath, func(p *corev1.Pod) { addMount(agent(p), mount("data", "/x/../.openshell")) }},
	{"a claim over the workspace", "agentmount", admitted.MountPath, func(p *corev1.Pod) { addMount(agent(p), mount("data", "/sandbox/")) }},
	{"a claim over the run directory", "agentmount", admitted.MountPath, func(p *corev1.Pod) { addMount(agent(p), mount("data", "/run")) }},
	{"a claim above the sockets", "agentmount", admitted.MountPath, func(p *corev1.Pod) { addMount(agent(p), mount("data", "/var/run/openshell/x")) }},
	{"a mount shared with the node", "propagation", admitted.MountPropagation, func(p *corev1.Pod) {
		agent(p).VolumeMounts[0].MountPropagation = new(corev1.MountPropagationBidirectional)
	}},
	{"a mount that follows the node", "propagation", admitted.MountPropagation, func(p *corev1.Pod) {
		boot(p).VolumeMounts[0].MountPropagation = new(corev1.MountPropagationHostToContainer)
	}},
}

// wholesale are breaches that take a whole part of the Pod away, so that no other breach can be put beside them.
var wholesale = []breach{
	{"no security context", "", admitted.PodUser, func(p *corev1.Pod) { p.Spec.SecurityContext = nil }},
	{"no security context of the agent", "", admitted.ContainerUser, func(p *corev1.Pod) { agent(p).SecurityContext = nil }},
	{"no capabilities of the agent", "", admitted.ContainerDrop, func(p *corev1.Pod) { agent(p).SecurityContext.Capabilities = nil }},
	{"no DNS config", "", admitted.DNSNameservers, func(p *corev1.Pod) { p.Spec.DNSConfig = nil }},
	{"no labels", "", admitted.PairLabel, func(p *corev1.Pod) { p.Labels = nil }},
	{"no containers", "", admitted.ContainerMissing, func(p *corev1.Pod) { p.Spec.Containers = nil }},
	{"no init containers", "", admitted.ContainerMissing, func(p *corev1.Pod) { p.Spec.InitContainers = nil }},
	{"the workspace before the bootstrap", "", admitted.ContainerMissing, func(p *corev1.Pod) {
		list := p.Spec.InitContainers
		list[0], list[1] = list[1], list[0]
	}},
	{"the agent as an init container", "", admitted.ContainerUnknown, func(p *corev1.Pod) {
		p.Spec.InitContainers, p.Spec.Containers = append(p.Spec.InitContainers, p.Spec.Containers...), nil
	}},
	{"no volumes", "", admitted.BootstrapVolume, func(p *corev1.Pod) { p.Spec.Volumes = nil }},
	{"the bootstrap volume twice", "", admitted.BootstrapVolume, func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, *volumeOf(p, "openshell-sandbox-bootstrap"))
	}},
	{"nothing but a uid", "", admitted.WrongPod, func(p *corev1.Pod) { *p = corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID("x")}} }},
	{"a long story", "", admitted.DNSSearches, func(p *corev1.Pod) {
		for range 1000 {
			p.Spec.DNSConfig.Searches = append(p.Spec.DNSConfig.Searches, strings.Repeat("a", 100))
		}
	}},
}

func annotate(p *corev1.Pod, key, value string) {
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[key] = value
}

func addVolume(p *corev1.Pod, name string, source corev1.VolumeSource) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
}

func addMount(c *corev1.Container, m corev1.VolumeMount) { c.VolumeMounts = append(c.VolumeMounts, m) }

func addEnv(c *corev1.Container, v corev1.EnvVar) { c.Env = append(c.Env, v) }

// bootSecret is a stand-in where another breach has taken the volume away.
func bootSecret(p *corev1.Pod) *corev1.SecretVolumeSource {
	if s := volumeOf(p, "openshell-sandbox-bootstrap").Secret; s != nil {
		return s
	}
	return &corev1.SecretVolumeSource{}
}
