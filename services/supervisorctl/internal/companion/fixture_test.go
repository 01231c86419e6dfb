package companion_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/material"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// world is everything that companions are rendered from. The base is valid, and each case changes one thing.
type world struct {
	settings driverconf.Kubernetes
	options  companion.Options
	sandbox  companion.Sandbox
}

const id = "4b67c0d0-1111-2222-3333-444444444444"

func base(t *testing.T) *world {
	t.Helper()
	loaded, err := driverconf.Load(driverconf.Source{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{settings: loaded.Kubernetes}
	w.settings.Namespace = "sandboxes"
	w.settings.ServiceAccountName = "sandbox"
	w.settings.SupervisorImage = "registry.example/supervisor:1.2"
	w.settings.GRPCEndpoint = "https://gateway.example:8080"
	w.settings.SandboxRuntime.NetworkPolicyEnforced = true
	w.sandbox = companion.Sandbox{
		ID: id, Name: "demo", Workspace: "team-a",
		Namespace: "sandboxes", ObjectName: "team-a--demo", UID: "6d0f4a7e-sandbox", Version: sandboxapi.V1beta1,
		Generation: "g00000000001-second", User: 10001, Group: 10002,
		MainProcess: `{"version":1,"command":["/bin/run","--all"],"tty":false}`, LogLevel: "info",
	}
	return w
}

// in moves the world into another workspace mode.
func (w *world) in(mode driverconf.Mode) {
	w.settings.WorkspaceMode = mode
	w.sandbox.ObjectName = w.sandbox.Name
	switch mode {
	case driverconf.ModeManaged:
		w.sandbox.Namespace = "openshell-openshell-" + w.sandbox.Workspace
	case driverconf.ModeOperator:
		w.sandbox.Namespace = w.sandbox.Workspace
		w.settings.OperatorNamespaceLabel = new("openshell.ai/workspace=true")
	default:
		w.sandbox.ObjectName = w.sandbox.Workspace + "--" + w.sandbox.Name
		w.sandbox.Namespace = w.settings.Namespace
	}
}

func (w *world) renderer(t *testing.T) *companion.Renderer {
	t.Helper()
	r, err := companion.New(&w.settings, w.options)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *world) pod(t *testing.T) *corev1.Pod {
	t.Helper()
	pod, err := w.renderer(t).SupervisorPod(w.sandbox)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func (w *world) service(t *testing.T) *corev1.Service {
	t.Helper()
	service, err := w.renderer(t).Service(w.sandbox)
	if err != nil {
		t.Fatal(err)
	}
	return service
}

func workload() companion.PodRef { return companion.PodRef{Name: "team-a--demo", UID: "uid-workload"} }

func supervisorRef(w *world) companion.PodRef {
	return companion.PodRef{Name: "os-supervisor-" + strings.ToLower(w.sandbox.ID), UID: "uid-supervisor"}
}

func files(names ...string) map[string][]byte {
	all := map[string][]byte{}
	for _, name := range names {
		all[name] = []byte("content of " + name)
	}
	return all
}

func sandboxFiles() map[string][]byte {
	return files(material.FileBoundary, material.FileCertificate, material.FileKey)
}

func pullSource(w *world, index int) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.settings.Namespace, Name: w.settings.ImagePullSecrets[index],
			Labels: map[string]string{"team": "platform"}, Annotations: map[string]string{"note": "of the source"},
		},
		Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`)},
	}
}

func templateVolumes() []corev1.Volume {
	return []corev1.Volume{
		{Name: "openshell-runtime", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		{Name: companion.WorkloadVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "os-sandbox-of-the-run-before", DefaultMode: new(int32(0o440))}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data", ReadOnly: true}}},
	}
}
