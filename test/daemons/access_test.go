package daemons_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/rights"
)

// wrongAccess are what may be wrong with a daemon's way to the API server.
func wrongAccess() []wrong {
	return []wrong{
		{name: "token is missing", breaks: without("token")},
		{name: "token is empty", breaks: holding("token", nil)},
		{name: "token is unreadable", breaks: holding("token", unreadable)},
		{name: "token is two lines", breaks: holding("token", []byte("a\nb"))},
		{name: "token is of nobody", breaks: holding("token", []byte("nobody"))},
		{name: "kubeconfig is missing", breaks: without("kubeconfig")},
		{name: "kubeconfig is garbage", breaks: holding("kubeconfig", []byte("\tx: ["))},
		{name: "API server of another authority", breaks: func(w *ward, f files) { f["api.crt"] = meshtest.NewCA(w.t).PEM }},
	}
}

// right is a verb on a kind of object.
type right struct{ verb, resource string }

// lacking is a daemon whose ServiceAccount has the shipped rights but for one, and a line of its log that names it.
func lacking(verb, resource, says string) wrong {
	return wrong{name: "may not " + verb + " " + resource, lacks: &right{verb, resource}, says: says}
}

// until has something that is done only with the right stand for the gate.
func (w wrong) until(done func(*ward) error) wrong {
	w.yes = done
	return w
}

// home is where the daemon of a case lives: with the others, or in a namespace of its own when it lacks a right there. The gateway is that
// of its Lease, "gw-" and the namespace if it is empty.
func (w *wrong) home(t *testing.T, c *cluster.Cluster, daemon, namespace, gateway string) string {
	t.Helper()
	if w.lacks == nil {
		return namespace
	}
	namespace = c.Namespace(t)
	if gateway == "" {
		gateway = "gw-" + namespace
	}
	rest := grant(t, c, namespace, daemon, gateway, *w.lacks)
	w.mend = func(*ward) { rest() }
	return namespace
}

// grant gives a daemon's ServiceAccount in a namespace the rights that are shipped in operator mode, for a gateway, but for what it is to
// lack, and returns how that is granted too.
func grant(t *testing.T, c *cluster.Cluster, namespace, daemon, gateway string, lacks ...right) (rest func()) {
	t.Helper()
	objects := shipped(t, namespace, daemon, gateway)
	for _, object := range objects {
		resource, err := rights.ResourceOf(object)
		if err != nil {
			t.Fatal(err)
		}
		granted := object.DeepCopy()
		for _, l := range lacks {
			l.takeFrom(granted)
		}
		if _, err := c.Dynamic().Resource(resource).Namespace(object.GetNamespace()).Create(t.Context(), granted, metav1.CreateOptions{}); err != nil {
			t.Fatalf("grant %s its rights: %v", daemon, err)
		}
		if object.GetNamespace() != "" {
			continue // it goes with the namespace
		}
		t.Cleanup(func() {
			if err := c.Dynamic().Resource(resource).Delete(context.WithoutCancel(t.Context()), object.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Errorf("take the rights of %s away: %v", daemon, err)
			}
		})
	}
	return func() {
		t.Helper()
		for _, object := range objects {
			if object.GetKind() != "ClusterRole" && object.GetKind() != "Role" {
				continue
			}
			resource, err := rights.ResourceOf(object)
			if err == nil {
				_, err = c.Dynamic().Resource(resource).Namespace(object.GetNamespace()).Update(t.Context(), object, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Fatalf("grant %s the rest of its rights: %v", daemon, err)
			}
		}
	}
}

// shipped are the objects of a daemon's rights as they are shipped, under the names of a namespace and a gateway.
func shipped(t *testing.T, namespace, daemon, gateway string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := rights.Shipped(filepath.Join("..", "..", "deploy", "kustomize", "base"), "operator", daemon)
	if err != nil {
		t.Fatal(err)
	}
	names := rights.Names{Namespace: namespace, Sandboxes: namespace, GatewayID: gateway}
	for _, object := range objects {
		names.Rename(object)
	}
	return objects
}

// takeFrom takes the right out of a role.
func (r right) takeFrom(role *unstructured.Unstructured) {
	rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
	var left []any
	for _, rule := range rules {
		of := rule.(map[string]any)
		resources, verbs := of["resources"].([]any), of["verbs"].([]any)
		if !slices.Contains(resources, any(r.resource)) || !slices.Contains(verbs, any(r.verb)) {
			left = append(left, rule)
			continue
		}
		for _, resource := range resources {
			for _, verb := range verbs {
				if resource != r.resource || verb != r.verb {
					one := map[string]any{"apiGroups": of["apiGroups"], "resources": []any{resource}, "verbs": []any{verb}}
					if names, limited := of["resourceNames"]; limited {
						one["resourceNames"] = names
					}
					left = append(left, one)
				}
			}
		}
	}
	if len(rules) > 0 {
		role.Object["rules"] = left
	}
}
