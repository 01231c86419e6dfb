package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// TestDriver: what the gateway sees of sandboxes that really run, through all four daemons.
func TestDriver(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	t.Run("live update", func(t *testing.T) {
		t.Parallel()
		liveUpdate(t, h)
	})
	t.Run("platform events", func(t *testing.T) {
		t.Parallel()
		platformEvents(t, h)
	})
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trouble.demand(t, h)
		})
	}
}

// liveUpdate: the label of a namespace, or the file that names it, decides, from the moment on at which it changes, about new sandboxes, starts
// and tokens, and about nothing that is there.
func liveUpdate(t *testing.T, h *house) {
	ns := h.namespace(t, "team")
	h.demandRefused(t, ns, "early", codes.PermissionDenied) // by EnsureWorkspace, which the gateway asks first for a workspace it does not know
	h.admit(t, ns, true)
	h.awaitAllowed(t, ns)
	boxes := make([]gateway.Sandbox, 2)
	wishes := []gateway.Wish{h.wish(t, ns, "runs"), h.wish(t, ns, "rests")}
	each(t, wishes, func(i int, w gateway.Wish) (err error) {
		boxes[i], err = h.create(t, w)
		return err
	})
	runs, rests := boxes[0], boxes[1]
	if got := h.does(t, runs.ID, "echo", "hello"); got != "hello" {
		t.Errorf("the command says %q", got)
	}
	before := h.traces(t, runs)

	h.admit(t, ns, false)
	h.awaitRefused(t, ns)
	h.demandRefused(t, ns, "late", codes.FailedPrecondition)
	if got := h.does(t, runs.ID, "echo", "still here"); got != "still here" {
		t.Errorf("after its namespace was taken off the list the command says %q", got)
	}
	h.demandListed(t, runs, rests)
	h.demandNoToken(t, runs)
	h.demandStopped(t, rests)
	h.demandNoStart(t, rests)
	h.remove(t, rests)
	h.demandListed(t, runs)
	h.demandTraces(t, runs, before)

	h.admit(t, ns, true)
	h.awaitAllowed(t, ns)
	h.demandToken(t, runs)
	h.demandTraces(t, runs, before)
	wishes = []gateway.Wish{h.wish(t, ns, "again"), {}}
	each(t, wishes, func(i int, w gateway.Wish) (err error) {
		if i == 0 {
			boxes[0], err = h.create(t, w)
			return err
		}
		return h.restart(t, runs)
	})
	h.remove(t, boxes[0])
	h.remove(t, runs)
}

// awaitRefused waits until the workspace may not be used any more, and demands that the answer is no, not that nobody knows.
func (h *house) awaitRefused(t testing.TB, namespace string) {
	t.Helper()
	former := h.said(mesh.Lifecycle, "refused", namespace)
	var answer error
	cluster.Eventually(t, "workspace "+namespace+" may not be used", func(ctx context.Context) error {
		if answer = h.gateway.EnsureWorkspace(ctx, namespace); answer == nil {
			return errors.New("it may")
		}
		return nil
	})
	if status.Code(answer) != codes.PermissionDenied {
		t.Errorf("EnsureWorkspace answers %v", answer)
	}
	h.demandExplained(t, mesh.Lifecycle, "refused", namespace, former, "not_listed")
}

// demandRefused asks for a sandbox, which must be refused, with the reason in the log, and leave nothing.
func (h *house) demandRefused(t testing.TB, namespace, name string, code codes.Code) {
	t.Helper()
	former := h.said(mesh.Lifecycle, "refused", namespace)
	_, err := h.gateway.Create(t.Context(), h.wish(t, namespace, name))
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), "allowlist") {
		t.Errorf("create answers %v, want %s", err, code)
	}
	h.demandExplained(t, mesh.Lifecycle, "refused", namespace, former, "not_listed")
	if _, err := h.gateway.Find(namespace, name); status.Code(err) != codes.NotFound {
		t.Errorf("the gateway has a row of %s: %v", name, err)
	}
	all, err := h.c.Dynamic().Resource(api.V1beta1.Resource()).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	noError(t, err)
	for _, one := range all.Items {
		if one.GetName() == name {
			t.Errorf("the Sandbox %s was made", name)
		}
	}
}

// demandListed demands that the driver answers for each of the sandboxes, and has no others of their namespace.
func (h *house) demandListed(t testing.TB, boxes ...gateway.Sandbox) {
	t.Helper()
	var want, got []string
	for _, b := range boxes {
		want = append(want, b.ID)
		answer, err := h.driver.GetSandbox(t.Context(), &computev1.GetSandboxRequest{SandboxId: b.ID})
		if err != nil || answer.GetSandbox().GetName() != b.Name || answer.GetSandbox().GetStatus().GetDeleting() {
			t.Errorf("the driver says of %s: %v, %v", b.Name, answer, err)
		}
	}
	all, err := h.driver.ListSandboxes(t.Context(), &computev1.ListSandboxesRequest{})
	noError(t, err)
	for _, one := range all.GetSandboxes() {
		if one.GetWorkspace() == boxes[0].Workspace {
			got = append(got, one.GetId())
		}
	}
	if !sameSet(got, want) {
		t.Errorf("the driver lists %q, want %q", got, want)
	}
}

// exchanged cuts the session of the sandbox's supervisor, which then comes again with its projected token, and returns what the gateway
// made of that.
func (h *house) exchanged(t testing.TB, s gateway.Sandbox, cut bool, kinds ...gateway.Kind) gateway.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	events := h.gateway.Subscribe()
	defer events.Close()
	if cut {
		noError(t, h.gateway.Drop(ctx, s.ID))
	}
	e, err := events.Await(ctx, func(e gateway.Event) bool { return e.SandboxID == s.ID && slices.Contains(kinds, e.Kind) })
	noError(t, err)
	return e
}

// demandNoToken demands that a new exchange is refused, for the reason of the list.
func (h *house) demandNoToken(t testing.TB, s gateway.Sandbox) {
	t.Helper()
	former := h.said(mesh.Tokenauth, "bearer refused", s.Workspace)
	e := h.exchanged(t, s, true, gateway.TokenIssued, gateway.TokenRefused)
	if e.Kind != gateway.TokenRefused || e.Reason != codes.PermissionDenied.String() {
		t.Errorf("the exchange: %s", e)
	}
	h.demandExplained(t, mesh.Tokenauth, "bearer refused", s.Workspace, former, "not_listed")
}

// demandToken demands that the supervisor, which tries again and again, is let in, and that the sandbox is of use.
func (h *house) demandToken(t testing.TB, s gateway.Sandbox) {
	t.Helper()
	if got := h.does(t, s.ID, "echo", "back"); got != "back" { // it waits for the session
		t.Errorf("the command says %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	now, err := h.await(ctx, s.ID, phase.Ready)
	noError(t, err)
	if now.RuntimeIdentity != s.RuntimeIdentity {
		t.Errorf("it has become %s, and was %s", now.RuntimeIdentity, s.RuntimeIdentity)
	}
}

// demandStopped stops a sandbox.
func (h *house) demandStopped(t testing.TB, s gateway.Sandbox) {
	t.Helper()
	noError(t, h.stop(t, s))
}

func (h *house) stop(t testing.TB, s gateway.Sandbox) error {
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	if err := h.gateway.Stop(ctx, s.ID); err != nil {
		return fmt.Errorf("stop %s: %w", s.Name, err)
	}
	_, err := h.await(ctx, s.ID, phase.Stopped)
	return err
}

// demandNoStart demands that a start is refused as a create is, and changes nothing.
func (h *house) demandNoStart(t testing.TB, s gateway.Sandbox) {
	t.Helper()
	former := h.said(mesh.Lifecycle, "refused", s.Workspace)
	if _, err := h.gateway.Start(t.Context(), s.ID); status.Code(err) != codes.FailedPrecondition || !strings.Contains(status.Convert(err).Message(), "allowlist") {
		t.Errorf("start answers %v", err)
	}
	h.demandExplained(t, mesh.Lifecycle, "refused", s.Workspace, former, "not_listed")
	if now, err := h.gateway.Get(s.ID); err != nil || now.Phase != phase.Stopped {
		t.Errorf("after the refusal it is %s, %v", now.Phase, err)
	}
}

// restart stops a sandbox and starts it anew.
func (h *house) restart(t testing.TB, s gateway.Sandbox) error {
	if err := h.stop(t, s); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	if _, err := h.gateway.Start(ctx, s.ID); err != nil {
		return fmt.Errorf("start %s: %w", s.Name, err)
	}
	now, err := h.await(ctx, s.ID, phase.Ready)
	if err == nil && now.RuntimeIdentity == s.RuntimeIdentity {
		err = errors.New("the new run has the identity of the old one")
	}
	return err
}

// traces are what changes when somebody touches a sandbox that runs: the containers of its Pods, its Secrets, and its fence.
func (h *house) traces(t testing.TB, s gateway.Sandbox) map[string]string {
	t.Helper()
	found := map[string]string{}
	namespace, name := h.place(s.Workspace, s.Name)
	core := h.c.Client().CoreV1()
	pods, err := core.Pods(namespace).List(t.Context(), metav1.ListOptions{})
	noError(t, err)
	for _, pod := range pods.Items {
		if pod.Name != name && !strings.Contains(pod.Name, s.ID) {
			continue
		}
		found["Pod "+pod.Name] = fmt.Sprint(pod.UID, pod.DeletionTimestamp, pod.Status.Phase)
		for _, c := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			found["container "+c.Name+" of "+pod.Name] = fmt.Sprint(c.ContainerID, c.RestartCount, began(c.State))
		}
	}
	secrets, err := core.Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	noError(t, err)
	for _, secret := range secrets.Items {
		if strings.Contains(secret.Name, s.ID) {
			found["Secret "+secret.Name] = string(secret.UID) + secret.ResourceVersion
		}
	}
	policies, err := h.c.Client().NetworkingV1().NetworkPolicies(namespace).List(t.Context(), metav1.ListOptions{})
	noError(t, err)
	for _, policy := range policies.Items {
		found["NetworkPolicy "+policy.Name] = string(policy.UID) + policy.ResourceVersion
	}
	const least = 2 + 4 + 2 + 2 // two Pods with their containers, two Secrets, the fence
	if len(found) < least {
		t.Fatalf("of a sandbox that runs there are only %v", found)
	}
	return found
}

func began(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "runs since " + s.Running.StartedAt.String()
	case s.Terminated != nil:
		return "ended at " + s.Terminated.FinishedAt.String()
	default:
		return "waits"
	}
}

func (h *house) demandTraces(t testing.TB, s gateway.Sandbox, want map[string]string) {
	t.Helper()
	if got := h.traces(t, s); !maps.Equal(got, want) {
		t.Errorf("the sandbox was touched:\n%v\nbefore:\n%v", got, want)
	}
}
