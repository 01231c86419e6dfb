package rights_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/rights"
)

// subject is a resource that daemons are asked about.
type subject struct {
	resource   schema.GroupVersionResource
	kind       string
	namespaced bool
	// names are those that some right is limited to.
	names []string
}

// powerful are resources that nobody has, and that would make a daemon powerful.
var powerful = [][2]string{
	{"", "configmaps"},
	{"", "nodes"},
	{"", "persistentvolumeclaims"},
	{"", "persistentvolumes"},
	{"", "serviceaccounts"},
	{"apps", "deployments"},
	{"rbac.authorization.k8s.io", "rolebindings"},
	{"rbac.authorization.k8s.io", "clusterrolebindings"},
	{"rbac.authorization.k8s.io", "clusterroles"},
	{"admissionregistration.k8s.io", "validatingadmissionpolicies"},
	{"admissionregistration.k8s.io", "mutatingwebhookconfigurations"},
	{"certificates.k8s.io", "certificatesigningrequests"},
	{"apiextensions.k8s.io", "customresourcedefinitions"},
}

// subjects are the resources that anybody has a right to, and those that are powerful.
func subjects(t *testing.T, c *cluster.Cluster, held map[rights.Holder]map[rights.Right]bool) []subject {
	t.Helper()
	names := map[[2]string][]string{}
	for _, of := range powerful {
		names[of] = nil
	}
	for _, set := range held {
		for r := range set {
			if strings.Contains(r.Resource, "/") {
				t.Errorf("a right to a part of a resource, or to a path, is more than this test can ask: %v", r)
				continue
			}
			of := [2]string{r.Group, r.Resource}
			if names[of] = append(names[of], r.Name); r.Name == "" {
				names[of] = names[of][:len(names[of])-1]
			}
		}
	}
	_, lists, err := c.Client().Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var all []subject
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			of := [2]string{version.Group, r.Name}
			if limited, ask := names[of]; ask {
				slices.Sort(limited)
				all = append(all, subject{version.WithResource(r.Name), r.Kind, r.Namespaced, slices.Compact(limited)})
				delete(names, of)
			}
		}
	}
	if len(names) > 0 {
		t.Errorf("the API server has no such resources: %v", names)
	}
	return all
}

// demandAnswers makes a request for each verb, on objects of each name that a right is limited to and on another, and demands that it is
// let through or forbidden as the rights say: those in the namespace, or everywhere for what is in none.
func demandAnswers(t *testing.T, client dynamic.Interface, of subject, daemon, namespace string, here, everywhere map[rights.Right]bool) {
	t.Helper()
	var resource dynamic.ResourceInterface = client.Resource(of.resource)
	set, names := everywhere, append(slices.Clone(of.names), "some-other")
	if of.namespaced {
		resource, set = client.Resource(of.resource).Namespace(namespace), here
	}
	for _, verb := range rights.Verbs {
		single := slices.Contains([]string{"get", "update", "patch", "delete"}, verb)
		set, names := set, names
		if of.resource.Resource == "namespaces" && single { // the API server takes a namespace to be in itself
			set, names = here, []string{namespace}
		}
		for _, name := range names {
			err := request(t.Context(), resource, of, verb, name)
			covered := name
			if !single {
				covered = ""
			}
			want := rights.Allows(set, verb, of.resource.Group, of.resource.Resource, covered)
			if forbidden := unauthorized(err, verb); forbidden == want {
				t.Errorf("%s in namespace %s, %s %s %q: forbidden is %t, want %t (%v)", daemon, namespace, verb, of.resource.Resource, name, forbidden, !want, err)
			}
		}
	}
}

// unauthorized reports whether RBAC refused a request. What is let through may still be refused by admission, or find nothing.
func unauthorized(err error, verb string) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), fmt.Sprintf("cannot %s resource", verb))
}

// request does nothing that stays.
func request(ctx context.Context, resource dynamic.ResourceInterface, of subject, verb, name string) error {
	dry := []string{metav1.DryRunAll}
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(of.resource.GroupVersion().String())
	object.SetKind(of.kind)
	object.SetName(name)
	object.SetResourceVersion("1")
	none := metav1.ListOptions{FieldSelector: "metadata.name=" + name, Limit: 1}
	var err error
	switch verb {
	case "get":
		_, err = resource.Get(ctx, name, metav1.GetOptions{})
	case "list":
		_, err = resource.List(ctx, none)
	case "watch":
		changes, failed := resource.Watch(ctx, none)
		if err = failed; err == nil {
			changes.Stop()
		}
	case "create":
		object.SetResourceVersion("")
		_, err = resource.Create(ctx, object, metav1.CreateOptions{DryRun: dry})
	case "update":
		_, err = resource.Update(ctx, object, metav1.UpdateOptions{DryRun: dry})
	case "patch":
		_, err = resource.Patch(ctx, name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{DryRun: dry})
	case "delete":
		err = resource.Delete(ctx, name, metav1.DeleteOptions{DryRun: dry})
	case "deletecollection":
		err = resource.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: dry}, none)
	}
	return err
}
