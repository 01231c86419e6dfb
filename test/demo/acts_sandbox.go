package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

var sandboxes = api.V1beta1.Resource()

// create is the second act.
func (w *World) create(ctx context.Context, t *Timeline) error {
	quiet := w.narrate(t)
	defer quiet()
	events := w.gateway.Subscribe()
	defer events.Close()
	order, err := w.watchOrder(ctx)
	if err != nil {
		return err
	}
	defer order.stop()
	began := time.Now()
	err = t.Check("create, answered by the driver", func() (string, error) {
		made, err := w.gateway.Create(ctx, w.wish(boxName))
		w.box = made.ID
		return "id " + made.ID, err
	})
	if err != nil {
		return err
	}
	if err := t.Check("what stands around the workload", func() (string, error) { return w.companions(ctx) }); err != nil {
		return err
	}
	if err := t.Check("in this order", func() (string, error) { return order.judge(ctx, w.box) }); err != nil {
		return err
	}
	if !w.site.Real {
		t.NotShown("the supervisor's program", "no kubelet runs Pods here: the demo plays it, with the token that the API server issues for the supervisor's Pod, "+
			"and says that it holds a runtime, which nobody runs")
		w.attend(ctx)
	}
	if err := t.Check("the supervisor proves who it is", func() (string, error) { return w.exchanged(ctx, events) }); err != nil {
		return err
	}
	if err := t.Check("another Pod's token gets nothing", func() (string, error) { return w.impostor(ctx) }); err != nil {
		return err
	}
	if err := w.awaitReady(ctx, t, "Ready"); err != nil {
		return err
	}
	t.Held("from the create to Ready", time.Since(began), "")
	return nil
}

// awaitReady waits for the phase, and shows what became of the Pods when it does not come.
func (w *World) awaitReady(ctx context.Context, t *Timeline, what string) error {
	return t.Check(what, func() (string, error) {
		ctx, cancel := context.WithTimeout(ctx, longWait)
		defer cancel()
		s, err := w.gateway.AwaitPhase(ctx, w.box, phase.Ready)
		if err != nil {
			return "", fmt.Errorf("%w\n%s", err, w.pods(context.WithoutCancel(ctx)))
		}
		return "runtime identity " + short(s.RuntimeIdentity), w.caughtUp(ctx, phase.Ready)
	})
}

func short(identity string) string {
	const most = 34
	if len(identity) > most {
		return identity[:most] + "…"
	}
	return identity
}

// exchanged waits for the token that the gateway gave for the Pod's own.
func (w *World) exchanged(ctx context.Context, events *gateway.Subscription) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, longWait)
	defer cancel()
	var refused []string
	_, err := events.Await(ctx, func(e gateway.Event) bool {
		if e.Kind == gateway.TokenRefused && e.SandboxID == w.box {
			refused = append(refused, e.Reason+": "+e.Message)
		}
		return e.Kind == gateway.TokenIssued && e.SandboxID == w.box
	})
	if err != nil {
		return "", fmt.Errorf("no token was issued: %w; refused: %v\n%s", err, refused, w.pods(context.WithoutCancel(ctx)))
	}
	return "its projected token for one of the gateway", nil
}

// narrate tells what the gateway sees of the sandbox, until what it returns is called.
func (w *World) narrate(t *Timeline) (quiet func()) {
	events := w.gateway.Subscribe()
	now, _ := w.gateway.Get(w.box) // or there is none yet
	w.narrated.Store(&now.Phase)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			e, err := events.Next(ctx)
			if err != nil {
				return
			}
			if what, detail := told(e); what != "" {
				t.Note(what, detail)
			}
			if e.Kind == gateway.PhaseChanged && e.Name == boxName {
				w.narrated.Store(&e.To)
			}
		}
	}()
	return func() {
		cancel()
		<-done
		events.Close()
	}
}

// caughtUp waits until the narration has told that the sandbox is in the phase, so that what follows from that is told behind it.
func (w *World) caughtUp(ctx context.Context, wanted phase.Phase) error {
	return eventually(ctx, func() error {
		if last := *w.narrated.Load(); last != wanted {
			return fmt.Errorf("the gateway has told of %s, not of %s", last, wanted)
		}
		return nil
	})
}

// told is an event for people; empty for one that says nothing to them.
func told(e gateway.Event) (what, detail string) {
	switch e.Kind {
	case gateway.PhaseChanged:
		return fmt.Sprintf("gateway: %s -> %s", e.From, e.To), e.Reason
	case gateway.SessionConfirmed:
		return "gateway: supervisor holds the runtime", ""
	case gateway.SessionEnded:
		return "gateway: supervisor's session ended", e.Reason
	case gateway.Platform:
		return platform(e.Platform.GetType(), e.Platform.GetReason(), e.Platform.GetMessage())
	default:
		return "", ""
	}
}

// platform is an event of a Pod for people: where Pods went, what is pulled, and warnings but for those that every start has.
func platform(kind, reason, message string) (what, detail string) {
	switch reason {
	case "Scheduled":
		// "Successfully assigned NAMESPACE/POD to NODE"
		_, pod, _ := strings.Cut(message, "/")
		pod, node, _ := strings.Cut(pod, " to ")
		if strings.HasPrefix(pod, workspace.SupervisorPod("")) {
			pod = workspace.SupervisorPod("…")
		}
		return "driver: Pod scheduled", pod + " on " + node
	case "Pulling":
		return "driver: image is pulled", clip(message)
	case "Unhealthy", "MissingClusterDNS":
		return "", ""
	}
	if kind != corev1.EventTypeWarning {
		return "", ""
	}
	return "driver: " + reason, clip(message)
}

// clip keeps a line short that nobody promised to be.
func clip(text string) string {
	const most = 120
	text, _, _ = strings.Cut(text, "\n")
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// companions are all that belongs to the sandbox; the two policies, the Service, the supervisor's Pod and the Secrets must be there, and
// both Pods let go.
func (w *World) companions(ctx context.Context) (string, error) {
	core := w.client.CoreV1()
	policies, err1 := w.client.NetworkingV1().NetworkPolicies(w.team).List(ctx, metav1.ListOptions{})
	services, err2 := core.Services(w.team).List(ctx, metav1.ListOptions{})
	pods, err3 := core.Pods(w.team).List(ctx, metav1.ListOptions{})
	secrets, err4 := core.Secrets(w.team).List(ctx, metav1.ListOptions{})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return "", err
	}
	var names []string
	for _, one := range policies.Items {
		names = append(names, "NetworkPolicy "+one.Name)
	}
	for _, one := range services.Items {
		names = append(names, "Service "+one.Name)
	}
	for _, one := range secrets.Items {
		names = append(names, "Secret "+one.Name)
	}
	for _, one := range pods.Items {
		if len(one.Spec.SchedulingGates) > 0 {
			return "", fmt.Errorf("the driver has answered, and Pod %s is held: %v", one.Name, one.Spec.SchedulingGates)
		}
		names = append(names, "Pod "+one.Name)
	}
	for _, want := range []string{
		"NetworkPolicy " + workspace.WorkloadFence, "Service " + workspace.BoundaryService(w.box), "Pod " + workspace.SupervisorPod(w.box),
	} {
		if !slices.Contains(names, want) {
			return "", fmt.Errorf("there is no %s, only %s", want, strings.Join(names, ", "))
		}
	}
	if len(secrets.Items) != 2 || len(pods.Items) != 2 {
		return "", fmt.Errorf("two Secrets and two Pods should be there, not %s", strings.Join(names, ", "))
	}
	return strings.Join(names, "\n"), nil
}

// pods says what became of them, for people who look for a fault.
func (w *World) pods(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	pods, err := w.client.CoreV1().Pods(w.team).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, pod := range pods.Items {
		fmt.Fprintf(&b, "Pod %s is %s %s\n", pod.Name, pod.Status.Phase, pod.Status.Message)
		for _, c := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			switch {
			case c.State.Waiting != nil:
				fmt.Fprintf(&b, "  %s waits: %s %s\n", c.Name, c.State.Waiting.Reason, c.State.Waiting.Message)
			case c.State.Terminated != nil:
				fmt.Fprintf(&b, "  %s ended with code %d: %s\n", c.Name, c.State.Terminated.ExitCode, c.State.Terminated.Message)
			}
		}
	}
	return b.String()
}
