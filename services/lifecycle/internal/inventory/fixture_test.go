package inventory_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/inventory"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// loaded are the settings without a file.
var loaded = sync.OnceValues(func() (*driverconf.Config, error) { return driverconf.Load(driverconf.Source{}) })

// world is a rendered Sandbox, as it stands in a cluster, and what it is judged by.
type world struct {
	settings driverconf.Kubernetes
	pod      *corev1.PodTemplateSpec
	own      inventory.Own
}

// base is the rendering of package template with every option.
func base(t testing.TB) *world {
	t.Helper()
	c, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "template", "testdata", "everything.json"))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	u.SetUID("uid-sandbox")
	object, err := sandboxapi.ObjectFrom(u)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{settings: c.Kubernetes, pod: &object.Template}
	w.settings.ServiceAccountName = "sandbox"
	w.settings.HostGatewayIP = "192.0.2.1"
	w.settings.AllowedExtendedResources = []string{"example.com/fpga"}
	w.own = inventory.Own{
		Namespace: object.Namespace, ObjectName: object.Name, SandboxID: object.Labels["openshell.ai/sandbox-id"],
		Generation: object.Annotations["openshell.ai/sandbox-runtime-generation"], PullSecrets: []string{"registry-a"},
	}
	return w
}

func (w *world) policy(t testing.TB) *inventory.Policy {
	t.Helper()
	p, err := inventory.New(&w.settings)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (w *world) agent() *corev1.Container { return &w.pod.Spec.Containers[0] }
