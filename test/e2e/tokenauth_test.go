package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/portcullis-mesh/portcullis/shared/runtimeid"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/tokenauth"
)

// tokenDir is where a supervisor finds its token (contract 6.5). The one for somebody else is the test's.
const tokenDir = "/var/run/secrets/openshell"

// running makes a supervisor's Pod one that the node runs: the probe in the supervisor's place, with what contract 6.5 mounts and
// another token beside it, which the kubelet issues for the same Pod and another audience.
func running(d *tokenauth.Draft) {
	yes, no, user, mode, ttl := true, false, int64(10001), int32(0o440), int64(3600)
	projected := func(audience, path string) corev1.VolumeProjection {
		return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: &ttl, Path: path}}
	}
	grace := int64(1)
	spec := &d.Pod.Spec
	spec.SchedulingGates = nil
	spec.RestartPolicy, spec.TerminationGracePeriodSeconds = corev1.RestartPolicyNever, &grace
	spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, FSGroup: &user,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	spec.Containers = []corev1.Container{{
		Name: "supervisor", Image: cluster.ProbeImage, ImagePullPolicy: corev1.PullIfNotPresent,
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "sa-token", MountPath: tokenDir, ReadOnly: true}},
	}}
	spec.Volumes = []corev1.Volume{{Name: "sa-token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources:     []corev1.VolumeProjection{projected("openshell-gateway", "token"), projected("somebody-else", "other")},
	}}}}
}

// tokenOf reads a token inside the Pod.
func tokenOf(t *testing.T, s *tokenauth.Site, pod *corev1.Pod, name string) string {
	t.Helper()
	status, token, err := ask(t.Context(), pod, "/file?path="+tokenDir+"/"+name)
	if err != nil || status != http.StatusOK || token == "" {
		t.Fatalf("read the token inside the Pod: status %d, %v", status, err)
	}
	s.Guard(token)
	return token
}

// A supervisor that runs presents what the kubelet mounted into it.
func TestKubeletsTokenIsAuthenticated(t *testing.T) {
	t.Parallel()
	s := tokenauth.Shared(t, cluster.Start(t, cluster.Node))
	p := s.Start()
	p.AwaitReady()
	c := s.Client(p)
	b := s.Bearer(s.Namespace, running)
	pod := s.Cluster.AwaitPod(t, b.Pod.Namespace, b.Pod.Name)
	token, other := tokenOf(t, s, pod, "token"), tokenOf(t, s, pod, "other")

	resp, err := c.Authenticate(t.Context(), token)
	if err != nil {
		decision, _ := verdict.FromError(err)
		t.Fatalf("the kubelet's token: %v (%s)", err, decision.Explain())
	}
	identity, err := runtimeid.New(pod.Namespace, string(b.Sandbox.GetUID()), string(pod.UID))
	if err != nil {
		t.Fatal(err)
	}
	if resp.GetSandboxId() != b.SandboxID || resp.GetRuntimeIdentity() != identity.String() {
		t.Errorf("the bearer is %v, want sandbox %s and %s", resp, b.SandboxID, identity)
	}
	refused(t, c, other, verdict.CredentialNotAccepted)

	b.DeletePod()
	refused(t, c, token, verdict.PodTerminating, verdict.PodNotFound, verdict.CredentialNotAccepted)
	cluster.Eventually(t, "the Pod is gone", func(ctx context.Context) error {
		_, err := s.Cluster.Client().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
	refused(t, c, token, verdict.PodNotFound, verdict.CredentialNotAccepted)
	p.Stop()
}

// refused has the answer be a refusal for one of the reasons.
func refused(t *testing.T, c *tokenauth.Client, token string, want ...verdict.Reason) {
	t.Helper()
	resp, err := c.Authenticate(t.Context(), token)
	decision, _ := verdict.FromError(err)
	if err == nil || !slices.Contains(want, decision.Reason) {
		t.Errorf("got %v, %v (%s), want one of %v", resp, err, decision.Explain(), want)
	}
}
