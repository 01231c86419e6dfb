package deploy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/portcullis-mesh/portcullis/test/cluster"
)

const (
	allowLabel = "openshell.ai/sandboxes"
	approvers  = "openshell:namespace-approvers"
)

// guard is the component allow-label-guard on the real API server, for a label and a mesh namespace of this test alone: others run on the
// same server.
type guard struct {
	*site
	mesh, label string
}

// newGuard installs it; edits are pairs of what is in the text of a policy and what is there instead.
func newGuard(t *testing.T, edits ...string) *guard {
	t.Helper()
	s := newSite(t)
	g := &guard{site: s, mesh: s.Namespace(t)}
	g.label = allowLabel + "-" + g.mesh
	var matched, edited int
	for _, object := range rendered(t)["guarded"].Objects {
		if object.GroupVersionKind().Group != admissionv1.GroupName {
			continue
		}
		matched++
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		own := strings.NewReplacer("'"+allowLabel+"'", "'"+g.label+"'", "serviceaccount:portcullis:", "serviceaccount:"+g.mesh+":",
			"portcullis-allow-label", "allow-label-"+g.mesh, "portcullis-daemon-writes", "daemon-writes-"+g.mesh).Replace(string(text))
		if own == string(text) {
			t.Fatalf("%s %s is not this test's own", object.GetKind(), object.GetName())
		}
		changed := strings.NewReplacer(edits...).Replace(own)
		if changed != own {
			edited++
		}
		g.create(t, changed)
	}
	if len(edits) > 0 && edited == 0 {
		t.Fatalf("there is nothing to edit: %q", edits)
	}
	if matched != 4 {
		t.Fatalf("the component has %d objects of admission, not 4", matched)
	}
	return g
}

func (g *guard) create(t *testing.T, text string) {
	t.Helper()
	policies := g.Client().AdmissionregistrationV1()
	if strings.Contains(text, "kind: ValidatingAdmissionPolicyBinding") {
		var b admissionv1.ValidatingAdmissionPolicyBinding
		if err := yaml.UnmarshalStrict([]byte(text), &b); err != nil {
			t.Fatal(err)
		}
		made, err := policies.ValidatingAdmissionPolicyBindings().Create(t.Context(), &b, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { g.remove(t, policies.ValidatingAdmissionPolicyBindings().Delete, made.Name) })
		return
	}
	var p admissionv1.ValidatingAdmissionPolicy
	if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	made, err := policies.ValidatingAdmissionPolicies().Create(t.Context(), &p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.remove(t, policies.ValidatingAdmissionPolicies().Delete, made.Name) })
	// The controller of the API server types each expression against the kinds that it is about.
	cluster.Eventually(t, "the policy is type-checked", func(ctx context.Context) error {
		now, err := policies.ValidatingAdmissionPolicies().Get(ctx, made.Name, metav1.GetOptions{})
		if err != nil || now.Status.TypeChecking == nil {
			return fmt.Errorf("not yet: %w", err)
		}
		if len(now.Status.TypeChecking.ExpressionWarnings) > 0 {
			t.Errorf("%s: %v", made.Name, now.Status.TypeChecking.ExpressionWarnings)
		}
		return nil
	})
}

func (g *guard) remove(t *testing.T, remove func(context.Context, string, metav1.DeleteOptions) error, name string) {
	t.Helper()
	if err := remove(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// as is a client that acts as somebody who may do everything else: an administrator, whose groups are those given.
func (g *guard) as(t *testing.T, user string, groups ...string) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(g.config(user, groups...))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (g *guard) config(user string, groups ...string) *rest.Config {
	config := g.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append([]string{"system:masters"}, groups...)}
	return config
}

// forbidden demands the guard's own refusal, which says what to do.
func forbidden(t *testing.T, what string, err error, want ...string) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Errorf("%s: %v, and not forbidden", what, err)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
}

func labelled(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// awaitLabel waits until the guard of the label is in force.
func (g *guard) awaitLabel(t *testing.T) {
	t.Helper()
	other := g.as(t, "somebody").CoreV1().Namespaces()
	cluster.Eventually(t, "the guard of the label is in force", func(ctx context.Context) error {
		namespace := labelled(g.mesh+"-x", map[string]string{g.label: "allowed"})
		if _, err := other.Create(ctx, namespace, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the label was set: %w", err)
		}
		return nil
	})
}

// awaitWrites waits until the guard of the daemons' writes is in force, which lets nothing be made in a namespace without the label.
func (g *guard) awaitWrites(t *testing.T, namespace string) {
	t.Helper()
	daemon := g.as(t, "system:serviceaccount:"+g.mesh+":supervisorctl").CoreV1()
	cluster.Eventually(t, "the guard of writes is in force", func(ctx context.Context) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
		if _, err := daemon.Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a Secret was made: %w", err)
		}
		return nil
	})
}

// TestGuardNeedsAllOfIt: what the policies have beside the obvious is needed: without it the label can be set, or a run not be ended.
func TestGuardNeedsAllOfIt(t *testing.T) {
	t.Parallel()
	all := []string{metav1.DryRunAll}
	patch := func(g *guard, sub ...string) error {
		label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"allowed"}}}`, g.label)
		_, err := g.as(t, "somebody").CoreV1().Namespaces().Patch(t.Context(), g.mesh, types.MergePatchType, label, metav1.PatchOptions{DryRun: all}, sub...)
		return err
	}
	tests := map[string]struct {
		edit, instead string
		attempt       func(*testing.T, *guard) error
		goes          bool
	}{
		"the status takes labels": {"      - namespaces/status\n", "", func(_ *testing.T, g *guard) error { return patch(g, "status") }, true},
		"finalize takes labels": {"      - namespaces/finalize\n", "", func(t *testing.T, g *guard) error {
			now, err := g.Client().CoreV1().Namespaces().Get(t.Context(), g.mesh, metav1.GetOptions{})
			if err != nil {
				return err
			}
			now.Labels[g.label] = "allowed"
			_, err = g.as(t, "somebody").CoreV1().Namespaces().Finalize(t.Context(), now, metav1.UpdateOptions{DryRun: all})
			return err
		}, true},
		"updates set labels": {"      - UPDATE\n      resources:\n      - namespaces\n", "      resources:\n      - namespaces\n", func(_ *testing.T, g *guard) error { return patch(g) }, true},
		"what is theirs must be ended": {"variables.trusted || variables.ours", "variables.trusted", func(t *testing.T, g *guard) error {
			g.awaitWrites(t, g.mesh)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: map[string]string{"openshell.ai/managed-by": "openshell"}}}
			if _, err := g.Client().CoreV1().Secrets(g.mesh).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			return g.as(t, "system:serviceaccount:"+g.mesh+":supervisorctl").CoreV1().Secrets(g.mesh).Delete(t.Context(), "s", metav1.DeleteOptions{DryRun: all})
		}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuard(t, test.edit, test.instead)
			g.awaitLabel(t)
			if err := test.attempt(t, g); (err == nil) != test.goes {
				t.Errorf("without %q: %v", test.edit, err)
			}
		})
	}
}

// TestAllowLabelGuard: whoever is not of the group can neither set, change nor remove the label, in any way that the API has, and can
// do everything else to a namespace.
func TestAllowLabelGuard(t *testing.T) {
	t.Parallel()
	g := newGuard(t)
	other, approver := g.as(t, "somebody").CoreV1().Namespaces(), g.as(t, "approver", approvers).CoreV1().Namespaces()
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	g.awaitLabel(t)
	names := map[bool]string{true: g.Namespace(t), false: g.Namespace(t)}
	patch := func(label string) []byte {
		return fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, g.label, label)
	}
	if _, err := approver.Patch(t.Context(), names[true], types.MergePatchType, patch(`"allowed"`), metav1.PatchOptions{}); err != nil {
		t.Fatalf("a member of the group sets the label: %v", err)
	}
	tests := map[string]struct {
		with bool // whether the namespace has the label before
		text string
		sub  []string
	}{
		"sets":                    {false, `"allowed"`, nil},
		"sets nothing":            {false, `""`, nil},
		"sets by the status":      {false, `"allowed"`, []string{"status"}},
		"changes":                 {true, `"denied"`, nil},
		"removes":                 {true, `null`, nil},
		"removes by the status":   {true, `null`, []string{"status"}},
		"changes by the status":   {true, `"denied"`, []string{"status"}},
		"sets another with it":    {false, `"allowed", "a": "b"`, nil},
		"removes and sets others": {true, `null, "a": "b"`, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
			_, err := other.Patch(t.Context(), names[test.with], types.MergePatchType, patch(test.text), options, test.sub...)
			forbidden(t, "somebody", err, approvers, g.label)
			if _, err := approver.Patch(t.Context(), names[test.with], types.MergePatchType, patch(test.text), options, test.sub...); err != nil {
				t.Errorf("a member of the group: %v", err)
			}
		})
	}
	t.Run("finalize", func(t *testing.T) {
		t.Parallel()
		now, err := g.Client().CoreV1().Namespaces().Get(t.Context(), names[false], metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		now.Labels[g.label] = "allowed"
		_, err = other.Finalize(t.Context(), now, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		forbidden(t, "somebody", err, approvers)
	})
	t.Run("everything else", func(t *testing.T) {
		t.Parallel()
		for _, with := range []bool{true, false} {
			if _, err := other.Patch(t.Context(), names[with], types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
				t.Errorf("another label: %v", err)
			}
			if err := other.Delete(t.Context(), names[with], metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
				t.Errorf("a deletion: %v", err)
			}
		}
		if _, err := other.Create(t.Context(), labelled(g.mesh+"-y", nil), dry); err != nil {
			t.Errorf("a namespace without labels: %v", err)
		}
	})
}

// TestDaemonWritesGuard: a daemon makes nothing in a namespace that is not allowed, whatever its rights; what is its own it may end
// there; and others are not bound.
func TestDaemonWritesGuard(t *testing.T) {
	t.Parallel()
	g := newGuard(t)
	approver := g.as(t, "approver", approvers).CoreV1()
	account := func(name string) string { return "system:serviceaccount:" + g.mesh + ":" + name }
	daemon := g.as(t, account("supervisorctl")).CoreV1()
	open, shut := g.Namespace(t), g.Namespace(t)
	if _, err := approver.Namespaces().Patch(t.Context(), open, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"allowed"}}}`, g.label), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	secret := func(labels map[string]string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: labels}}
	}
	g.awaitWrites(t, shut)
	objects := map[string]struct {
		resource schema.GroupVersionResource
		object   map[string]any
	}{
		"Secret":         {corev1.SchemeGroupVersion.WithResource("secrets"), map[string]any{"apiVersion": "v1", "kind": "Secret"}},
		"Service":        {corev1.SchemeGroupVersion.WithResource("services"), map[string]any{"apiVersion": "v1", "kind": "Service", "spec": map[string]any{"clusterIP": "None"}}},
		"ConfigMap":      {corev1.SchemeGroupVersion.WithResource("configmaps"), map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}},
		"ServiceAccount": {corev1.SchemeGroupVersion.WithResource("serviceaccounts"), map[string]any{"apiVersion": "v1", "kind": "ServiceAccount"}},
		"Pod": {corev1.SchemeGroupVersion.WithResource("pods"), map[string]any{
			"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}},
		}},
		"NetworkPolicy": {schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}, map[string]any{
			"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": map[string]any{"podSelector": map[string]any{}},
		}},
		"Sandbox": {schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxes"}, map[string]any{
			"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox",
			"spec": map[string]any{"podTemplate": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}}},
		}},
	}
	for kind, test := range objects {
		for _, name := range []string{"lifecycle", "supervisorctl", "tokenauth", "nswatch"} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				client, err := dynamic.NewForConfig(g.config(account(name)))
				if err != nil {
					t.Fatal(err)
				}
				object := &unstructured.Unstructured{Object: test.object}
				object = object.DeepCopy()
				object.SetName("x")
				_, err = client.Resource(test.resource).Namespace(shut).Create(t.Context(), object, dry)
				forbidden(t, "in a namespace that is not allowed", err, shut, g.label+"=allowed")
				if _, err = client.Resource(test.resource).Namespace(open).Create(t.Context(), object, dry); err != nil {
					t.Errorf("in an allowed namespace: %v", err)
				}
			})
		}
	}
	t.Run("others", func(t *testing.T) {
		t.Parallel()
		for _, user := range []string{account("certs"), "system:serviceaccount:" + shut + ":supervisorctl", "somebody"} {
			if _, err := g.as(t, user).CoreV1().Secrets(shut).Create(t.Context(), secret(nil), dry); err != nil {
				t.Errorf("%s: %v", user, err)
			}
		}
	})
	t.Run("what was made before", func(t *testing.T) {
		t.Parallel()
		all := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
		for name, labels := range map[string]map[string]string{"ours": {"openshell.ai/managed-by": "openshell"}, "pair": {"openshell.ai/boundary-pair": "id"}, "foreign": {"a": "b"}} {
			s := secret(labels)
			s.Name = name
			if _, err := approver.Secrets(shut).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			err := daemon.Secrets(shut).Delete(t.Context(), name, all)
			// That somebody else's becomes theirs by the request itself does not count.
			_, stolen := daemon.Secrets(shut).Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":{"openshell.ai/managed-by":"openshell"}}}`), metav1.PatchOptions{DryRun: all.DryRun})
			if name == "foreign" {
				forbidden(t, "deletes what is not theirs", err, shut)
				forbidden(t, "takes what is not theirs", stolen, shut)
			} else if err != nil || stolen != nil {
				t.Errorf("ends what is theirs, %s: %v, %v", name, err, stolen)
			}
		}
	})
}
