package cluster

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// waitLimit bounds every wait of this package. It is not a performance claim: it only ends a wait
// for something that will never happen.
const waitLimit = 90 * time.Second

// tryLimit bounds one look at what is waited for.
const tryLimit = 20 * time.Second

// Eventually polls until condition returns nil, and fails the test with its last error otherwise.
func Eventually(t testing.TB, what string, condition func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, waitLimit, true, func(context.Context) (bool, error) {
		// A limit of its own for each try: the end of the whole wait must not hide why the last one failed.
		ctx, cancel := context.WithTimeout(t.Context(), tryLimit)
		defer cancel()
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v (last: %v)", what, err, last)
	}
}

// Namespace creates a namespace of a fresh name with the given label sets, waits until Pods can be
// created in it, and deletes it when the test ends.
func (c *Cluster) Namespace(t testing.TB, labels ...map[string]string) string {
	t.Helper()
	all := map[string]string{}
	for _, l := range labels {
		maps.Copy(all, l)
	}
	ns, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "t-", Labels: all},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waitLimit)
		defer cancel()
		err := c.client.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(ns.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			t.Errorf("delete namespace %s: %v", ns.Name, err)
		}
	})
	Eventually(t, "default ServiceAccount of namespace "+ns.Name, func(ctx context.Context) error {
		_, err := c.client.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return ns.Name
}

// TokenRequest says what a token is for. The zero value asks for a token for the API server, bound to
// nothing, of the API server's default lifetime.
type TokenRequest struct {
	Audiences []string
	Pod       *corev1.Pod   // bind to this Pod, as the kubelet does for projected tokens
	TTL       time.Duration // at least ten minutes, which the API server demands
}

// Token returns a fresh token of the ServiceAccount, which must exist.
func (c *Cluster) Token(t testing.TB, namespace, account string, req TokenRequest) string {
	t.Helper()
	spec := authenticationv1.TokenRequestSpec{Audiences: req.Audiences}
	if req.TTL > 0 {
		seconds := int64(req.TTL / time.Second)
		spec.ExpirationSeconds = &seconds
	}
	if req.Pod != nil {
		spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: req.Pod.Name, UID: req.Pod.UID,
		}
	}
	resp, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("ask for a token of ServiceAccount %s/%s: %v", namespace, account, err)
	}
	return resp.Status.Token
}

// ServiceAccountConfig returns a client configuration that acts as the ServiceAccount, with a real
// token of it and so with only the rights that it was granted.
func (c *Cluster) ServiceAccountConfig(t testing.TB, namespace, account string) *rest.Config {
	t.Helper()
	cfg := rest.AnonymousClientConfig(c.rest)
	cfg.QPS, cfg.Burst = c.rest.QPS, c.rest.Burst
	cfg.BearerToken = c.Token(t, namespace, account, TokenRequest{})
	return cfg
}

// ServiceAccountKubeconfig writes a kubeconfig that acts as the ServiceAccount and returns its path.
func (c *Cluster) ServiceAccountKubeconfig(t testing.TB, namespace, account string) string {
	t.Helper()
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["test"] = &clientcmdapi.Cluster{Server: c.rest.Host, CertificateAuthorityData: c.rest.CAData}
	cfg.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: c.Token(t, namespace, account, TokenRequest{})}
	cfg.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: account, Namespace: namespace}
	cfg.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), account+".kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatalf("write a kubeconfig for ServiceAccount %s/%s: %v", namespace, account, err)
	}
	return path
}

// ServiceAccountClient is a typed client that acts as the ServiceAccount.
func (c *Cluster) ServiceAccountClient(t testing.TB, namespace, account string) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.ServiceAccountConfig(t, namespace, account))
	if err != nil {
		t.Fatalf("make a client for ServiceAccount %s/%s: %v", namespace, account, err)
	}
	return client
}

// Apply applies the YAML documents by server-side apply, strictly: an unknown field fails the test.
// Namespaced objects without a namespace go to the given one.
func (c *Cluster) Apply(t testing.TB, namespace string, manifests []byte) {
	t.Helper()
	if err := c.applier.Apply(t.Context(), namespace, manifests); err != nil {
		t.Fatal(err)
	}
}

// Withdraw deletes the objects of the YAML documents, the last first, without waiting until they are gone. It is for cleaning up: a
// failure is an error of the test, and the rest is deleted all the same.
func (c *Cluster) Withdraw(t testing.TB, namespace string, manifests []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waitLimit)
	defer cancel()
	if err := c.applier.Delete(ctx, namespace, manifests); err != nil {
		t.Error(err)
	}
}

// AwaitPod waits until the Pod is Ready and returns it. A Pod that ended fails the test at once.
func (c *Cluster) AwaitPod(t testing.TB, namespace, name string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	Eventually(t, "Pod "+namespace+"/"+name+" Ready", func(ctx context.Context) (err error) {
		if pod, err = c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			t.Fatalf("Pod %s/%s ended: %s %s", namespace, name, pod.Status.Phase, pod.Status.Message)
		}
		for _, cond := range pod.Status.Conditions {
			if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("phase %s, conditions %v, containers %v", pod.Status.Phase, pod.Status.Conditions, pod.Status.ContainerStatuses)
	})
	return pod
}
