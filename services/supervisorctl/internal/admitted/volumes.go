package admitted

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Reasons about volumes and mounts.
const (
	BootstrapVolume    Reason = "workload_bootstrap_volume"
	BootstrapForm      Reason = "workload_bootstrap_volume_form"
	BootstrapElsewhere Reason = "workload_bootstrap_secret_elsewhere"
	VolumeUnknown      Reason = "workload_volume_unknown"
	VolumeSource       Reason = "workload_volume_source"
	BootstrapMount     Reason = "workload_bootstrap_mount"
	MountPath          Reason = "workload_mount_path"
	MountPropagation   Reason = "workload_mount_propagation"
)

const (
	volumeBootstrap = "openshell-sandbox-bootstrap"
	volumeIdentity  = "openshell-pod-identity"
	volumeWorkspace = workspace.ClaimTemplate
	bootstrapInput  = "/.openshell/bootstrap-input"
	secretMode      = int32(0o440)
)

// ownVolumes are the volumes that the driver renders, and where they are mounted (contract 7.5).
var ownVolumes = map[string][]string{
	"openshell-runtime":       {"/.openshell/runtime"},
	"openshell-runtime-state": {"/.openshell/state"},
	volumeBootstrap:           {bootstrapInput},
	volumeIdentity:            {"/.openshell/pod-identity"},
	"openshell-run":           {"/run"},
	volumeWorkspace:           {"/sandbox", "/mnt/openshell-workspace"},
}

// reservedRoots are where nobody else may mount anything, nor above (contract 11.4).
var reservedRoots = []string{
	"/.openshell", "/opt/openshell", "/etc/openshell", "/etc/openshell-tls", "/run/openshell", "/run/openshell-sidecar",
	"/run/netns", "/var/run/netns", "/var/run/openshell", "/run/secrets/openshell", "/var/run/secrets/openshell",
}

// ownPlaces have mounts of ours. Below them there may be others.
var ownPlaces = []string{"/run", "/var/run", "/sandbox", "/mnt/openshell-workspace"}

func volumes() []check {
	return []check{
		{BootstrapVolume, bootstrapVolume},
		{BootstrapForm, bootstrapForm},
		{BootstrapElsewhere, bootstrapElsewhere},
		{VolumeUnknown, func(p *corev1.Pod, e *Expected) string {
			for _, v := range p.Spec.Volumes {
				_, own := ownVolumes[v.Name]
				if _, claimed := e.Claims[v.Name]; !own && !claimed {
					return unless(false, "volume %.80q was not rendered", v.Name)
				}
			}
			return ""
		}},
		{VolumeSource, volumeSources},
		{BootstrapMount, bootstrapMounts},
		{MountPath, mounts(mountPath)},
		{MountPropagation, mounts(func(_ *corev1.Container, m *corev1.VolumeMount) string {
			return unless(m.MountPropagation == nil || *m.MountPropagation == corev1.MountPropagationNone,
				"its mount %.120s is shared with the node (%s)", m.MountPath, value(m.MountPropagation))
		})},
	}
}

func bootstrap(p *corev1.Pod) []corev1.Volume {
	var found []corev1.Volume
	for _, v := range p.Spec.Volumes {
		if v.Name == volumeBootstrap {
			found = append(found, v)
		}
	}
	return found
}

// bootstrapVolume wants the Secret of this run, so that a Pod of another one gets nothing.
func bootstrapVolume(p *corev1.Pod, e *Expected) string {
	found := bootstrap(p)
	switch {
	case len(found) != 1:
		return unless(false, "there are %d volumes %s, and must be one", len(found), volumeBootstrap)
	case found[0].Secret == nil:
		return unless(false, "volume %s is no Secret", volumeBootstrap)
	default:
		return unless(found[0].Secret.SecretName == e.Secret,
			"volume %s is Secret %.80q, and must be %q", volumeBootstrap, found[0].Secret.SecretName, e.Secret)
	}
}

func bootstrapForm(p *corev1.Pod, _ *Expected) string {
	for _, v := range bootstrap(p) {
		if s := v.Secret; s != nil && (is(s.Optional, true) || len(s.Items) > 0 || !is(s.DefaultMode, secretMode)) {
			return unless(false, "volume %s has mode %s, %d items and optional %s, and must have mode %d and nothing else",
				volumeBootstrap, value(s.DefaultMode), len(s.Items), value(s.Optional), secretMode)
		}
	}
	return ""
}

// bootstrapElsewhere looks at the sources that put a Secret into files or hand it to a driver, for a reason that says what
// is at stake. Others that can name one are refused as sources.
func bootstrapElsewhere(p *corev1.Pod, e *Expected) string {
	for _, v := range p.Spec.Volumes {
		named := v.Secret != nil && v.Secret.SecretName == e.Secret && v.Name != volumeBootstrap
		if v.Projected != nil {
			named = named || slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
				return s.Secret != nil && s.Secret.Name == e.Secret
			})
		}
		if v.CSI != nil {
			named = named || v.CSI.NodePublishSecretRef != nil && v.CSI.NodePublishSecretRef.Name == e.Secret
		}
		if named {
			return unless(false, "volume %.80q names the bootstrap Secret too", v.Name)
		}
	}
	return ""
}

// volumeSources compares sources as a whole: a source of another kind leaves ours empty, and one beside ours is a difference.
func volumeSources(p *corev1.Pod, e *Expected) string {
	for _, v := range p.Spec.Volumes {
		ok := true
		switch claim, claimed := e.Claims[v.Name]; {
		case v.Name == volumeBootstrap:
		case v.Name == volumeWorkspace:
			ok = claims(v, workspace.WorkspaceClaim(e.SandboxName))
		case v.Name == volumeIdentity:
			ok = v.DownwardAPI != nil && onlyUID(v.DownwardAPI.Items) && nothingBut(v, corev1.VolumeSource{DownwardAPI: v.DownwardAPI})
		case claimed:
			ok = claims(v, claim)
		case ownVolumes[v.Name] != nil:
			ok = v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory && nothingBut(v, corev1.VolumeSource{EmptyDir: v.EmptyDir})
		}
		if !ok {
			return unless(false, "volume %.80q has another source than was rendered", v.Name)
		}
	}
	return ""
}

func claims(v corev1.Volume, claim string) bool {
	pvc := v.PersistentVolumeClaim
	return pvc != nil && pvc.ClaimName == claim && nothingBut(v, corev1.VolumeSource{PersistentVolumeClaim: pvc})
}

func nothingBut(v corev1.Volume, source corev1.VolumeSource) bool {
	return equality.Semantic.DeepEqual(v.VolumeSource, source)
}

func onlyUID(items []corev1.DownwardAPIVolumeFile) bool {
	return len(items) == 1 && items[0].Path == "uid" && items[0].ResourceFieldRef == nil &&
		items[0].FieldRef != nil && items[0].FieldRef.FieldPath == "metadata.uid"
}

// bootstrapMounts wants one mount in one container: what is not mounted there is never read, and what is mounted elsewhere
// is read by the wrong one.
func bootstrapMounts(p *corev1.Pod, _ *Expected) string {
	count := 0
	found := mounts(func(c *corev1.Container, m *corev1.VolumeMount) string {
		if m.Name != volumeBootstrap {
			return ""
		}
		count++
		return unless(c.Name == BootstrapContainer && m.MountPath == bootstrapInput,
			"it mounts the bootstrap Secret at %.120s, and only %s may, at %s",
			m.MountPath, BootstrapContainer, bootstrapInput)
	})(p, nil)
	if found != "" {
		return found
	}
	return unless(count == 1, "the bootstrap Secret is mounted %d times, and must be once", count)
}

// mounts makes a check for each mount of every container there is, ours or not.
func mounts(fails func(*corev1.Container, *corev1.VolumeMount) string) func(*corev1.Pod, *Expected) string {
	return func(p *corev1.Pod, _ *Expected) string {
		all := slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
		for _, c := range p.Spec.EphemeralContainers {
			all = append(all, corev1.Container(c.EphemeralContainerCommon))
		}
		for i := range all {
			for j := range all[i].VolumeMounts {
				if found := fails(&all[i], &all[i].VolumeMounts[j]); found != "" {
					return unless(false, "container %.80s: %s", all[i].Name, found)
				}
			}
		}
		return ""
	}
}

func mountPath(_ *corev1.Container, m *corev1.VolumeMount) string {
	part := m.SubPath != "" || m.SubPathExpr != ""
	if places, own := ownVolumes[m.Name]; own {
		return unless(slices.Contains(places, m.MountPath) && !part,
			"it mounts %s at %.120s (subPath %.60q), and must at %s",
			m.Name, m.MountPath, m.SubPath+m.SubPathExpr, strings.Join(places, " or "))
	}
	clean := strings.TrimRight(m.MountPath, "/")
	if clean == "" || path.Clean(m.MountPath) != clean || !path.IsAbs(clean) {
		return unless(false, "it mounts %.80q at %.120q, which is / or no plain absolute path", m.Name, m.MountPath)
	}
	below := func(a, b string) bool { return a == b || strings.HasPrefix(a, b+"/") }
	for _, root := range slices.Concat(reservedRoots, ownPlaces) {
		if below(root, clean) || below(clean, root) && !slices.Contains(ownPlaces, root) {
			return unless(false, "it mounts %.80q at %.120s, which overlaps with %s", m.Name, m.MountPath, root)
		}
	}
	return ""
}
