package rights

import (
	"fmt"
	"os"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// WithDriverConfig adds to the objects of Shipped or PerWorkspace, for lifecycle, what the component driver-config does, and returns the rules
// that it has added. It goes with allow_driver_config = true.
func WithDriverConfig(manifests string, objects []*unstructured.Unstructured) ([]rbacv1.PolicyRule, error) {
	path := filepath.Join(manifests, "..", "components", "driver-config", "claims.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the rights of component driver-config: %w", err)
	}
	var patch []struct {
		Op, Path string
		Value    map[string]any
	}
	if err := yaml.UnmarshalStrict(text, &patch); err != nil {
		return nil, fmt.Errorf("read the rights in %s: %w", path, err)
	}
	var added []rbacv1.PolicyRule
	for _, object := range objects {
		if object.GetKind() != "ClusterRole" || object.GetName() != shippedNamespace+"-lifecycle" {
			continue
		}
		rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
		for _, p := range patch {
			var rule rbacv1.PolicyRule
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(p.Value, &rule, true); err != nil {
				return nil, fmt.Errorf("read the rights in %s: %w", path, err)
			}
			if p.Op != "add" || p.Path != "/rules/-" {
				return nil, fmt.Errorf("%s does something else than add a rule: %s %s", path, p.Op, p.Path)
			}
			rules, added = append(rules, p.Value), append(added, rule)
		}
		if err := unstructured.SetNestedSlice(object.Object, rules, "rules"); err != nil {
			return nil, fmt.Errorf("add the rights of %s: %w", path, err)
		}
	}
	if len(added) == 0 {
		return nil, fmt.Errorf("the rights of component driver-config: no rule, or no ClusterRole of lifecycle among %d objects", len(objects))
	}
	return added, nil
}
