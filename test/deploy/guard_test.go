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
	"k8s.io/apimachinery/pkg/types"
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
	return newGuardOf(t, "guarded", 4, edits...)
}

// newGuardOf installs the policies, of so many objects, that are in a rendering.
func newGuardOf(t *testing.T, rendering string, objects int, edits ...string) *guard {
	t.Helper()
	s := newSite(t)
	g := &guard{site: s, mesh: s.Namespace(t)}
	g.label = allowLabel + "-" + g.mesh
	var matched, edited int
	for _, object := range rendered(t)[rendering].Objects {
		if object.GroupVersionKind().Group != admissionv1.GroupName {
			continue
		}
		matched++
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		own := strings.NewReplacer("'"+allowLabel+"'", "'"+g.label+"'", "'''openshell'''", "'''"+g.mesh+"'''", "serviceaccount:portcullis:", "serviceaccount:"+g.mesh+":",
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
	if matched != objects {
		t.Fatalf("%s has %d objects of admission, not %d", rendering, matched, objects)
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
	// ends deletes what was there, as a daemon.
	ends := func(kind string, labels map[string]string) func(*testing.T, *guard) error {
		return func(t *testing.T, g *guard) error {
			t.Helper()
			g.awaitWrites(t, g.mesh)
			if _, err := g.objects(t, "somebody", kind, g.mesh).Create(t.Context(), thing{kind, labels}.named("s"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			return g.objects(t, g.account("supervisorctl"), kind, g.mesh).Delete(t.Context(), "s", metav1.DeleteOptions{DryRun: all})
		}
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
		"updates set labels":            {"      - UPDATE\n      resources:\n      - namespaces\n", "      resources:\n      - namespaces\n", func(_ *testing.T, g *guard) error { return patch(g) }, true},
		"what is theirs must be ended":  {"request.operation == 'CREATE' || variables.ours", "variables.trusted", ends("Secret", map[string]string{"openshell.ai/managed-by": "openshell"}), false},
		"canaries must be ended":        {"fence-canary", "other", ends("Pod", map[string]string{"openshell.ai/component": "fence-canary", "openshell.ai/fence-probe": "p"}), false},
		"workloads must be ended":       {"openshell.ai/boundary-pair", "other", ends("Pod", map[string]string{"openshell.ai/boundary-pair": "p"}), false},
		"what is somebody else's stays": {"request.operation == 'CREATE' || variables.ours", "true", ends("Secret", nil), true},
		"the mesh's own namespace stays": {"request.namespace == request.userInfo.username.split(':')[2]", "false", func(t *testing.T, g *guard) error {
			g.open(t, g.mesh, map[string]string{g.label: "allowed"})
			g.awaitWrites(t, g.Namespace(t))
			_, err := g.objects(t, g.account("supervisorctl"), "Secret", g.mesh).Create(t.Context(), thing{kind: "Secret"}.named("x"), dry)
			return err
		}, true},
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
