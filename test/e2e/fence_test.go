package e2e_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/companions"
	"github.com/portcullis-mesh/portcullis/test/companions/gatewayside"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// internet is an address that is neither the cluster's nor the node's nor the machine's on the node's network (RFC 5737).
const internet = "198.51.100.7"

// outside lets the machine answer for the internet until the test ends.
func outside(t testing.TB) string {
	t.Helper()
	ip := func(verb string) {
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "ip", "address", verb, internet+"/32", "dev", "lo").CombinedOutput(); err != nil {
			t.Fatalf("ip address %s: %v: %s", verb, err, out)
		}
	}
	ip("replace")
	t.Cleanup(func() { ip("delete") })
	return listen(t, internet).Addr().String()
}

// nameServer answers every question about IPv4 with one address, and returns where it does.
func nameServer(t testing.TB) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", net.JoinHostPort(cluster.HostAddress, "0"))
	noError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			question := make([]byte, 512)
			n, from, err := conn.ReadFrom(question)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(answer(question[:n]), from)
		}
	}()
	return conn.LocalAddr().String()
}

// answer is to a DNS message with one question (RFC 1035).
func answer(question []byte) []byte {
	end := 12
	for end < len(question) && question[end] != 0 {
		end += 1 + int(question[end])
	}
	end += 5 // the root, type and class
	if end > len(question) {
		return nil
	}
	m := append([]byte(nil), question[:end]...)
	m[2], m[3] = m[2]|0x84, 0 // an answer with authority
	copy(m[4:12], []byte{0, 1, 0, 1, 0, 0, 0, 0})
	m = append(m, 0xc0, 12, 0, 1, 0, 1) // the name of the question, A, IN
	m = binary.BigEndian.AppendUint32(m, 60)
	return append(m, 0, 4, 192, 0, 2, 1)
}

// open are the targets that a look found open.
func open(said string) map[string]bool {
	found := map[string]bool{}
	for line := range strings.Lines(said) {
		if target, how, _ := strings.Cut(strings.TrimSpace(line), " "); how == "open" {
			found[target] = true
		}
	}
	return found
}

// onlooker runs one look in a Pod of its own that no policy of ours selects, and returns what it said.
func (g *ground) onlooker(ctx context.Context, namespace string, targets ...string) (string, error) {
	pods := g.Cluster.Client().CoreV1().Pods(namespace)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "onlooker-"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: new(int64(supervisor.User)), RunAsNonRoot: new(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "look", Image: g.Images.Workload, Command: companions.Workload(append([]string{"reach"}, targets...)...),
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	for {
		if pod, err = pods.Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return "", err
		}
		if pod.Status.Phase == corev1.PodSucceeded {
			said, err := pods.GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
			return string(said), err
		}
		select {
		case <-time.After(50 * time.Millisecond): // the poll of a Pod
		case <-ctx.Done():
			return "", fmt.Errorf("the onlooker is %+v: %w", pod.Status, context.Cause(ctx))
		}
	}
}

// fence: from inside the workload Pod nothing can be reached, and nothing but the supervisors of its namespace reaches it, and those
// nothing but the boundary port. All that is tried and fails succeeds for a Pod that the fence does not mean, at the same time.
func fence(t *testing.T, g *ground) {
	ns, elsewhere := g.namespace(t), g.Cluster.Namespace(t, restricted)
	c := g.Cluster
	c.Apply(t, ns, []byte(service))
	b, second := g.box(t, ns), g.box(t, ns)
	for name, place := range map[string]string{"other": ns, "stranger": elsewhere} {
		c.Apply(t, place, fmt.Appendf(nil, probePod, name, cluster.ProbeImage))
	}
	// The network lets in whoever bears the label of a supervisor, in the namespace and in no other.
	impostor := strings.Replace(probePod, "{app: %[1]s}", "{app: %[1]s, openshell.ai/boundary-role: supervisor}", 1)
	for _, place := range []string{ns, elsewhere} {
		c.Apply(t, place, fmt.Appendf(nil, impostor, "impostor", cluster.ProbeImage))
	}
	g.History.Lawless(ns) // the impostor has the label of a supervisor and is none
	s := g.provisionAll(t, b, second)[0]
	other, stranger := c.AwaitPod(t, ns, "other"), c.AwaitPod(t, elsewhere, "stranger")
	peer, foreign := c.AwaitPod(t, ns, "impostor"), c.AwaitPod(t, elsewhere, "impostor")

	port, look := demandNoWayOut(t, g, b, second, s, other, stranger)
	demandNoWayIn(t, g, b, port, peer, other, stranger, foreign)
	if err := look(); err != nil { // it stays so
		t.Error(err)
	}
}

// demandNoWayIn looks at the sandbox from the Pods around it: only peer gets in, and only at the boundary.
func demandNoWayIn(t *testing.T, g *ground, b *supervisor.Box, port string, peer *corev1.Pod, others ...*corev1.Pod) {
	t.Helper()
	workload, err := g.Cluster.Client().CoreV1().Pods(b.Namespace).Get(t.Context(), b.Name, metav1.GetOptions{})
	noError(t, err)
	boundary, err := g.Cluster.Client().CoreV1().Services(b.Namespace).Get(t.Context(), b.ServiceName(), metav1.GetOptions{})
	noError(t, err)
	doors := []string{
		net.JoinHostPort(workload.Status.PodIP, strconv.Itoa(supervisor.Port)), net.JoinHostPort(boundary.Spec.ClusterIP, strconv.Itoa(supervisor.Port)),
	}
	type attempt struct {
		by   *corev1.Pod
		door string
	}
	attempts := []attempt{{peer, net.JoinHostPort(workload.Status.PodIP, port)}}
	for _, door := range doors {
		dials(t, peer, door, true)
		attempts = append(attempts, attempt{nil, door})
		for _, pod := range others {
			attempts = append(attempts, attempt{pod, door})
		}
	}
	each(t, attempts, func(_ int, a attempt) error {
		if a.by == nil { // a program on the machine
			conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(t.Context(), "tcp", a.door)
			if err == nil {
				return errors.Join(fmt.Errorf("the machine reaches %s", a.door), conn.Close())
			}
			return nil
		}
		status, said, err := ask(t.Context(), a.by, "/dial?addr="+url.QueryEscape(a.door))
		if err != nil || status != http.StatusGatewayTimeout {
			return errors.Join(fmt.Errorf("Pod %s/%s dials %s: %d %s", a.by.Namespace, a.by.Name, a.door, status, said), err)
		}
		return nil
	})
}

// demandNoWayOut looks at everything from inside the sandbox and, as a control, from a Pod beside it. It returns a port that a program
// in the sandbox listens on, on every address of its Pod, and what looks again.
func demandNoWayOut(
	t *testing.T, g *ground, b, second *supervisor.Box, s *gatewayside.Session, other, stranger *corev1.Pod,
) (port string, look func() error) {
	t.Helper()
	inside, err := s.Start(companions.Workload("serve", "0.0.0.0:0"), nil)
	noError(t, err)
	noError(t, inside.AwaitOutput(t.Context(), "is open"))
	port = strings.Fields(string(inside.Stdout()))[1]
	api, err := url.Parse(g.Cluster.RESTConfig().Host)
	noError(t, err)
	neighbours, err := g.Cluster.Client().CoreV1().Services(b.Namespace).Get(t.Context(), "other", metav1.GetOptions{})
	noError(t, err)
	targets := []string{
		"tcp:10.96.0.1:443", // the API server's Service
		"tcp:" + api.Host,
		"dns:" + nameServer(t),
		"tcp:" + net.JoinHostPort(other.Status.PodIP, "8080"),
		"tcp:" + net.JoinHostPort(neighbours.Spec.ClusterIP, "80"),
		"tcp:" + net.JoinHostPort(stranger.Status.PodIP, "8080"),
		"tcp:" + listen(t, cluster.HostAddress).Addr().String(),
		"tcp:" + strings.TrimPrefix(g.Endpoint, "http://"), // the gateway is the supervisor's to speak to
		"tcp:" + outside(t),
	}
	cluster.Eventually(t, "the control reaches everything", func(ctx context.Context) error {
		said, err := g.onlooker(ctx, b.Namespace, targets...)
		if found := open(said); err == nil && len(found) != len(targets) {
			err = errors.New(said)
		}
		return err
	})
	// The other sandbox's boundary is closed to the control as well; its supervisor is the control.
	door, err := g.Cluster.Client().CoreV1().Services(b.Namespace).Get(t.Context(), second.ServiceName(), metav1.GetOptions{})
	noError(t, err)
	own := "tcp:" + net.JoinHostPort("127.0.0.1", port) // that a look can find something open
	targets = append(targets, "tcp:"+net.JoinHostPort(door.Spec.ClusterIP, strconv.Itoa(supervisor.Port)), own)
	look = func() error {
		out, err := s.Run(t.Context(), companions.Workload(append([]string{"reach"}, targets...)...), nil)
		if found := open(string(out.Stdout)); err == nil && (!found[own] || len(found) != 1) {
			err = fmt.Errorf("from inside the sandbox:\n%s", out.Stdout)
		}
		return err
	}
	cluster.Eventually(t, "the network encloses the sandbox", func(context.Context) error { return look() })
	if why := fails(t, s, "lookup", "kubernetes.default.svc.cluster.local"); why == "" {
		t.Error("a lookup fails without a word")
	}
	return port, look
}

// anyPod denies everything to every Pod of a namespace that nothing else allows, as platforms do.
const anyPod = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: default-deny}
spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
`

// controlAsked lets the control be asked, whatever it may not do itself.
const controlAsked = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: control-asked}
spec: {podSelector: {matchLabels: {app: control}}, policyTypes: [Ingress], ingress: [{}]}
`

// defaultDeny: a default-deny of the whole namespace does not cut the supervisor, neither from the gateway nor from its workload.
func defaultDeny(t *testing.T, g *ground) {
	ns := g.namespace(t)
	g.Cluster.Apply(t, ns, []byte(anyPod))
	b := g.box(t, ns)
	g.provision(t, b)
	// The control is younger than the supervisor, so what holds for it holds for the supervisor: a new connection proves more than the one
	// that is open. It is one Pod that dials again and again: on a busy machine a Pod that looks once has looked before the network knows it.
	g.Cluster.Apply(t, ns, []byte(controlAsked))
	g.Cluster.Apply(t, ns, fmt.Appendf(nil, probePod, "control", cluster.ProbeImage))
	dials(t, g.Cluster.AwaitPod(t, ns, "control"), strings.TrimPrefix(g.Endpoint, "http://"), false)
	pod, err := g.Cluster.Client().CoreV1().Pods(ns).Get(t.Context(), b.SupervisorName(), metav1.GetOptions{})
	noError(t, err)
	// The session that is cut is the one of now: one that a busy machine had renewed meanwhile would be taken for the one after the cut.
	s, err := g.await(t.Context(), b)
	noError(t, err)
	if g.cut(pod.Status.PodIP) == 0 {
		t.Fatal("the supervisor has no connection to cut")
	}
	demandOver(t, s)
	s, err = g.await(t.Context(), b)
	noError(t, err)
	if got := does(t, s, "echo", "alive"); got != "alive" {
		t.Errorf("the channel says %q", got)
	}
	g.awaitStatus(t, b, supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_READY)
}
