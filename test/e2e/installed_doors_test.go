//go:build portcullis_long

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// askersDoor lets the test ask Pods that a policy of the mesh means: policies add up.
const askersDoor = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: askers}
spec:
  podSelector: {matchLabels: {test: asker}}
  policyTypes: [Ingress]
  ingress: [{from: [{ipBlock: {cidr: ` + cluster.HostAddress + `/32}}], ports: [{port: 8080}]}]
`

// asker is a Pod that dials, known to policies by its labels.
type asker struct {
	name, namespace string
	labels          map[string]string
	// opens are the doors that open to it; all others do not.
	opens []string
}

// The doors of an installation, by their names: a dial tries every Pod behind one. Peers of NATS have none while there is one server.
const (
	clientDoor    = "nats.portcullis.svc:4222"
	monitorDoor   = "nats.portcullis.svc:8222"
	reviewDoor    = "tokenauth.portcullis.svc:8443"
	provisionDoor = "supervisorctl.portcullis.svc:8444"
	relaysDoor    = "lifecycle.portcullis.svc:8445"
	apiDoor       = "10.96.0.1:443"
)

func metricsDoor(daemon string) string { return daemon + ".portcullis.svc:9464" }

// closed: what the mesh serves is for those alone whom its policies name, though every name resolves for everybody; and who has the
// labels of a daemon reaches what that daemon calls, and nothing else. No Pod has the labels of NATS beside it, on one node.
func closed(t *testing.T, i *installation) {
	pod, err := i.c.Client().CoreV1().Pods(installed).Get(t.Context(), gatewayPod, metav1.GetOptions{})
	noError(t, err)
	relay := net.JoinHostPort(pod.Status.PodIP, "9465")
	elsewhere := i.c.Namespace(t, restricted)
	clients := i.c.Namespace(t, restricted, map[string]string{"portcullis.openshell.ai/nats": "client"})
	monitoring := i.c.Namespace(t, restricted, map[string]string{"portcullis.openshell.ai/metrics": "scrape"})
	open := startProbe(t, i.c, elsewhere, "open") // to everybody
	anybody := net.JoinHostPort(open.Status.PodIP, "8080")
	client := map[string]string{"portcullis.openshell.ai/nats": "client"}
	metrics := []string{relay, monitorDoor}
	for _, daemon := range mesh.Daemons() {
		metrics = append(metrics, metricsDoor(daemon))
	}
	doors := append([]string{clientDoor, reviewDoor, provisionDoor, relaysDoor, apiDoor, anybody}, metrics...)
	daemon := func(name string) map[string]string { return map[string]string{"app.kubernetes.io/name": name} }
	everywhere := func(opens ...string) []string { return append(opens, apiDoor, anybody) }
	i.dialAll(t, doors, []asker{
		{name: "stranger", namespace: elsewhere, opens: everywhere()},
		{name: "pretender", namespace: elsewhere, labels: client, opens: everywhere()},
		{name: "reader", namespace: clients, labels: client, opens: everywhere(clientDoor)},
		{name: "reader-without-label", namespace: clients, opens: everywhere()},
		{name: "monitor", namespace: monitoring, opens: everywhere(metrics...)},
		{name: "operator", namespace: installed, labels: client, opens: everywhere(clientDoor)},
		{name: "neighbour", namespace: installed, opens: everywhere()},
		{name: "as-nswatch", namespace: installed, labels: daemon(mesh.Nswatch), opens: []string{clientDoor, apiDoor}},
		{name: "as-tokenauth", namespace: installed, labels: daemon(mesh.Tokenauth), opens: []string{clientDoor, apiDoor}},
		{name: "as-supervisorctl", namespace: installed, labels: daemon(mesh.Supervisorctl), opens: []string{apiDoor}},
		{name: "as-lifecycle", namespace: installed, labels: daemon(mesh.Lifecycle), opens: []string{clientDoor, apiDoor, reviewDoor, provisionDoor}},
		{name: "as-relay", namespace: installed, labels: map[string]string{"portcullis.openshell.ai/sidecar": "relay"}, opens: []string{relaysDoor}},
	})
}

// dialAll has every Pod dial every door, and takes the Pods away: some would be taken for a daemon's.
func (i *installation) dialAll(t *testing.T, doors []string, askers []asker) {
	t.Helper()
	policed := map[string]bool{}
	for _, a := range askers {
		if !policed[a.namespace] {
			i.c.Apply(t, a.namespace, []byte(askersDoor))
			policed[a.namespace] = true
		}
		i.c.Apply(t, a.namespace, a.manifest())
	}
	var all sync.WaitGroup
	for _, a := range askers {
		pod := i.c.AwaitPod(t, a.namespace, a.name)
		opens := map[string]bool{}
		for _, door := range a.opens {
			opens[door] = true
		}
		all.Go(func() {
			// Twice: at first it may be that nothing opens since the Pod's network is new.
			for _, door := range slices.Concat(doors, doors) {
				if err := reaches(t.Context(), pod, door, opens[door]); err != nil {
					t.Errorf("%s, door %s, which should open: %v: %v", a.name, door, opens[door], err)
				}
			}
		})
	}
	all.Wait()
	for _, a := range askers {
		pods := i.c.Client().CoreV1().Pods(a.namespace)
		noError(t, pods.Delete(t.Context(), a.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	}
}

// manifest is a probe with the asker's labels.
func (a asker) manifest() []byte {
	own := labels.Set{"test": "asker"}
	for key, value := range a.labels {
		own[key] = value
	}
	var said []string
	for key, value := range own {
		said = append(said, key+": "+value)
	}
	return fmt.Appendf(nil, strings.Replace(probePod, "{app: %[1]s}", "{"+strings.Join(said, ", ")+"}", 1), a.name, cluster.ProbeImage)
}

// reaches waits until a connection from inside the Pod opens, or several in a row are blocked, as wanted, and says what is instead.
func reaches(ctx context.Context, pod *corev1.Pod, door string, want bool) error {
	const settled = 90 * time.Second // ends a wait for what will never be
	last, left := errors.New("nothing was tried"), 1
	const sure = 3 // a dial that a busy machine made too late is no closed door
	if !want {
		left = sure
	}
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, settled, true, func(ctx context.Context) (bool, error) {
		got, body, err := ask(ctx, pod, "/dial?addr="+url.QueryEscape(door))
		last = fmt.Errorf("it is answered %d %s: %w", got, strings.TrimSpace(body), errors.Join(err))
		// That a name is not known yet is no closed door.
		if as := err == nil && (got == http.StatusOK) == want && !strings.Contains(body, "lookup"); as {
			left--
		} else if !want {
			left = sure
		}
		return left <= 0, nil
	})
	if err != nil {
		return last
	}
	return nil
}

// doorPod listens at two ports, where supervisors do for SSH and where nobody does.
const doorPod = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {%[2]s}}
spec:
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 10001, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: door
      image: portcullis.test/door:1
      args: [":2222=/nowhere.sock", ":2223=/nowhere.sock"]
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
`

// demandSSH: in a workspace that a platform team has prepared the gateway alone gets to supervisors, at the port for SSH alone, though its Pod is
// bounded by what is beside it.
func (i *installation) demandSSH(t *testing.T) {
	t.Helper()
	ns, elsewhere := i.workspace(t, "ssh"), i.c.Namespace(t, restricted)
	i.c.Apply(t, ns, fmt.Appendf(nil, doorPod, "supervisor", "openshell.ai/managed-by: openshell, openshell.ai/boundary-role: supervisor"))
	i.c.Apply(t, ns, fmt.Appendf(nil, doorPod, "plain", "app: plain"))
	at := func(name, port string) string {
		return net.JoinHostPort(i.c.AwaitPod(t, ns, name).Status.PodIP, port)
	}
	ssh, other, plain := at("supervisor", "2222"), at("supervisor", "2223"), at("plain", "2222")
	gateway := map[string]string{"app.kubernetes.io/name": "openshell", "portcullis.openshell.ai/sidecar": i.sidecar}
	i.dialAll(t, []string{ssh, other, plain}, []asker{
		{name: "as-gateway", namespace: installed, labels: gateway, opens: []string{ssh}},
		{name: "stranger", namespace: elsewhere, opens: []string{plain}},
		{name: "neighbour", namespace: ns, opens: []string{plain}},
	})
}
