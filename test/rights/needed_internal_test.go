package rights

import (
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/test/apiproxy"
)

// asked are the requests of an nswatch that uses all of its rights, and some that need none.
func asked() map[apiproxy.Use]int {
	const home = "portcullis"
	lease := apiproxy.Use{Group: "coordination.k8s.io", Resource: "leases", Namespace: home, Name: "portcullis-nswatch-openshell"}
	as := func(use apiproxy.Use, verb string) apiproxy.Use { use.Verb = verb; return use }
	return map[apiproxy.Use]int{
		{Verb: "list", Resource: "namespaces"}:                                          http.StatusOK,
		{Verb: "watch", Resource: "namespaces"}:                                         http.StatusOK,
		{Verb: "create", Group: lease.Group, Resource: lease.Resource, Namespace: home}: http.StatusCreated,
		as(lease, "get"):    http.StatusNotFound,
		as(lease, "update"): http.StatusOK,
		{Verb: "create", Resource: "events", Namespace: home}:                     http.StatusCreated,
		{Verb: "patch", Resource: "events", Namespace: home, Name: "nswatch-0.1"}: http.StatusOK,
		{Verb: "get", Resource: "/version"}:                                       http.StatusOK,
	}
}

// TestNeeded: what is used and what is granted are compared both ways, by the name and the namespace, too.
func TestNeeded(t *testing.T) {
	objects, err := Shipped(filepath.Join("..", "..", "deploy", "kustomize", "base"), "operator", "nswatch")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		breaks func(uses map[apiproxy.Use]int)
		want   string
	}{
		"right": {func(map[apiproxy.Use]int) {}, ""},
		"a verb is never used": {func(uses map[apiproxy.Use]int) {
			maps.DeleteFunc(uses, func(u apiproxy.Use, _ int) bool { return u.Verb == "watch" })
		}, "granted and never used: watch namespaces everywhere"},
		"a right of its namespace is never used": {func(uses map[apiproxy.Use]int) {
			maps.DeleteFunc(uses, func(u apiproxy.Use, _ int) bool { return u.Resource == "events" && u.Verb == "patch" })
		}, "granted and never used: patch events in its namespace"},
		"a verb is denied": {func(uses map[apiproxy.Use]int) {
			uses[apiproxy.Use{Verb: "get", Resource: "secrets", Namespace: "portcullis", Name: "s"}] = http.StatusForbidden
		}, "denied: {Verb:get Group: Resource:secrets Namespace:portcullis Name:s}"},
		"another's right is used": {func(uses map[apiproxy.Use]int) {
			uses[apiproxy.Use{Verb: "get", Resource: "namespaces", Name: "n"}] = http.StatusOK
		}, "done by a right that these roles do not have: {Verb:get Group: Resource:namespaces Namespace: Name:n}"},
		"another object's": {func(uses map[apiproxy.Use]int) {
			uses[apiproxy.Use{Verb: "get", Group: "coordination.k8s.io", Resource: "leases", Namespace: "portcullis", Name: "other"}] = http.StatusOK
		}, "done by a right that these roles do not have: {Verb:get Group:coordination.k8s.io Resource:leases Namespace:portcullis Name:other}"},
		"another namespace's": {func(uses map[apiproxy.Use]int) {
			uses[apiproxy.Use{Verb: "create", Resource: "events", Namespace: "default"}] = http.StatusCreated
		}, "done by a right that these roles do not have: {Verb:create Group: Resource:events Namespace:default Name:}"},
	} {
		t.Run(name, func(t *testing.T) {
			uses := asked()
			c.breaks(uses)
			l := &Ledger{used: map[apiproxy.Use]bool{}, denied: map[apiproxy.Use]bool{}}
			for use, status := range uses {
				l.enter(use, status)
			}
			got := ""
			if err := l.Needed(objects); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("says %q, want %q", got, c.want)
			}
		})
	}
	for name, objects := range map[string][]*unstructured.Unstructured{"nothing": nil, "a binding without its role": objects[2:3]} {
		if err := (&Ledger{}).Needed(objects); err == nil || strings.Contains(err.Error(), "never used") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGrants: a right holds where it is given; of a namespace itself that is in it, as the API server takes it.
func TestGrants(t *testing.T) {
	granted := Grants{
		{Right{"get", "", "namespaces", ""}, "team"}:             true,
		{Right{"get", "", "secrets", "source"}, "home"}:          true,
		{Right{"list", "", "nodes", ""}, ""}:                     true,
		{Right{"patch", "agents.x-k8s.io", "sandboxes", ""}, ""}: true,
	}
	for name, c := range map[string]struct {
		use  apiproxy.Use
		want bool
	}{
		"its namespace":       {apiproxy.Use{Verb: "get", Resource: "namespaces", Name: "team"}, true},
		"another namespace":   {apiproxy.Use{Verb: "get", Resource: "namespaces", Name: "other"}, false},
		"the named one":       {apiproxy.Use{Verb: "get", Resource: "secrets", Namespace: "home", Name: "source"}, true},
		"another name":        {apiproxy.Use{Verb: "get", Resource: "secrets", Namespace: "home", Name: "other"}, false},
		"that name, not here": {apiproxy.Use{Verb: "get", Resource: "secrets", Namespace: "team", Name: "source"}, false},
		"everywhere":          {apiproxy.Use{Verb: "list", Resource: "nodes"}, true},
		"another verb":        {apiproxy.Use{Verb: "watch", Resource: "nodes"}, false},
		"another group":       {apiproxy.Use{Verb: "patch", Resource: "sandboxes", Namespace: "team", Name: "box"}, false},
		"in any namespace":    {apiproxy.Use{Verb: "patch", Group: "agents.x-k8s.io", Resource: "sandboxes", Namespace: "team", Name: "box"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if have := granted.Covers(c.use); have != c.want {
				t.Errorf("covered is %t, want %t", have, c.want)
			}
		})
	}
	for namespace, want := range map[string]int{"team": 3, "home": 3, "other": 2} {
		if have := granted.In(namespace); len(have) != want {
			t.Errorf("in %s there are %v", namespace, have)
		}
	}
}

// TestNeededButRarely: a right of which that is said may be left over, and may be used.
func TestNeededButRarely(t *testing.T) {
	objects, err := Shipped(filepath.Join("..", "..", "deploy", "kustomize", "base"), "operator", "nswatch")
	if err != nil {
		t.Fatal(err)
	}
	used := map[apiproxy.Use]bool{}
	for use := range asked() {
		if use.Resource != "events" {
			used[use] = true
		}
	}
	events := func(r Right, namespace string) bool { return r.Resource == "events" && namespace == "portcullis" }
	if err := Needed(objects, used, nil, events); err != nil {
		t.Error(err)
	}
	if err := Needed(objects, used, nil, func(Right, string) bool { return false }); err == nil || strings.Count(err.Error(), "never used") != 2 {
		t.Errorf("says %v", err)
	}
}

// TestSources: the rights to read Secrets are those that are shipped, to the Secrets that are named and where they are.
func TestSources(t *testing.T) {
	manifests := filepath.Join("..", "..", "deploy", "kustomize", "base")
	as := Names{Namespace: "mesh", Sandboxes: "boxes", GatewayID: "gw"}
	for _, mode := range []string{"managed", "operator"} {
		objects, err := Sources(manifests, mode, "theirs", []string{"a", "b"}, as)
		if err != nil {
			t.Fatal(err)
		}
		granted, err := Granted(objects)
		if err != nil {
			t.Fatal(err)
		}
		want := Grants{{Right{"get", "", "secrets", "a"}, "theirs"}: true, {Right{"get", "", "secrets", "b"}, "theirs"}: true}
		if !maps.Equal(want, granted) {
			t.Errorf("%s mode grants %v", mode, granted)
		}
		for _, object := range objects {
			subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
			for _, subject := range subjects {
				if s := subject.(map[string]any); s["namespace"] != "mesh" || s["name"] != "supervisorctl" {
					t.Errorf("%s mode grants it to %v", mode, s)
				}
			}
		}
	}
	if _, err := Sources(manifests, "shared", "theirs", []string{"a"}, as); err == nil {
		t.Error("in shared mode nothing is shipped, and nothing is said")
	}
}
