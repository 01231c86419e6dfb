package deploy_test

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// downward are the variables by which a daemon knows its Pod.
var downward = map[string]string{"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}

// podsTell: a daemon can tell by Events on its own Pod why it is not ready: it knows the Pod, and may write Events in its namespace. The
// relay, which has no rights at all, and what runs a command, tell nothing.
func podsTell(w *deploy.World) (found breaches) {
	for _, p := range w.Pods {
		for _, c := range containers(p) {
			_, program, _ := imageOf(c)
			if !slices.Contains(daemons, program) || !stays(p, c) || len(c.Args) == 0 || c.Args[0] != "--config" {
				continue
			}
			for name, field := range downward {
				if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
					return e.Name == name && e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == field
				}) {
					found.add("container %s of %s does not know its Pod: %s is not %s", c.Name, p.Workload, name, field)
				}
			}
			if !mayTell(w, p) {
				found.add("%s may not write Events about itself", p.Workload)
			}
		}
	}
	return found
}

// mayTell reports whether a Role lets the Pod's account write Events in the Pod's namespace.
func mayTell(w *deploy.World, p deploy.Pod) bool {
	for _, b := range w.Bindings {
		if b.Namespace != p.Namespace || b.Ref.Kind != "Role" || !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool {
			return s.Name == p.Spec.ServiceAccountName && s.Namespace == p.Namespace
		}) {
			continue
		}
		for _, r := range w.Roles {
			if r.Namespace != p.Namespace || r.Name != b.Ref.Name {
				continue
			}
			for _, rule := range r.Rules {
				if slices.Contains(rule.Resources, "events") && slices.Contains(rule.Verbs, "create") && slices.Contains(rule.Verbs, "patch") {
					return true
				}
			}
		}
	}
	return false
}
