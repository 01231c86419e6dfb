package companion_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// TestReplayL06TheLongestNames: no companion is named by what a user calls the sandbox, so that such a name may be as long as a label
// value. Names come from the id, and only as much of the generation is in them as there is room for.
func TestReplayL06TheLongestNames(t *testing.T) {
	w := base(t)
	w.settings.ImagePullSecrets = []string{"registry"}
	w.in(driverconf.ModeManaged)
	w.sandbox.Name = strings.Repeat("n", 63)
	w.sandbox.ObjectName = w.sandbox.Name
	w.sandbox.ID = strings.Repeat("i", workspace.MaxSandboxID)
	w.sandbox.Generation = strings.Repeat("g", 64)
	r, names := w.renderer(t), []string{}
	service, pod := w.service(t), w.pod(t)
	names = append(names, service.Name, pod.Name)
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret != nil {
			names = append(names, volume.Secret.SecretName)
		}
	}
	for _, reference := range pod.Spec.ImagePullSecrets {
		names = append(names, reference.Name)
	}
	secret, err := r.SandboxSecret(w.sandbox, workload(), sandboxFiles())
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, secret.Name)
	if len(names) < 5 {
		t.Fatalf("only %v", names)
	}
	for _, name := range names {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 || strings.Contains(name, "nn") {
			t.Errorf("%s: %v", name, problems)
		}
	}
}
