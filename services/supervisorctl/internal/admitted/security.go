package admitted

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Reasons about the security context of the Pod.
const (
	PodUser               Reason = "workload_pod_user"
	PodGroup              Reason = "workload_pod_group"
	PodNonRoot            Reason = "workload_pod_non_root"
	PodFSGroup            Reason = "workload_pod_fs_group"
	PodSeccomp            Reason = "workload_pod_seccomp"
	PodSysctls            Reason = "workload_pod_sysctls"
	PodSupplementalGroups Reason = "workload_pod_supplemental_groups"
	PodSupplementalPolicy Reason = "workload_pod_supplemental_groups_policy"
	PodSELinux            Reason = "workload_pod_selinux"
	PodAppArmor           Reason = "workload_pod_apparmor"
	PodWindows            Reason = "workload_pod_windows"
)

const (
	// sysctl lets a process that is not root listen on every port of its own network (contract 7.5).
	sysctl      = "net.ipv4.ip_unprivileged_port_start"
	sysctlValue = "0"
	// appArmorPrefix begins the annotations that were AppArmor profiles before there was a field.
	appArmorPrefix = "container.apparmor.security.beta.kubernetes.io/"
)

func security() []check {
	return []check{
		{PodUser, func(p *corev1.Pod, e *Expected) string {
			return unless(is(context(p).RunAsUser, int64(e.User)),
				"securityContext.runAsUser is %s, and must be %d", value(context(p).RunAsUser), e.User)
		}},
		{PodGroup, func(p *corev1.Pod, e *Expected) string {
			return unless(is(context(p).RunAsGroup, int64(e.Group)),
				"securityContext.runAsGroup is %s, and must be %d", value(context(p).RunAsGroup), e.Group)
		}},
		{PodNonRoot, func(p *corev1.Pod, _ *Expected) string {
			return unless(is(context(p).RunAsNonRoot, true),
				"securityContext.runAsNonRoot is %s, and must be true", value(context(p).RunAsNonRoot))
		}},
		{PodFSGroup, func(p *corev1.Pod, e *Expected) string {
			return unless(is(context(p).FSGroup, int64(e.Group)),
				"securityContext.fsGroup is %s, and must be %d", value(context(p).FSGroup), e.Group)
		}},
		{PodSeccomp, func(p *corev1.Pod, _ *Expected) string {
			profile := context(p).SeccompProfile
			return unless(profile != nil && profile.Type == corev1.SeccompProfileTypeRuntimeDefault,
				"securityContext.seccompProfile is %s, and must be RuntimeDefault", seccomp(profile))
		}},
		{PodSysctls, func(p *corev1.Pod, _ *Expected) string {
			return unless(slices.Equal(context(p).Sysctls, []corev1.Sysctl{{Name: sysctl, Value: sysctlValue}}),
				"securityContext.sysctls is %.160v, and must be %s=%s alone", context(p).Sysctls, sysctl, sysctlValue)
		}},
		{PodSupplementalGroups, func(p *corev1.Pod, _ *Expected) string {
			return unless(len(context(p).SupplementalGroups) == 0,
				"securityContext.supplementalGroups is %.80v, and must be empty", context(p).SupplementalGroups)
		}},
		{PodSupplementalPolicy, func(p *corev1.Pod, _ *Expected) string {
			policy := context(p).SupplementalGroupsPolicy
			return unless(policy == nil || *policy == corev1.SupplementalGroupsPolicyStrict,
				"securityContext.supplementalGroupsPolicy is %s, and must be Strict where it is set", value(policy))
		}},
		{PodSELinux, func(p *corev1.Pod, _ *Expected) string { return selinux("securityContext", context(p).SELinuxOptions) }},
		{PodAppArmor, podAppArmor},
		{PodWindows, func(p *corev1.Pod, _ *Expected) string {
			return unless(context(p).WindowsOptions == nil, "securityContext.windowsOptions is set")
		}},
	}
}

func context(p *corev1.Pod) corev1.PodSecurityContext {
	if p.Spec.SecurityContext == nil {
		return corev1.PodSecurityContext{}
	}
	return *p.Spec.SecurityContext
}

func seccomp(profile *corev1.SeccompProfile) string {
	if profile == nil {
		return "not set"
	}
	return string(profile.Type)
}

// selinux lets a level be, which OpenShift writes into every Pod of a namespace. User, role and type decide what a process
// may do, and some types may do everything.
func selinux(of string, options *corev1.SELinuxOptions) string {
	if options == nil {
		return ""
	}
	return unless(options.User == "" && options.Role == "" && options.Type == "",
		"%s.seLinuxOptions has user %.60q, role %.60q and type %.60q, and none of them may be set",
		of, options.User, options.Role, options.Type)
}

func podAppArmor(p *corev1.Pod, _ *Expected) string {
	if found := appArmor("securityContext", context(p).AppArmorProfile); found != "" {
		return found
	}
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		if strings.HasPrefix(key, appArmorPrefix) && p.Annotations[key] != "runtime/default" {
			return unless(false, "the annotation %.120s is %.80q, and may only be runtime/default", key, p.Annotations[key])
		}
	}
	return ""
}

func appArmor(of string, profile *corev1.AppArmorProfile) string {
	if profile == nil {
		return ""
	}
	return unless(profile.Type == corev1.AppArmorProfileTypeRuntimeDefault,
		"%s.appArmorProfile is %.40s, and may only be RuntimeDefault", of, profile.Type)
}
