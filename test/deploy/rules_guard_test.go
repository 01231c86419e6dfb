package deploy_test

import (
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// fence is what the policy on the daemons' writes says, of one component or the other; the zero fence is none, or one that is not in force.
type fence struct {
	// label is the label of allowed namespaces, as key=value; gateway is whose namespaces are allowed in managed mode.
	label, gateway string
	// bound is the expression that says whose writes are meant, of is which.
	bound string
	of    []admissionv1.NamedRuleWithOperations
}

// judges reports whether all writes to a resource are judged by the policy.
func (f fence) judges(group, resource string) bool {
	return slices.ContainsFunc(f.of, func(r admissionv1.NamedRuleWithOperations) bool {
		all := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete}
		return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Equal(r.APIVersions, []string{"*"}) &&
			len(r.ResourceNames) == 0 && slices.Equal(r.Operations, all)
	})
}

// unbounded are what the daemons may write in every namespace and no policy judges: a review, and what they tell about Sandboxes.
var unbounded = []string{"tokenreviews", "events"}

// writesAreGuarded: where a label or the gateway's name says which namespaces may hold sandboxes, the API server holds the daemons to just
// these; otherwise there is no such policy, since it would refuse every write, and no right to write in every namespace either.
func writesAreGuarded(w *deploy.World) (found breaches) {
	guard := guardIn(w, &found)
	for _, c := range w.ConfigMaps {
		tree := map[string]any{}
		text, ok := c.Data["gateway.toml"]
		if !ok {
			continue
		}
		if err := toml.Unmarshal([]byte(text), &tree); err != nil {
			found.add("the settings in %s: %v", c.Name, err)
			continue
		}
		label, _ := value(tree, "openshell.drivers.kubernetes.operator_namespace_label").(string)
		if label != guard.label {
			found.add("operator_namespace_label in %s is %q, and the daemons may write in namespaces with %q", c.Name, label, guard.label)
		}
		gateway, _ := value(tree, "openshell.drivers.kubernetes.gateway_id").(string)
		if value(tree, "openshell.drivers.kubernetes.workspace_mode") == "managed" && gateway != guard.gateway {
			found.add("gateway_id in %s is %q, and the daemons may write in namespaces of gateway %q", c.Name, gateway, guard.gateway)
		}
	}
	found = append(found, writesAreFew(w, guard)...)
	if guard.bound == "" {
		return found
	}
	for _, p := range w.Pods {
		// As the API server calls whoever runs there.
		account := p.Spec.ServiceAccountName
		if slices.Contains(daemons, strings.TrimPrefix(p.Workload, "Deployment ")) &&
			!(strings.Contains(guard.bound, "'system:serviceaccount:"+p.Namespace+":'") && strings.Contains(guard.bound, "'"+account+"'")) {
			found.add("the policy on writes does not mean ServiceAccount %s of namespace %s, as which %s runs", account, p.Namespace, p.Workload)
		}
	}
	return found
}

// writesAreFew: what somebody may write in all namespaces at once is bounded by the policy.
func writesAreFew(w *deploy.World, guard fence) (found breaches) {
	for _, b := range w.Bindings {
		for _, r := range w.Roles {
			if b.Namespace != "" || r.Namespace != "" || r.Name != b.Ref.Name {
				continue
			}
			for _, rule := range r.Rules {
				if !slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) }) {
					continue
				}
				for _, resource := range rule.Resources {
					for _, group := range rule.APIGroups {
						if !slices.Contains(unbounded, resource) && !guard.judges(group, resource) {
							found.add("role %s lets %s be written in every namespace, and no policy bounds it", r.Name, resource)
						}
					}
				}
			}
		}
	}
	return found
}

// guardIn is the policy of a component write-guard* that is in force.
func guardIn(w *deploy.World, found *breaches) (guard fence) {
	const name = "portcullis-daemon-writes"
	bound, refuses := false, false
	for _, object := range w.Objects {
		if object.GetName() != name {
			continue
		}
		switch object.GetKind() {
		case "ValidatingAdmissionPolicyBinding":
			var b admissionv1.ValidatingAdmissionPolicyBinding
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &b, true); err != nil {
				found.add("binding %s: %v", name, err)
			}
			bound = b.Spec.PolicyName == name && b.Spec.MatchResources == nil && slices.Contains(b.Spec.ValidationActions, admissionv1.Deny)
		case "ValidatingAdmissionPolicy":
			var p admissionv1.ValidatingAdmissionPolicy
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &p, true); err != nil {
				found.add("policy %s: %v", name, err)
			}
			words := map[string]string{}
			for _, v := range p.Spec.Variables {
				words[v.Name] = strings.Trim(v.Expression, "'")
			}
			if guard.gateway = words["gateway"]; guard.gateway == "" {
				guard.label = words["label"] + "=" + words["allowed"]
			}
			for _, c := range p.Spec.MatchConditions {
				guard.bound += c.Expression
			}
			if m := p.Spec.MatchConstraints; m != nil && m.NamespaceSelector == nil && m.ObjectSelector == nil && len(m.ExcludeResourceRules) == 0 {
				guard.of = m.ResourceRules
			}
			refuses = p.Spec.FailurePolicy != nil && *p.Spec.FailurePolicy == admissionv1.Fail
		}
	}
	if !bound || !refuses {
		return fence{}
	}
	return guard
}

// nothingIsVouchedFor: what is shipped does not claim of a cluster that it does not know that its network plug-in enforces policies (bug
// corpus P09); that is for its operator to say, or for canary Pods to find out.
func nothingIsVouchedFor(w *deploy.World) (found breaches) {
	for _, c := range w.ConfigMaps {
		tree := map[string]any{}
		if err := toml.Unmarshal([]byte(c.Data["gateway.toml"]), &tree); err != nil {
			found.add("the settings in %s: %v", c.Name, err)
		}
		claimed := value(tree, "openshell.drivers.kubernetes.sandbox_runtime.network_policy_enforced") == true
		if claimed && value(tree, "portcullis.supervisorctl.fence_probe") != "require" {
			found.add("%s says that policies are enforced, without a look", c.Name)
		}
	}
	return found
}
