package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fenced is the third act.
func (w *World) fenced(ctx context.Context, t *Timeline) error {
	if !w.site.Real {
		why := "Pods are objects here that nobody runs. As root 'make demo' starts a real node; KUBE=current takes a cluster of yours"
		t.NotShown("a command in the Pod, and its output", why)
		t.NotShown("that its egress is blocked", why)
		return nil
	}
	if err := w.command(ctx, t, "hello from inside", "echo", "hello", "from", "inside"); err != nil {
		return err
	}
	if err := w.command(ctx, t, "", "write", note, "kept"); err != nil {
		return err
	}
	return w.egress(ctx, t)
}

// exec runs the workload program in the sandbox.
func (w *World) exec(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, shortWait)
	defer cancel()
	out, err := w.gateway.Exec(ctx, w.box, append([]string{"/" + workloadProgram}, args...), nil)
	if err != nil {
		return "", err
	}
	if out.Exit.Code != 0 {
		return "", fmt.Errorf("it ended with code %d: %s", out.Exit.Code, out.Stderr)
	}
	return string(out.Stdout), nil
}

// note is a file in the sandbox's workspace.
const note = "/sandbox/note"

// command runs the workload program in the sandbox, and shows what it says, which must be this.
func (w *World) command(ctx context.Context, t *Timeline, want string, args ...string) error {
	said := ""
	err := t.Check("$ "+workloadProgram+" "+strings.Join(args, " "), func() (_ string, err error) {
		if said, err = w.exec(ctx, args...); err == nil && strings.TrimSpace(said) != want {
			err = fmt.Errorf("it said %q, not %q", said, want)
		}
		return "", err
	})
	t.Quote(said)
	return err
}

// target is an address with a name for people.
type target struct{ name, address string }

// targets are what a program in a Pod could want to reach.
func (w *World) targets(ctx context.Context) ([]target, error) {
	api, err := w.client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("find the API server's Service: %w", err)
	}
	return []target{
		{"the Kubernetes API", "tcp:" + net.JoinHostPort(api.Spec.ClusterIP, "443")},
		{"the OpenShell gateway", "tcp:" + w.address},
	}, nil
}

// egress looks at the same targets from the sandbox and from a Pod beside it that has no fence.
func (w *World) egress(ctx context.Context, t *Timeline) error {
	targets, err := w.targets(ctx)
	if err != nil {
		return err
	}
	var addresses []string
	for _, one := range targets {
		addresses = append(addresses, one.address)
	}
	err = t.Check("control: an ordinary Pod beside it reaches all", func() (string, error) {
		said, err := w.onlooker(ctx, addresses)
		if err != nil {
			return "", err
		}
		return table(targets, said, true)
	})
	if err != nil {
		return err
	}
	stop, own, err := w.listenInside(ctx)
	if err != nil {
		return err
	}
	defer stop()
	inside := append([]target{{"itself (that a look can succeed)", own}}, targets...)
	return t.Check("the sandbox reaches none of them", func() (string, error) {
		ctx, cancel := context.WithTimeout(ctx, shortWait)
		defer cancel()
		var seen string
		err := eventually(ctx, func() error {
			said, err := w.exec(ctx, append([]string{"reach", own}, addresses...)...)
			if err != nil {
				return err
			}
			seen, err = table(inside, said, false)
			return err
		})
		return seen, err
	})
}

// table says of each target what a look found. All must be open, or all but the first closed.
func table(targets []target, said string, open bool) (string, error) {
	found := map[string]string{}
	for line := range strings.Lines(said) {
		address, how, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[address] = how
	}
	var (
		lines []string
		wrong []string
	)
	for i, one := range targets {
		how := found[one.address]
		want := open || i == 0
		if how != "open" && how != "" && !want {
			how = "blocked (" + lastPart(how) + ")"
		}
		line := fmt.Sprintf("  %-34s %-26s %s", one.name, strings.TrimPrefix(one.address, "tcp:"), how)
		lines = append(lines, line)
		if how == "" || (how == "open") != want {
			wrong = append(wrong, line)
		}
	}
	if len(wrong) > 0 {
		return "", errors.New("this is not so:\n" + strings.Join(wrong, "\n"))
	}
	return strings.Join(lines, "\n"), nil
}

// lastPart is the cause at the end of one of Go's errors.
func lastPart(text string) string {
	return strings.TrimSpace(text[strings.LastIndex(text, ":")+1:])
}

// listenInside has a program in the sandbox listen on its loopback, so that a look from there can find something open.
func (w *World) listenInside(ctx context.Context) (stop func(), address string, err error) {
	ctx, cancel := context.WithTimeout(ctx, shortWait)
	defer cancel()
	session, err := w.gateway.Session(ctx, w.box)
	if err != nil {
		return nil, "", err
	}
	p, err := session.Start([]string{"/" + workloadProgram, "serve", "127.0.0.1:0"}, nil)
	if err != nil {
		return nil, "", err
	}
	if err := p.AwaitOutput(ctx, "is open"); err != nil {
		return nil, "", errors.Join(err, p.Cancel())
	}
	words := strings.Fields(string(p.Stdout()))
	if len(words) < 2 {
		return nil, "", errors.Join(fmt.Errorf("the listener in the sandbox said %q", p.Stdout()), p.Cancel())
	}
	return func() { _ = p.Cancel() }, "tcp:" + net.JoinHostPort("127.0.0.1", words[1]), nil
}

// onlooker runs one look in a Pod of its own, in the same namespace and with the same image, which no policy of ours selects.
func (w *World) onlooker(ctx context.Context, addresses []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, longWait)
	defer cancel()
	pods := w.client.CoreV1().Pods(w.team)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "onlooker-", Labels: map[string]string{"app": "onlooker"}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: new(int64(65532)), RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "look", Image: w.images.workload, Command: append([]string{"/" + workloadProgram, "reach"}, addresses...),
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make the Pod beside the sandbox: %w", err)
	}
	name := pod.Name
	defer func() {
		_ = pods.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	}()
	for {
		if pod, err = pods.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return "", err
		}
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			said, err := pods.GetLogs(name, &corev1.PodLogOptions{}).DoRaw(ctx)
			return string(said), err
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return "", fmt.Errorf("the Pod beside the sandbox has not run: %w: %s", context.Cause(ctx), w.pods(context.WithoutCancel(ctx)))
		}
	}
}
