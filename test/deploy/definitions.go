package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clientset "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// foreign are the definitions of other projects that manifests use: the module that has each, and where in it. The modules are pinned
// by the module crds, which holds nothing else.
var foreign = []struct{ module, file string }{
	{"github.com/cert-manager/cert-manager", "deploy/crds/cert-manager.io_certificates.yaml"},
	{"github.com/cert-manager/cert-manager", "deploy/crds/cert-manager.io_issuers.yaml"},
	{"github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"},
	{"github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"},
	{"github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"},
}

// establishedWithin is a bound, and no claim.
const establishedWithin = time.Minute

// DefineForeign makes the cluster know the kinds of other projects that the manifests use, and returns when it serves them. What is there
// stays. root is the repository.
func DefineForeign(ctx context.Context, config *rest.Config, root string) error {
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("reach the cluster's definitions: %w", err)
	}
	definitions := client.ApiextensionsV1().CustomResourceDefinitions()
	for _, d := range foreign {
		definition, err := readDefinition(ctx, root, d.module, d.file)
		if err != nil {
			return err
		}
		if _, err := definitions.Create(ctx, definition, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("define %s: %w", definition.Name, err)
		}
		err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, establishedWithin, true, func(ctx context.Context) (bool, error) {
			now, err := definitions.Get(ctx, definition.Name, metav1.GetOptions{})
			return err == nil && established(now), nil
		})
		if err != nil {
			return fmt.Errorf("wait until the cluster serves %s: %w", definition.Name, err)
		}
	}
	return nil
}

func established(d *apiextensions.CustomResourceDefinition) bool {
	for _, c := range d.Status.Conditions {
		if c.Type == apiextensions.Established {
			return c.Status == apiextensions.ConditionTrue
		}
	}
	return false
}

// readDefinition reads a definition out of the module cache.
func readDefinition(ctx context.Context, root, module, file string) (*apiextensions.CustomResourceDefinition, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	command.Dir = filepath.Join(root, "test", "deploy", "crds")
	command.Env = append(os.Environ(), "GOWORK=off")
	out, err := command.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return nil, fmt.Errorf("find module %s: %w: %s", module, err, failed.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("find module %s: %w", module, err)
	}
	var cached struct{ Dir string }
	if err := json.Unmarshal(out, &cached); err != nil {
		return nil, fmt.Errorf("find module %s: %w", module, err)
	}
	text, err := os.ReadFile(filepath.Join(cached.Dir, filepath.FromSlash(file)))
	if err != nil {
		return nil, fmt.Errorf("read a definition of %s: %w", module, err)
	}
	definition := new(apiextensions.CustomResourceDefinition)
	if err := yaml.Unmarshal(text, definition); err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", file, module, err)
	}
	return definition, nil
}
