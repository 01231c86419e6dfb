package conduct

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/admitted"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/companion"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// TestSandboxesOfLifecycle: what lifecycle renders is what supervisorctl takes, in every case that has a golden file there: the record, the
// admitted Pod, and what a supervisor and a restart are rendered from.
func TestSandboxesOfLifecycle(t *testing.T) {
	paths, err := filepath.Glob("../../../lifecycle/internal/template/testdata/*.json")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d Sandboxes of lifecycle were found, where are its golden files? %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		u.SetUID("uid-sandbox")
		o, err := sandboxapi.ObjectFrom(u)
		if err != nil || o.Mode != sandboxapi.Suspended {
			t.Fatalf("%s: %v, %v", path, o.Mode, err)
		}
		if r, err := runstate.Of(o.Annotations); err != nil || !r.Bootstrapping || r.Operation != runstate.Create || r.Phase != runstate.Preparing {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
		pod := &o.Template.Spec
		user, group := identity(pod)
		box := companion.Sandbox{
			ID: o.Labels[workspace.LabelSandboxID], Name: o.Labels[workspace.LabelSandboxName], Workspace: o.Labels[workspace.LabelSandboxWorkspace],
			Namespace: o.Namespace, ObjectName: o.Name, UID: types.UID(o.UID), Version: o.Version, User: user, Group: group,
			Generation: o.Annotations[workspace.AnnotationGeneration], MainProcess: o.Annotations[workspace.AnnotationMainProcessSpec],
			LogLevel: o.Annotations[workspace.AnnotationLogLevel], TraceParent: o.Annotations[workspace.AnnotationTraceContext],
		}
		e := admitted.Expected{
			Namespace: o.Namespace, Name: o.PodName(), SandboxName: o.Name, SandboxUID: box.UID, ID: box.ID, User: user, Group: group,
			Secret: workspace.SandboxSecret(box.ID, box.Generation), ServiceAccount: "sandbox", UserNamespace: pod.HostUsers != nil,
		}
		if e.Claims, err = admitted.ClaimsOf(pod.Volumes); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for _, s := range pod.ImagePullSecrets {
			e.PullSecrets = append(e.PullSecrets, s.Name)
		}
		for _, a := range pod.HostAliases {
			e.HostGatewayIP = a.IP
		}
		if pod.RuntimeClassName != nil {
			e.RuntimeClass = *pod.RuntimeClassName
		}
		renderer, err := companion.New(settingsFor(t, &o), companion.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := renderer.SupervisorPod(box); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := renderer.RestartTemplate(box, pod.Volumes); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		made := &corev1.Pod{ObjectMeta: o.Template.ObjectMeta, Spec: *pod}
		made.Name, made.Namespace, made.UID = o.Name, o.Namespace, "uid-pod"
		made.OwnerReferences = []metav1.OwnerReference{{APIVersion: o.Version.APIVersion(), Kind: "Sandbox", Name: o.Name, UID: box.UID, Controller: new(true)}}
		made.Spec.Volumes = append(made.Spec.Volumes, corev1.Volume{Name: workspace.ClaimTemplate, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: workspace.WorkspaceClaim(o.Name)},
		}})
		if r := admitted.Check(made, e); !r.Admitted() {
			t.Errorf("%s: %s", path, r)
		}
	}
}

// settingsFor are the settings that the Sandbox can have been rendered with.
func settingsFor(t *testing.T, o *sandboxapi.Object) *driverconf.Kubernetes {
	t.Helper()
	c, err := driverconf.Load(driverconf.Source{})
	if err != nil {
		t.Fatal(err)
	}
	k := &c.Kubernetes
	k.Namespace, k.GatewayID = "sandboxes", o.Labels[workspace.LabelGatewayID]
	k.SupervisorImage, k.GRPCEndpoint = "registry.example/supervisor:1", "https://gateway.example:8080"
	switch o.Namespace {
	case "sandboxes":
	case o.Labels[workspace.LabelSandboxWorkspace]:
		k.WorkspaceMode, k.OperatorNamespaceLabel = driverconf.ModeOperator, new("team=true")
	default:
		k.WorkspaceMode = driverconf.ModeManaged
	}
	return k
}
