package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// probePod is hardened as PodSecurity "restricted" demands and mounts a projected token as a
// supervisor Pod does (contract 6.5).
const probePod = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  automountServiceAccountToken: false
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, runAsUser: 10001, runAsGroup: 10001, fsGroup: 10001, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: probe
      image: %[2]s
      imagePullPolicy: IfNotPresent
      readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
      volumeMounts: [{name: sa-token, mountPath: /var/run/secrets/openshell, readOnly: true}]
  volumes:
    - name: sa-token
      projected:
        defaultMode: 0440
        sources: [{serviceAccountToken: {audience: openshell-gateway, expirationSeconds: 3600, path: token}}]
`

const denyEgress = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny-egress}
spec: {podSelector: {matchLabels: {app: fenced}}, policyTypes: [Egress]}
`

const service = `
apiVersion: v1
kind: Service
metadata: {name: other}
spec: {selector: {app: other}, ports: [{port: 80, targetPort: 8080}]}
`

// restricted makes the API server refuse any Pod that is not hardened.
var restricted = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}

func startProbe(t *testing.T, c *cluster.Cluster, ns, name string) *corev1.Pod {
	t.Helper()
	c.Apply(t, ns, fmt.Appendf(nil, probePod, name, cluster.ProbeImage))
	return c.AwaitPod(t, ns, name)
}

// ask sends a request to the probe in the Pod and returns its status and body.
func ask(ctx context.Context, pod *corev1.Pod, path string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	target := "http://" + net.JoinHostPort(pod.Status.PodIP, "8080") + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return resp.StatusCode, string(body), err
}

// dials waits until a connection from inside the Pod to addr opens, or is blocked.
func dials(t *testing.T, pod *corev1.Pod, addr string, want bool) {
	t.Helper()
	status := http.StatusOK
	if !want {
		status = http.StatusGatewayTimeout
	}
	cluster.Eventually(t, fmt.Sprintf("Pod %s reaches %s: %v", pod.Name, addr, want), func(ctx context.Context) error {
		got, body, err := ask(ctx, pod, "/dial?addr="+url.QueryEscape(addr))
		if err != nil {
			return err
		}
		if got != status {
			return fmt.Errorf("got %d %s", got, strings.TrimSpace(body))
		}
		return nil
	})
}

func TestPodCarriesProjectedToken(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Node)
	ns := c.Namespace(t, restricted)
	pod := startProbe(t, c, ns, "bearer")

	status, token, err := ask(t.Context(), pod, "/file?path=/var/run/secrets/openshell/token")
	if err != nil || status != http.StatusOK {
		t.Fatalf("read the token inside the Pod: status %d, %v", status, err)
	}
	review, err := c.Client().AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{"openshell-gateway"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !review.Status.Authenticated {
		t.Fatalf("the kubelet's token is refused: %s", review.Status.Error)
	}
	if want := "system:serviceaccount:" + ns + ":default"; review.Status.User.Username != want {
		t.Errorf("token of %s, want %s", review.Status.User.Username, want)
	}
	for key, want := range map[string]string{
		"authentication.kubernetes.io/pod-name":  pod.Name,
		"authentication.kubernetes.io/pod-uid":   string(pod.UID),
		"authentication.kubernetes.io/node-name": cluster.NodeName,
	} {
		if got := review.Status.User.Extra[key]; len(got) != 1 || got[0] != want {
			t.Errorf("extra %s: got %v, want exactly %s", key, got, want)
		}
	}
}

func TestEgressPolicyReallyBlocks(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Node)
	ns := c.Namespace(t, restricted)
	c.Apply(t, ns, []byte(service))
	fenced, other := startProbe(t, c, ns, "fenced"), startProbe(t, c, ns, "other")
	svc, err := c.Client().CoreV1().Services(ns).Get(t.Context(), "other", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	machine, err := net.Listen("tcp", net.JoinHostPort(cluster.HostAddress, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = machine.Close() }()
	apiServer, err := url.Parse(c.RESTConfig().Host)
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]string{
		"another Pod":              net.JoinHostPort(other.Status.PodIP, "8080"),
		"a Service":                net.JoinHostPort(svc.Spec.ClusterIP, "80"),
		"the API server":           apiServer.Host,
		"the API server's Service": "10.96.0.1:443",
		"a program on the machine": machine.Addr().String(),
	}
	all := func(pod *corev1.Pod, want bool) {
		for what, addr := range targets {
			t.Logf("%s to %s: %v", pod.Name, what, want)
			dials(t, pod, addr, want)
		}
	}
	all(fenced, true)
	c.Apply(t, ns, []byte(denyEgress))
	all(fenced, false)
	all(other, true) // the policy selects one Pod, not the namespace
	if err := c.Client().NetworkingV1().NetworkPolicies(ns).Delete(t.Context(), "deny-egress", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	all(fenced, true)
}

func TestOwnProgramRunsInPod(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Node)
	const ref = "portcullis.test/own-probe:1"
	c.LoadProgram(t, ref, "probe", "test", "./cluster/images/probe")
	ns := c.Namespace(t, restricted)
	c.Apply(t, ns, fmt.Appendf(nil, probePod, "own", ref))
	pod := c.AwaitPod(t, ns, "own")
	if status, body, err := ask(t.Context(), pod, "/"); err != nil || status != http.StatusOK {
		t.Fatalf("ask the program: status %d %q, %v", status, body, err)
	}
}
