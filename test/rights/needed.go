package rights

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/portcullis-mesh/portcullis/test/apiproxy"
)

// Ledger is what a daemon has asked the API server for. Make it with Watch. Safe for concurrent use.
type Ledger struct {
	mu     sync.Mutex
	used   map[apiproxy.Use]bool
	denied map[apiproxy.Use]bool
}

// Watch notes what goes through a proxy from now on, and has it answered. It takes the place of whatever fault the proxy had.
func Watch(proxy *apiproxy.Proxy) *Ledger {
	l := &Ledger{used: map[apiproxy.Use]bool{}, denied: map[apiproxy.Use]bool{}}
	proxy.Break(apiproxy.Every, func(w http.ResponseWriter, r *http.Request, _ <-chan struct{}) bool {
		use := apiproxy.UseOf(r)
		proxy.Pass(&answer{w, func(status int) { l.enter(use, status) }}, r)
		return false
	})
	return l
}

// answer tells the status when the answer begins, which for a watch is long before it ends.
type answer struct {
	http.ResponseWriter
	told func(status int)
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.told(status)
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController: a watch is passed on as it comes.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (l *Ledger) enter(use apiproxy.Use, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if status == http.StatusForbidden || status == http.StatusUnauthorized {
		l.denied[use] = true
		return
	}
	l.used[use] = true
}

// Needed demands that what a daemon has used is what its roles grant, right by right: none is left over, nothing was denied, and nothing
// was done by a right that is not theirs. The roles are among the objects, as Shipped has them, renamed.
func (l *Ledger) Needed(objects []*unstructured.Unstructured) error {
	l.mu.Lock()
	used, denied := maps.Clone(l.used), maps.Clone(l.denied)
	l.mu.Unlock()
	return Needed(objects, used, denied, func(Right, string) bool { return false })
}

// Needed is Ledger.Needed for what somebody else has noted. A right that is rare in a namespace, where that is not everywhere, may be left over.
func Needed(objects []*unstructured.Unstructured, used, denied map[apiproxy.Use]bool, rare func(r Right, namespace string) bool) error {
	granted, err := Granted(objects)
	if err != nil {
		return err
	}
	var wrong []string
	for use := range denied {
		wrong = append(wrong, fmt.Sprintf("denied: %+v", use))
	}
	idle := maps.Clone(granted)
	for use := range used {
		if strings.HasPrefix(use.Resource, "/") { // what is about no resource needs no right that could be given
			continue
		}
		if !granted.Covers(use) {
			wrong = append(wrong, fmt.Sprintf("done by a right that these roles do not have: %+v", use))
		}
		maps.DeleteFunc(idle, func(g grant, _ bool) bool { return g.covers(use) })
	}
	for g := range idle {
		if !rare(g.Right, g.namespace) {
			wrong = append(wrong, "granted and never used: "+g.String())
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	return nil
}

// grant is a right that a role gives in a namespace; in every one, and outside of them, when that is empty.
type grant struct {
	Right
	namespace string
}

// String names the namespace, too.
func (g grant) String() string {
	if g.namespace == "" {
		return g.Right.String() + " everywhere"
	}
	return g.Right.String() + " in its namespace"
}

func (g grant) covers(use apiproxy.Use) bool {
	if use.Group == "" && use.Resource == "namespaces" && use.Namespace == "" { // the API server takes a namespace to be in itself
		use.Namespace = use.Name
	}
	return g.Verb == use.Verb && g.Group == use.Group && g.Resource == use.Resource && (g.Name == "" || g.Name == use.Name) &&
		(g.namespace == "" || g.namespace == use.Namespace)
}

// Grants are the rights that roles give, each where it holds. The zero Grants are none.
type Grants map[grant]bool

// Covers reports whether one of them lets somebody do this.
func (g Grants) Covers(use apiproxy.Use) bool {
	for one := range g {
		if one.covers(use) {
			return true
		}
	}
	return false
}

// In are those that hold in a namespace.
func (g Grants) In(namespace string) map[Right]bool {
	all := map[Right]bool{}
	for one := range g {
		if one.namespace == "" || one.namespace == namespace {
			all[one.Right] = true
		}
	}
	return all
}

// Granted are those of the roles among the objects, where their bindings make them hold. None at all is an error.
func Granted(objects []*unstructured.Unstructured) (Grants, error) {
	type role struct{ kind, namespace, name string }
	rules := map[role][]rbacv1.PolicyRule{}
	for _, object := range objects {
		if kind := object.GetKind(); kind == "Role" || kind == "ClusterRole" {
			var has rbacv1.ClusterRole // a Role has the same rules
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &has); err != nil {
				return nil, fmt.Errorf("read %s %s: %w", kind, object.GetName(), err)
			}
			rules[role{kind, object.GetNamespace(), object.GetName()}] = has.Rules
		}
	}
	all := Grants{}
	for _, object := range objects {
		if kind := object.GetKind(); kind != "RoleBinding" && kind != "ClusterRoleBinding" {
			continue
		}
		kind, _, _ := unstructured.NestedString(object.Object, "roleRef", "kind")
		name, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
		of := role{kind, object.GetNamespace(), name}
		if kind == "ClusterRole" {
			of.namespace = ""
		}
		bound, known := rules[of]
		if !known {
			return nil, fmt.Errorf("%s %s binds %s %s, which is not among the objects", object.GetKind(), object.GetName(), kind, name)
		}
		for _, rule := range bound {
			for r := range ofRule(rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames) {
				all[grant{r, object.GetNamespace()}] = true
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the %d objects grant nothing", len(objects))
	}
	return all, nil
}
