package tokenauth

import (
	"context"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// OwnToken is a token of the daemon itself, bound to a Pod as the mounted one of a real daemon is.
type OwnToken struct {
	site   *Site
	pod    *corev1.Pod
	client kubernetes.Interface
}

// IssueOwnToken puts a new token of the daemon into OwnTokenFile, in one step, as the kubelet does.
func (s *Site) IssueOwnToken() *OwnToken {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	pod, err := s.Cluster.Client().CoreV1().Pods(s.home).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: daemon + "-"},
		Spec: corev1.PodSpec{
			ServiceAccountName: daemon,
			SchedulingGates:    []corev1.PodSchedulingGate{{Name: workspace.SchedulingGate}},
			Containers:         []corev1.Container{{Name: daemon, Image: "none"}},
		},
	}, metav1.CreateOptions{})
	s.must("make a Pod of the daemon", err)
	text := s.Cluster.Token(s.t, s.home, daemon, cluster.TokenRequest{Pod: pod})
	s.Guard(text)
	next := s.OwnTokenFile + ".next"
	s.must("write the daemon's token", os.WriteFile(next, []byte(text), 0o600))
	s.must("write the daemon's token", os.Rename(next, s.OwnTokenFile))

	rc := rest.AnonymousClientConfig(s.Cluster.RESTConfig())
	rc.BearerToken, rc.QPS = text, -1
	client, err := kubernetes.NewForConfig(rc)
	s.must("make a client", err)
	return &OwnToken{site: s, pod: pod, client: client}
}

// Revoke makes the token invalid, by the deletion of its Pod.
func (o *OwnToken) Revoke() {
	o.site.t.Helper()
	err := o.site.Cluster.Client().CoreV1().Pods(o.pod.Namespace).Delete(o.site.t.Context(), o.pod.Name, metav1.DeleteOptions{})
	o.site.must("delete the Pod of the daemon's token", err)
}

// Try reads something that the daemon may read, with this token.
func (o *OwnToken) Try(ctx context.Context) error {
	_, err := o.client.CoreV1().Namespaces().Get(ctx, o.site.home, metav1.GetOptions{})
	return err
}
