package inventory

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// The driver's own, which a Pod has without a look-up (contract 7.5).
const (
	bootstrapVolume = "openshell-sandbox-bootstrap"
	secretMode      = int32(0o440)
	portSysctl      = "net.ipv4.ip_unprivileged_port_start"
	gpu             = "nvidia.com/gpu"
)

// pod takes away from its argument what a Pod may have, and refuses what is left.
func (w *walk) pod(rest *corev1.PodSpec) {
	w.volumes(rest.Volumes)
	for i := range rest.InitContainers {
		w.container("initContainers", i, &rest.InitContainers[i])
	}
	for i := range rest.Containers {
		w.container("containers", i, &rest.Containers[i])
	}
	rest.Volumes, rest.InitContainers, rest.Containers = nil, nil, nil
	rest.NodeSelector, rest.Tolerations, rest.DNSConfig, rest.TerminationGracePeriodSeconds, rest.EnableServiceLinks = nil, nil, nil, nil, nil
	rest.RestartPolicy, rest.DNSPolicy = "", ""
	if rest.SchedulerName == corev1.DefaultSchedulerName {
		rest.SchedulerName = ""
	}
	if rest.AutomountServiceAccountToken == nil || *rest.AutomountServiceAccountToken {
		w.refuse("automountServiceAccountToken", "must be false")
	}
	rest.AutomountServiceAccountToken = nil
	account := w.policy.settings.ServiceAccountName
	if rest.ServiceAccountName != account || rest.DeprecatedServiceAccount != "" && rest.DeprecatedServiceAccount != account {
		w.refuse("serviceAccountName", "must be that of the settings")
	}
	rest.ServiceAccountName, rest.DeprecatedServiceAccount = "", ""
	if rest.HostUsers != nil && !*rest.HostUsers {
		rest.HostUsers = nil
	}
	rest.SchedulingGates = slices.DeleteFunc(rest.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == workspace.SchedulingGate })
	ip := w.policy.settings.HostGatewayIP
	rest.HostAliases = slices.DeleteFunc(rest.HostAliases, func(a corev1.HostAlias) bool { return ip != "" && a.IP == ip })
	rest.ImagePullSecrets = slices.DeleteFunc(rest.ImagePullSecrets, func(s corev1.LocalObjectReference) bool {
		return slices.Contains(w.own.PullSecrets, s.Name)
	})
	w.classes(rest)
	w.podSecurity(rest)
	w.leftover("", rest)
}

func (w *walk) classes(rest *corev1.PodSpec) {
	if name := rest.RuntimeClassName; name != nil {
		w.attach("runtimeClassName", Attachment{Kind: RuntimeClass, Name: *name})
	}
	if name := rest.PriorityClassName; name != "" {
		w.attach("priorityClassName", Attachment{Kind: PriorityClass, Name: name})
	}
	rest.RuntimeClassName, rest.PriorityClassName = nil, ""
}

func (w *walk) attach(path string, a Attachment) {
	if _, err := parse(a.String()); err != nil {
		w.refuse(path, "names no object: it %v", err)
		return
	}
	w.found = append(w.found, a)
}

func (w *walk) volumes(list []corev1.Volume) {
	for i := range list {
		v, path := &list[i], fmt.Sprintf("volumes[%d]", i)
		rest := v.VolumeSource
		switch {
		case v.Name == bootstrapVolume:
			if !w.bootstrap(rest.Secret) {
				w.refuse(path, "must be the bootstrap Secret of the generation")
				continue
			}
			rest.Secret = nil
		case rest.PersistentVolumeClaim != nil:
			claim := rest.PersistentVolumeClaim.ClaimName
			if v.Name != workspace.ClaimTemplate || claim != workspace.WorkspaceClaim(w.own.ObjectName) {
				w.attach(path+".persistentVolumeClaim", Attachment{PersistentVolumeClaim, w.own.Namespace, claim})
			}
			rest.PersistentVolumeClaim = nil
		case rest.EmptyDir != nil:
			rest.EmptyDir = nil
		case rest.DownwardAPI != nil:
			rest.DownwardAPI = nil
		default:
			if reflect.ValueOf(rest).IsZero() {
				w.refuse(path, "has no source")
			}
		}
		w.leftover(path, &rest)
	}
}

// bootstrap wants the one Secret as it is rendered.
func (w *walk) bootstrap(s *corev1.SecretVolumeSource) bool {
	return s != nil && s.SecretName == workspace.SandboxSecret(w.own.SandboxID, w.own.Generation) && len(s.Items) == 0 &&
		(s.Optional == nil || !*s.Optional) && s.DefaultMode != nil && *s.DefaultMode == secretMode
}

func (w *walk) container(list string, i int, rest *corev1.Container) {
	path := fmt.Sprintf("%s[%d]", list, i)
	for j := range rest.Env {
		if from := rest.Env[j].ValueFrom; from != nil {
			from.FieldRef, from.ResourceFieldRef = nil, nil
			w.leftover(fmt.Sprintf("%s.env[%d].valueFrom", path, j), from)
		}
	}
	for j := range rest.Ports {
		p := &rest.Ports[j]
		p.Name, p.ContainerPort, p.Protocol = "", 0, ""
		w.leftover(fmt.Sprintf("%s.ports[%d]", path, j), p)
	}
	for j := range rest.VolumeMounts {
		m := &rest.VolumeMounts[j]
		m.Name, m.MountPath, m.SubPath, m.ReadOnly = "", "", "", false
		if p := m.MountPropagation; p != nil && *p == corev1.MountPropagationNone {
			m.MountPropagation = nil
		}
		w.leftover(fmt.Sprintf("%s.volumeMounts[%d]", path, j), m)
	}
	for _, kind := range slices.Sorted(maps.Keys(rest.Resources.Limits)) {
		w.resource(path, kind)
	}
	for _, kind := range slices.Sorted(maps.Keys(rest.Resources.Requests)) {
		if _, told := rest.Resources.Limits[kind]; !told {
			w.resource(path, kind)
		}
	}
	rest.Resources.Limits, rest.Resources.Requests = nil, nil
	w.leftover(path+".resources", &rest.Resources)
	if s := rest.SecurityContext; s != nil {
		w.security(path+".securityContext", s)
	}
	rest.Env, rest.Ports, rest.VolumeMounts, rest.SecurityContext = nil, nil, nil, nil
	rest.Resources = corev1.ResourceRequirements{}
	rest.Name, rest.Image, rest.ImagePullPolicy, rest.Command, rest.Args = "", "", "", nil, nil
	rest.TerminationMessagePath, rest.TerminationMessagePolicy = "", ""
	w.leftover(path, rest)
}

// resource judges the name of an extended resource; Kubernetes' own have no domain (contract 11.5).
func (w *walk) resource(path string, kind corev1.ResourceName) {
	if strings.Contains(string(kind), "/") && kind != gpu && !slices.Contains(w.policy.settings.AllowedExtendedResources, string(kind)) {
		w.refuse(path+".resources", "has the extended resource %.100q, which allowed_extended_resources does not name", string(kind))
	}
}

func (w *walk) security(path string, rest *corev1.SecurityContext) {
	rest.RunAsUser, rest.RunAsGroup, rest.RunAsNonRoot, rest.ReadOnlyRootFilesystem = nil, nil, nil, nil
	if rest.AllowPrivilegeEscalation != nil && !*rest.AllowPrivilegeEscalation {
		rest.AllowPrivilegeEscalation = nil
	}
	if rest.Privileged != nil && !*rest.Privileged {
		rest.Privileged = nil
	}
	if c := rest.Capabilities; c != nil && len(c.Add) == 0 {
		rest.Capabilities = nil
	}
	rest.SeccompProfile = unlessDefault(rest.SeccompProfile)
	w.leftover(path, rest)
}

func (w *walk) podSecurity(pod *corev1.PodSpec) {
	rest := pod.SecurityContext
	if pod.SecurityContext = nil; rest == nil {
		return
	}
	rest.RunAsUser, rest.RunAsGroup, rest.RunAsNonRoot, rest.FSGroup, rest.FSGroupChangePolicy = nil, nil, nil, nil, nil
	if p := rest.SupplementalGroupsPolicy; p != nil && *p == corev1.SupplementalGroupsPolicyStrict {
		rest.SupplementalGroupsPolicy = nil
	}
	rest.Sysctls = slices.DeleteFunc(rest.Sysctls, func(s corev1.Sysctl) bool { return s == corev1.Sysctl{Name: portSysctl, Value: "0"} })
	rest.SeccompProfile = unlessDefault(rest.SeccompProfile)
	w.leftover("securityContext", rest)
}

func unlessDefault(p *corev1.SeccompProfile) *corev1.SeccompProfile {
	if p != nil && p.Type == corev1.SeccompProfileTypeRuntimeDefault && p.LocalhostProfile == nil {
		return nil
	}
	return p
}

// leftover refuses each member of a struct that still holds something, by its name in the API.
func (w *walk) leftover(path string, rest any) {
	v := reflect.ValueOf(rest).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if f.IsZero() || (f.Kind() == reflect.Slice || f.Kind() == reflect.Map) && f.Len() == 0 {
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if path != "" {
			name = path + "." + name
		}
		w.refuse(name, "is something that no sandbox may have")
	}
}
