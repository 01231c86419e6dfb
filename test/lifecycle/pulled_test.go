package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// pullSecret is the source, and pullConfig what is in it.
const (
	pullSecret = "pull-a"
	pullConfig = `{"auths":{"registry.example":{"auth":"cHVsbDpub3QtZm9yLWFueS1sb2c="}}}`
)

// withPullSecret names it in managed mode, where it is copied.
func withPullSecret(o *mesh.Options) {
	if o.Mode == "managed" {
		o.Stock = append(o.Stock, fmt.Sprintf("image_pull_secrets = [%q]", pullSecret))
	}
}

// givePullSecret makes the source and lets supervisorctl read it, as the overlay managed does.
func givePullSecret(t *testing.T, s *lifecycle.Site) {
	t.Helper()
	ctx, client := t.Context(), s.Cluster.Client()
	const name = "supervisorctl-sources"
	_, err := client.CoreV1().Secrets(s.Shared).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: pullSecret}, Type: corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{corev1.DockerConfigJsonKey: pullConfig},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = client.RbacV1().Roles(s.Shared).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{pullSecret}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = client.RbacV1().RoleBindings(s.Shared).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Mesh.Namespace(), Name: mesh.Supervisorctl}},
	}, metav1.CreateOptions{})
	must(t, err)
	s.Eventually("supervisorctl may read the source", func() error {
		asked, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               fmt.Sprintf("system:serviceaccount:%s:%s", s.Mesh.Namespace(), mesh.Supervisorctl),
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: s.Shared, Name: pullSecret},
		}}, metav1.CreateOptions{})
		if err == nil && !asked.Status.Allowed {
			err = errors.New("it may not yet")
		}
		return err
	})
	s.Guard("the pull Secret", "cHVsbDpub3QtZm9yLWFueS1sb2c=")
}

// pullSecrets: both Pods of each run refer to that run's copy of the pull Secret, which goes with the run, and the run that follows is let
// through although what the Sandbox refers to is not there yet (contract 9.5).
func pullSecrets(t *testing.T, s *lifecycle.Site) {
	workspace := s.Workspace("pulled")
	wish := s.Wish(workspace, "pulled")
	made, err := s.Driver.CreateSandbox(s.Context(), &computev1.CreateSandboxRequest{Sandbox: wish})
	must(t, err)
	first := demandPulled(t, s, wish)
	_, err = s.Driver.StopSandbox(s.Context(), &computev1.StopSandboxRequest{SandboxId: wish.GetId()})
	must(t, err)
	demandNoCopy(t, s, wish, first)
	_, err = s.Driver.StartSandbox(s.Context(), &computev1.StartSandboxRequest{
		SandboxId: wish.GetId(), GenerationId: "g0000000000000002", LaunchAuthentication: s.Bundle(wish.GetId()), ExpectedRuntimeIdentity: made.GetRuntimeIdentity(),
	})
	must(t, err)
	s.AwaitReady(wish.GetId())
	second := demandPulled(t, s, wish)
	if first == second {
		t.Errorf("both runs have the copy %s", first)
	}
	_, err = s.Driver.DeleteSandbox(s.Context(), &computev1.DeleteSandboxRequest{SandboxId: wish.GetId()})
	must(t, err)
	demandNoCopy(t, s, wish, second)
	s.Eventually("nothing is left", func() error {
		return nothingLeft(t.Context(), s, s.NamespaceOf(workspace), wish.GetId(), wish.GetName())
	})
}

// demandPulled demands that both Pods refer to one copy of the source alone, and gives its name.
func demandPulled(t *testing.T, s *lifecycle.Site, wish *computev1.DriverSandbox) string {
	t.Helper()
	ctx, core, namespace := t.Context(), s.Cluster.Client().CoreV1(), s.NamespaceOf(wish.GetWorkspace())
	var references [2][]corev1.LocalObjectReference
	var owners []string
	for i, name := range []string{wish.GetName(), "os-supervisor-" + wish.GetId()} {
		pod, err := core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		must(t, err)
		references[i] = pod.Spec.ImagePullSecrets
		owners = append(owners, string(pod.UID))
	}
	if diff := cmp.Diff(references[0], references[1]); diff != "" || len(references[0]) != 1 {
		t.Fatalf("the workload refers to %v, the supervisor to %v", references[0], references[1])
	}
	name := references[0][0].Name
	copied, err := core.Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	must(t, err)
	if copied.Type != corev1.SecretTypeDockerConfigJson || string(copied.Data[corev1.DockerConfigJsonKey]) != pullConfig || len(copied.Data) != 1 {
		t.Errorf("Secret %s of type %s is no copy of %s", name, copied.Type, pullSecret)
	}
	var of []string
	for _, owner := range copied.OwnerReferences {
		of = append(of, string(owner.UID))
	}
	slices.Sort(of)
	slices.Sort(owners)
	if diff := cmp.Diff(owners, of); diff != "" {
		t.Errorf("owners of Secret %s (-Pods +owners):\n%s", name, diff)
	}
	return name
}

// demandNoCopy waits until a copy has gone with its run.
func demandNoCopy(t *testing.T, s *lifecycle.Site, wish *computev1.DriverSandbox, name string) {
	t.Helper()
	s.Eventually("the copy is gone", func() error {
		_, err := s.Cluster.Client().CoreV1().Secrets(s.NamespaceOf(wish.GetWorkspace())).Get(context.WithoutCancel(t.Context()), name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("Secret %s is there", name)
	})
}
