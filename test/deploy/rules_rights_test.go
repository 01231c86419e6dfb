package deploy_test

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// meshAccounts are those of the mesh, for what is installed beside it.
var meshAccounts = []string{"portcullis/nswatch", "portcullis/tokenauth", "portcullis/supervisorctl", "portcullis/lifecycle"}

// bindingsBind: what is bound is there, and so is whom it is bound to; no role is left over.
func bindingsBind(w *deploy.World) (found breaches) {
	roles, bound := map[string]bool{}, map[string]bool{}
	for _, r := range w.Roles {
		roles[r.Namespace+"/"+r.Name] = true
	}
	accounts := map[string]bool{}
	for _, a := range w.Accounts {
		accounts[a.Namespace+"/"+a.Name] = true
	}
	for _, b := range w.Bindings {
		role := "/" + b.Ref.Name
		if b.Ref.Kind == "Role" {
			role = b.Namespace + role
		}
		bound[role] = true
		if !roles[role] {
			found.add("binding %s binds %s, which is not there", b.Name, role)
		}
		for _, s := range b.Subjects {
			elsewhere := len(w.Pods) == 0 && slices.Contains(meshAccounts, s.Namespace+"/"+s.Name)
			if s.Kind != "ServiceAccount" || !accounts[s.Namespace+"/"+s.Name] && !elsewhere {
				found.add("binding %s is for %s %s/%s, which is not there", b.Name, s.Kind, s.Namespace, s.Name)
			}
		}
	}
	for role := range roles {
		if !bound[role] {
			found.add("role %s is bound to nobody", role)
		}
	}
	return found
}

// rightsAreNarrow: no right for everything, and no Secret is read but by its name.
func rightsAreNarrow(w *deploy.World) (found breaches) {
	for _, r := range w.Roles {
		for _, rule := range r.Rules {
			if slices.Contains(slices.Concat(rule.Verbs, rule.APIGroups, rule.Resources), "*") {
				found.add("role %s grants *", r.Name)
			}
			if len(rule.NonResourceURLs) > 0 {
				found.add("role %s grants paths that are no resources, %v", r.Name, rule.NonResourceURLs)
			}
			reads := slices.ContainsFunc(rule.Verbs, func(verb string) bool {
				return slices.Contains([]string{"get", "list", "watch", "update", "patch"}, verb)
			})
			if slices.Contains(rule.Resources, "secrets") && reads && (len(rule.ResourceNames) == 0 || r.Namespace == "") {
				found.add("role %s grants Secrets that it does not name", r.Name)
			}
			for _, never := range []string{"pods/exec", "pods/attach", "pods/portforward", "sandboxes/finalizers", "serviceaccounts/token"} {
				if slices.Contains(rule.Resources, never) {
					found.add("role %s grants %s", r.Name, never)
				}
			}
		}
	}
	return found
}

// empty reports what a rendering is not to have: nothing, or a list of nothing.
func empty(value any) bool {
	list, ok := value.([]any)
	return value == nil || ok && len(list) == 0
}

// listsAreFull: a rendered list has something in it: an empty one means nothing here and everything there.
func listsAreFull(w *deploy.World) (found breaches) {
	var walk func(object *unstructured.Unstructured, path string, value any)
	walk = func(object *unstructured.Unstructured, path string, value any) {
		if empty(value) {
			found.add("%s of %s %s is empty", path, object.GetKind(), object.GetName())
		}
		switch v := value.(type) {
		case map[string]any:
			for key, inner := range v {
				walk(object, path+"."+key, inner)
			}
		case []any:
			for _, inner := range v {
				walk(object, path+"[]", inner)
			}
		}
	}
	for _, object := range w.Objects {
		walk(object, "", object.Object)
	}
	return found
}

// namesAreWhole: every object is of a namespace of ours or of none, and none is there twice.
func namesAreWhole(w *deploy.World) (found breaches) {
	seen := map[string]bool{}
	for _, object := range w.Objects {
		name := object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
		if seen[name] {
			found.add("%s is there twice", name)
		}
		seen[name] = true
		for key := range object.GetLabels() {
			if strings.HasPrefix(key, "kustomize") {
				found.add("%s has a label of kustomize, %s", name, key)
			}
		}
	}
	return found
}
