package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/cluster"
)

func configMap(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
}

// pausedPod is a Pod that no profile without a kubelet will run.
func pausedPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "portcullis.test/never"}},
			Containers:      []corev1.Container{{Name: "main", Image: cluster.ProbeImage}},
		},
	}
}

func TestControllersAreReal(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.ControlPlane)
	ctx := t.Context()

	t.Run("an owned object goes with its owner", func(t *testing.T) {
		maps := c.Client().CoreV1().ConfigMaps(c.Namespace(t))
		owner, err := maps.Create(ctx, configMap("owner"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}
		if _, err := maps.Create(ctx, configMap("owned", ref), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := maps.Delete(ctx, owner.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		cluster.Eventually(t, "owned object collected", func(ctx context.Context) error {
			_, err := maps.Get(ctx, "owned", metav1.GetOptions{})
			return absent(err)
		})
	})

	t.Run("a deleted namespace is emptied and goes", func(t *testing.T) {
		ns := c.Namespace(t)
		if _, err := c.Client().CoreV1().ConfigMaps(ns).Create(ctx, configMap("inside"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := c.Client().CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		cluster.Eventually(t, "namespace gone", func(ctx context.Context) error {
			_, err := c.Client().CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
			return absent(err)
		})
	})
}

// absent turns "not found" into success and everything else into an error.
func absent(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		return errors.New("still there")
	}
	return err
}

const readConfigMaps = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: default}]
`

func TestServiceAccountHasOnlyGrantedRights(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.ControlPlane)
	ns := c.Namespace(t)
	maps := c.ServiceAccountClient(t, ns, "default").CoreV1().ConfigMaps(ns)
	if _, err := maps.Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("read without a grant: got %v, want forbidden", err)
	}
	c.Apply(t, ns, []byte(readConfigMaps))
	cluster.Eventually(t, "the granted read", func(ctx context.Context) error {
		_, err := maps.Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	if _, err := maps.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("list, which is not granted: got %v, want forbidden", err)
	}
}

func TestTokenIsBoundToItsPod(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.ControlPlane)
	ns := c.Namespace(t)
	pods := c.Client().CoreV1().Pods(ns)
	pod, err := pods.Create(t.Context(), pausedPod("bound"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token := c.Token(t, ns, "default", cluster.TokenRequest{Audiences: []string{"openshell-gateway"}, Pod: pod})

	status := review(t, c, token, "openshell-gateway")
	if !status.Authenticated {
		t.Fatalf("the token is refused: %s", status.Error)
	}
	for key, want := range map[string]string{
		"authentication.kubernetes.io/pod-name": "bound",
		"authentication.kubernetes.io/pod-uid":  string(pod.UID),
	} {
		if got := status.User.Extra[key]; !slices.Equal(got, []string{want}) {
			t.Errorf("extra %s: got %v, want exactly %s", key, got, want)
		}
	}
	if status := review(t, c, token, "another-audience"); status.Authenticated {
		t.Error("the token is accepted for an audience that it was not made for")
	}
	if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, "token refused after its Pod is gone", func(context.Context) error {
		if review(t, c, token, "openshell-gateway").Authenticated {
			return errors.New("still accepted")
		}
		return nil
	})
}

func review(t *testing.T, c *cluster.Cluster, token, audience string) authenticationv1.TokenReviewStatus {
	t.Helper()
	r, err := c.Client().AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("review a token: %v", err)
	}
	return r.Status
}

func TestPrivateAPIServerSurvivesKill(t *testing.T) {
	t.Parallel()
	p := cluster.StartPrivate(t)
	ns := p.Namespace(t)
	maps := p.Client().CoreV1().ConfigMaps(ns)
	if _, err := maps.Create(t.Context(), configMap("kept"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.APIServer().Kill()
	if _, err := maps.Get(t.Context(), "kept", metav1.GetOptions{}); err == nil {
		t.Fatal("a killed API server still answers")
	}
	p.RestartAPIServer(t)
	cluster.Eventually(t, "the object is read again", func(ctx context.Context) error {
		_, err := maps.Get(ctx, "kept", metav1.GetOptions{})
		return err
	})
	info, err := p.Client().Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%s.%s", info.Major, info.Minor); got != "1.37" {
		t.Errorf("API server version %s, want the pinned 1.37", got)
	}
}
