package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/companions/gatewayside"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// Sandboxes that really run, beside each other, each in a namespace of its own. What holds at every moment for all of them the
// History of package supervisor judges.
func TestSandboxes(t *testing.T) {
	t.Parallel()
	g := newGround(t, supervisor.Operator)
	for name, run := range map[string]func(*testing.T, *ground){
		"life": life, "fence": fence, "default deny": defaultDeny, "refusals": refusals, "load": load,
		"workload is lost": lost,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, g)
		})
	}
}

// life: a command runs inside a fenced Pod through the channel, its output comes back, and what it wrote is there in the next run.
func life(t *testing.T, g *ground) {
	b := g.box(t, g.namespace(t))
	demandRestricted(t, g, b.Namespace)
	s := g.provision(t, b)
	demandConfirmation(t, g, b, s)
	if got := does(t, s, "echo", "hello", "gateway"); got != "hello gateway" {
		t.Errorf("the command says %q", got)
	}
	if got, want := does(t, s, "ids"), fmt.Sprint(supervisor.User, supervisor.Group); got != want {
		t.Errorf("the command runs as %q, want %q", got, want)
	}
	env := strings.Fields(does(t, s, "env"))
	if slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "OPENSHELL_") || strings.HasPrefix(e, "KUBERNETES_") }) || !slices.Contains(env, "GREETING=hello") {
		t.Errorf("the command's environment is %q", env)
	}
	for _, path := range []string{
		"/.openshell/bootstrap-input/tls.key", "/.openshell/state/bootstrap/tls.key", "/.openshell/state/bootstrap/boundary.json",
		"/var/run/secrets/kubernetes.io/serviceaccount/token", "/var/run/secrets/openshell/token",
	} {
		if why := fails(t, s, "cat", path); !strings.Contains(why, "no such file") {
			t.Errorf("%s: %s", path, why)
		}
	}
	does(t, s, "cat", "/sandbox/.workspace-initialized")
	does(t, s, "write", "/sandbox/kept", "word")
	g.awaitStatus(t, b, supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_READY)
	if got := readiness(t, b); got != "ready" {
		t.Errorf("the Sandbox publishes %s", got)
	}

	s = g.restart(t, 2, b)[0] // over the run that stands
	demandConfirmation(t, g, b, s)
	if got := does(t, s, "cat", "/sandbox/kept"); got != "word" {
		t.Errorf("the next run finds %q in its workspace", got)
	}
	g.awaitStatus(t, b, supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_READY)
	g.release(t, b)
	demandOver(t, s)
	if got := readiness(t, b); got != "unavailable" {
		t.Errorf("stopped, the Sandbox publishes %s", got)
	}
	demandLeft(t, g, b, supervisor.Services+"/"+b.ServiceName())
	g.remove(t, b)
	demandLeft(t, g, b)
}

// demandRestricted demands that the namespace takes hardened Pods only, so that what runs in it is known to be hardened.
func demandRestricted(t testing.TB, g *ground, namespace string) {
	t.Helper()
	_, err := g.Cluster.Client().CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "careless"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: cluster.ProbeImage}}},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "restricted") {
		t.Errorf("a Pod that is not hardened: %v", err)
	}
}

// demandOver waits for the end of a session whose supervisor is gone.
func demandOver(t testing.TB, s *gatewayside.Session) {
	t.Helper()
	select {
	case <-s.Over():
	case <-time.After(upLimit):
		t.Fatal("the supervisor is gone, and its session goes on")
	}
}

// demandConfirmation compares what the runtime measured in its Pod with the objects in the cluster.
func demandConfirmation(t testing.TB, g *ground, b *supervisor.Box, s *gatewayside.Session) {
	t.Helper()
	c := s.Confirmation()
	if !c.PrivilegeFloor.Enforced || !c.RuntimeExitTerminatesWorkload {
		t.Errorf("the Pod gives the command privileges: %+v", c.PrivilegeFloor)
	}
	namespace, err := g.Cluster.Client().CoreV1().Namespaces().Get(t.Context(), b.Namespace, metav1.GetOptions{})
	noError(t, err)
	now, err := g.History.Look(t.Context(), b.Namespace)
	noError(t, err)
	fence := now[supervisor.Policies+"/openshell-sandbox-workloads"]
	for claim, want := range map[string]string{
		"namespace_uid": string(namespace.UID), "sandbox_resource_uid": b.UID,
		"workload_pod_uid":   string(now[supervisor.Pods+"/"+b.Name].GetUID()),
		"supervisor_pod_uid": string(now[supervisor.Pods+"/"+b.SupervisorName()].GetUID()),
		"egress_policy_uid":  string(fence.GetUID()), "egress_policy_resource_version": fence.GetResourceVersion(),
	} {
		if got := c.ResourceClaims["kubernetes."+claim]; got != want {
			t.Errorf("the runtime confirms %s %q, want %q", claim, got, want)
		}
	}
}

// demandLeft demands that these objects are left of the set, and no others.
func demandLeft(t testing.TB, g *ground, b *supervisor.Box, want ...string) {
	t.Helper()
	now, err := g.History.Look(t.Context(), b.Namespace)
	noError(t, err)
	if got := now.Companions(); !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
}

// sameSet compares without regard to order.
func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
