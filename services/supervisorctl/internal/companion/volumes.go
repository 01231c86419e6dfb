package companion

import (
	"path"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Where things are in the supervisor (contract 6.5, 7.6).
const (
	bootstrapDirectory = "/.openshell/supervisor"
	tokenDirectory     = "/var/run/secrets/openshell" //nolint:gosec // a path, not a credential
	tokenFile          = "token"
	clientTLSDirectory = "/var/run/secrets/openshell-tls"
	runDirectory       = "/run/openshell"
	logDirectory       = "/var/log"
	proxyAuthDirectory = runDirectory + "/upstream-proxy-auth"
	proxyAuthFile      = "credential"
)

// Names of the supervisor's volumes.
const (
	volumeBootstrap = "bootstrap"
	volumeToken     = "sa-token"
	volumeRun       = "run"
	volumeLogs      = "logs"
	volumeClientTLS = "openshell-client-tls"
	volumeProxyAuth = "openshell-upstream-proxy-auth"
	volumeSpiffe    = "spiffe-workload-api"
)

// tokenAudience is the only one that tokenauth accepts (contract 6.5).
const tokenAudience = "openshell-gateway"

// secretMode lets the Pod's group read, and nobody else.
const secretMode int32 = 0o440

const (
	defaultTokenSeconds = 3600
	minTokenSeconds     = 600
	maxTokenSeconds     = 86400
)

func (r *Renderer) volumes(s *Sandbox) ([]corev1.Volume, []corev1.VolumeMount) {
	k := &r.settings
	volumes := []corev1.Volume{
		secretVolume(volumeBootstrap, workspace.SupervisorSecret(s.ID, s.Generation)),
		{Name: volumeToken, VolumeSource: corev1.VolumeSource{Projected: token(k.SATokenTTLSecs)}},
		{Name: volumeRun, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: volumeLogs, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	mounts := []corev1.VolumeMount{
		{Name: volumeBootstrap, MountPath: bootstrapDirectory, ReadOnly: true},
		{Name: volumeToken, MountPath: tokenDirectory, ReadOnly: true},
		{Name: volumeRun, MountPath: runDirectory},
		{Name: volumeLogs, MountPath: logDirectory},
	}
	if k.ClientTLSSecretName != "" && k.WorkspaceMode == driverconf.ModeShared {
		volumes = append(volumes, secretVolume(volumeClientTLS, k.ClientTLSSecretName))
		mounts = append(mounts, corev1.VolumeMount{Name: volumeClientTLS, MountPath: clientTLSDirectory, ReadOnly: true})
	}
	if k.ProxyAuthSecretName != "" {
		credential := secretVolume(volumeProxyAuth, k.ProxyAuthSecretName)
		credential.Secret.Items = []corev1.KeyToPath{{Key: k.ProxyAuthSecretKey, Path: proxyAuthFile}}
		volumes = append(volumes, credential)
		mounts = append(mounts, corev1.VolumeMount{Name: volumeProxyAuth, MountPath: proxyAuthDirectory, ReadOnly: true})
	}
	if socket := k.ProviderSpiffeWorkloadAPISocketPath; socket != "" {
		volumes = append(volumes, corev1.Volume{Name: volumeSpiffe, VolumeSource: corev1.VolumeSource{
			CSI: &corev1.CSIVolumeSource{Driver: "csi.spiffe.io", ReadOnly: new(true)},
		}})
		mounts = append(mounts, corev1.VolumeMount{Name: volumeSpiffe, MountPath: path.Dir(socket), ReadOnly: true})
	}
	return volumes, mounts
}

func secretVolume(name, secret string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: new(secretMode)},
	}}
}

func token(seconds int64) *corev1.ProjectedVolumeSource {
	return &corev1.ProjectedVolumeSource{
		DefaultMode: new(secretMode),
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: tokenAudience, ExpirationSeconds: new(tokenSeconds(seconds)), Path: tokenFile,
		}}},
	}
}

// tokenSeconds is the rule of contract 3.1, once more: settings that were made by hand have not been through driverconf,
// and the API server refuses less than ten minutes.
func tokenSeconds(seconds int64) int64 {
	if seconds <= 0 {
		return defaultTokenSeconds
	}
	return min(max(seconds, minTokenSeconds), maxTokenSeconds)
}
