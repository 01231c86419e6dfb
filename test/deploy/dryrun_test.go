package deploy_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/crd"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/deploy"
)

// site is a cluster that knows every kind that manifests use, and warns aloud.
type site struct {
	*cluster.Cluster
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func newSite(t *testing.T) *site {
	t.Helper()
	c := cluster.Start(t, cluster.ControlPlane)
	if err := crd.Install(t.Context(), c.RESTConfig(), crd.V1beta1); err != nil {
		t.Fatal(err)
	}
	if err := deploy.DefineForeign(t.Context(), c.RESTConfig(), root); err != nil {
		t.Fatal(err)
	}
	return &site{Cluster: c, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Client().Discovery()))}
}

// apply applies an object as the server would, says yes to no field that its kind does not have, and keeps nothing.
func (s *site) apply(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = s.Dynamic().Resource(mapping.Resource).Namespace(object.GetNamespace()).Patch(ctx, object.GetName(), types.ApplyPatchType, text, metav1.PatchOptions{
		FieldManager: "deploy-test", DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
		Force: new(true), // others on the server may have something of the same name
	})
	return err
}

// place makes a namespace of this test for each that the objects are in, with the labels that it is rendered with, and moves the objects
// there: a dry run keeps no namespace, so that there would be none to be in.
func (s *site) place(t *testing.T, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	labels := map[string]map[string]string{}
	for _, o := range objects {
		if o.GetKind() == "Namespace" {
			labels[o.GetName()] = o.GetLabels()
		}
	}
	names := map[string]string{}
	var moved []*unstructured.Unstructured
	for _, o := range objects {
		o = o.DeepCopy()
		if from := o.GetNamespace(); from != "" {
			if names[from] == "" {
				names[from] = s.Namespace(t, labels[from])
			}
			o.SetNamespace(names[from])
		}
		moved = append(moved, o)
	}
	return moved
}

// TestServerTakesEverything: the real API server takes each object of each kustomization, strictly; and what workloads make, in a
// namespace that admits the strictest Pods only.
func TestServerTakesEverything(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, rendering := range rendered(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := s.place(t, rendering.Objects)
			for _, object := range objects {
				if err := s.apply(t.Context(), object); err != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
			}
			w := survey(t, objects)
			for _, a := range w.Accounts {
				if _, err := s.Client().CoreV1().ServiceAccounts(a.Namespace).Create(t.Context(), &a, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
					t.Fatal(err)
				}
			}
			for _, p := range w.Pods {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Labels: maps.Clone(p.Labels)}, Spec: p.Spec}
				// What a StatefulSet adds to each of its Pods.
				for _, c := range containers(p) {
					for _, m := range c.VolumeMounts {
						if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
							pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: m.Name})
						}
					}
				}
				_, err := s.Client().CoreV1().Pods(p.Namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
				if err != nil {
					t.Errorf("the Pods of %s: %v", p.Workload, err)
				}
			}
		})
	}
}

// TestServerIsStrict: what TestServerTakesEverything rests on: a field that a kind does not have is refused, and so is a Pod that is not
// restricted where the namespace says so.
func TestServerIsStrict(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tests := map[string]struct {
		breaks func([]*unstructured.Unstructured) bool
		kind   string
		want   string
	}{
		"field":      {at("Deployment", "tokenauth", "x", spec, template, spec, "nosuchfield"), "Deployment", "nosuchfield"},
		"type":       {at("Deployment", "tokenauth", "many", spec, "replicas"), "Deployment", "replicas"},
		"definition": {at("NetworkPolicy", "tokenauth", "x", spec, "egres"), "NetworkPolicy", "egres"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := s.place(t, rendered(t)["operator-label"].Objects)
			if !test.breaks(objects) {
				t.Fatal("there is nothing to break")
			}
			i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == test.kind && o.GetName() == "tokenauth" })
			if err := s.apply(t.Context(), objects[i]); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the server says %v, and nothing of %s", err, test.want)
			}
		})
	}
}
