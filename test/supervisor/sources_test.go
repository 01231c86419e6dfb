package supervisor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// sourceFaults are what may be wrong with a Secret that the daemon reads. What must be explained names the setting, the Secret and the
// fault.
var sourceFaults = []struct {
	name    string
	breaks  func(t *testing.T, x *tenant, b *supervisor.Box)
	reason  verdict.Reason
	explain []string
}{
	{"pull Secret is missing", func(t *testing.T, x *tenant, _ *supervisor.Box) {
		must(t, x.Cluster.Client().CoreV1().Secrets(x.Home()).Delete(t.Context(), "pull-b", metav1.DeleteOptions{}))
	}, verdict.CompanionRefused, []string{"image_pull_secrets", "pull-b", "does not exist"}},
	{"pull Secret is of another type", func(t *testing.T, x *tenant, _ *supervisor.Box) {
		replace(t, x.Site, x.Home(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "pull-b"}, StringData: map[string]string{".dockerconfigjson": "{}"}})
	}, verdict.CompanionRefused, []string{"image_pull_secrets", "pull-b", "Opaque", "kubernetes.io/dockerconfigjson"}},
	{"client Secret is missing", func(t *testing.T, x *tenant, _ *supervisor.Box) {
		must(t, x.Cluster.Client().CoreV1().Secrets(x.Home()).Delete(t.Context(), clientTLS, metav1.DeleteOptions{}))
	}, verdict.CompanionRefused, []string{"client_tls_secret_name", clientTLS, "does not exist"}},
	{"client Secret has no CA", func(t *testing.T, x *tenant, _ *supervisor.Box) {
		replace(t, x.Site, x.Home(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: clientTLS}, StringData: map[string]string{"other": "x"}})
	}, verdict.CompanionRefused, []string{"client_tls_secret_name", clientTLS, "ca.crt"}},
	{"client Secret has a CA that is none", func(t *testing.T, x *tenant, _ *supervisor.Box) {
		replace(t, x.Site, x.Home(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: clientTLS}, StringData: map[string]string{"ca.crt": "secret-of-the-test"}})
	}, verdict.CompanionRefused, []string{"ClientCA"}},
	{"pull Secret may not be read", func(t *testing.T, x *tenant, _ *supervisor.Box) {
		x.deny(t, "pull-a")
	}, verdict.CompanionRefused, []string{"image_pull_secrets", "pull-a", "403"}},
	{"a Secret has the copy's name", func(t *testing.T, x *tenant, b *supervisor.Box) {
		replace(t, x.Site, b.Namespace, pullSource(b.Copies(b.Run.Generation)[1], []byte(`{"auths":{}}`)))
	}, verdict.CompanionCollision, []string{"-1"}},
}

// deny takes the right to read one source away until the test ends.
func (x *tenant) deny(t *testing.T, name string) {
	t.Helper()
	roles := x.Cluster.Client().RbacV1().Roles(x.Home())
	role, err := roles.Get(t.Context(), "supervisorctl-sources", metav1.GetOptions{})
	must(t, err)
	was := role.DeepCopy()
	for i := range role.Rules {
		for j, allowed := range role.Rules[i].ResourceNames {
			if allowed == name {
				role.Rules[i].ResourceNames[j] = "nothing"
			}
		}
	}
	changed, err := roles.Update(t.Context(), role, metav1.UpdateOptions{})
	must(t, err)
	x.awaitRight(t, name, false)
	t.Cleanup(func() {
		was.ResourceVersion = changed.ResourceVersion
		_, err := roles.Update(context.WithoutCancel(t.Context()), was, metav1.UpdateOptions{})
		must(t, err)
	})
}

// awaitRight waits until the API server's authorizer knows.
func (x *tenant) awaitRight(t *testing.T, name string, allowed bool) {
	t.Helper()
	client := x.Cluster.ServiceAccountClient(t, x.Home(), "supervisorctl")
	cluster.Eventually(t, "the right to read is what it is to be", func(ctx context.Context) error {
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: x.Home(), Name: name},
			},
		}, metav1.CreateOptions{})
		if err == nil && answer.Status.Allowed != allowed {
			err = fmt.Errorf("it is %t", answer.Status.Allowed)
		}
		return err
	})
}

// A source that is missing, may not be read or is none ends the call with its setting, its name and what is wrong; a Secret that has
// the name of a copy is not adopted. Nothing is left, and what is somebody else's is as it was. The next call finds what was mended.
func TestSources(t *testing.T) {
	t.Parallel()
	x := newTenant(t, supervisor.Managed, newest)
	x.Bounds = append(x.Bounds, "stage_client_key = true")
	client := x.Client(x.Start())
	for _, tc := range sourceFaults {
		t.Run(tc.name, func(t *testing.T) {
			b := x.place(t)
			tc.breaks(t, x, b)
			before := x.History.Now(b.Namespace)
			_, err := client.Provision(t.Context(), b, b.Run)
			decision := demandRefused(t, err, tc.reason)
			for _, part := range tc.explain {
				if !strings.Contains(decision.Explain(), part) {
					t.Errorf("%q is not in %q", part, decision.Explain())
				}
			}
			if strings.Contains(decision.Explain(), "secret-of-the-test") {
				t.Errorf("a Secret's content is told: %q", decision.Explain())
			}
			x.demand(t, b, before, supervisor.Services+"/"+b.ServiceName())
			for key, object := range before {
				now := x.History.Now(b.Namespace)[key]
				if !strings.HasPrefix(key, supervisor.Sandboxes) && (now == nil || now.GetUID() != object.GetUID()) {
					t.Errorf("%s was replaced or removed", key)
				}
			}
			if box, err := b.Object(t.Context()); err != nil || !box.Suspended() {
				t.Errorf("the Sandbox runs: %v", err)
			}
			x.rotate(t, "mended")
		})
	}
	x.awaitRight(t, "pull-a", true)
	b := x.place(t)
	before := x.History.Now(b.Namespace)
	_, err := client.Provision(t.Context(), b, b.Run)
	must(t, err)
	x.demand(t, b, before, x.whole(b, b.Run)...)
	x.demandMaterial(t, b, b.Run)
}
