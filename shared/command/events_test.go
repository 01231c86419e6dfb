package command_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/command"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
)

// inPod is what the downward API says.
var inPod = map[string]string{"POD_NAME": "nswatch-0", "POD_NAMESPACE": "portcullis", "POD_UID": "0b1c"}

// Lines about Events.
const (
	noEvents   = "no Events are written about a Pod"
	notWritten = "why this Pod is not ready could not be told by an Event"
)

// usingTheCluster is a daemon with settings of a cluster's client, whose kubeconfig is not there.
func usingTheCluster(wire func(context.Context, *command.Parts[*own]) error) command.Daemon[*own] {
	d := program(wire)
	d.Settings = func() *own {
		cluster := command.KubernetesDefaults("nswatch")
		return &own{Config: daemon.DefaultConfig(), cluster: &cluster}
	}
	return d
}

const kubeconfig = "[portcullis." + kubeclient.Section + "]\nkubeconfig = \"/nonexistent/kubeconfig\"\n"

// An Event is attempted for a daemon that waits at its start and for one that runs and is not ready, and what comes of it changes nothing
// else.
func TestEventsOfADaemonThatIsNotReady(t *testing.T) {
	for name, wire := range map[string]func(context.Context, *command.Parts[*own]) error{
		"StartNotReady": func(context.Context, *command.Parts[*own]) error { return errors.New("no key") },
		"BucketNotReady": func(_ context.Context, p *command.Parts[*own]) error {
			p.Group.Add("part", func(ctx context.Context) error { <-ctx.Done(); return nil })
			return p.Checks.AddReadiness("bucket", func(context.Context) error { return errors.New("no bucket") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := commandtest.Of(func() command.Daemon[*own] { return usingTheCluster(wire) }).With(inPod).Start(t, "--config", settings(t, waiting+kubeconfig))
			line := p.Line(notWritten)
			if why, _ := line["error"].(string); line["reason"] != name || !strings.Contains(why, "/nonexistent/kubeconfig") {
				t.Errorf("%v", line)
			}
			commandtest.Eventually(t, "it is counted", func() bool { return p.Metric(`portcullis_pod_events_total{result="failed"}`) > 0 })
			if code := p.Stop(); code != 0 || strings.Contains(p.Stderr.String(), noEvents) {
				t.Errorf("exit code %d: %s", code, p.Stderr.String())
			}
		})
	}
}

// A daemon that does not know its Pod says so once, and one that does not use the cluster has nothing to say.
func TestNoEventsWithoutAPod(t *testing.T) {
	fails := func(context.Context, *command.Parts[*own]) error { return errors.New("no key") }
	p := commandtest.Of(func() command.Daemon[*own] { return usingTheCluster(fails) }).Start(t, "--config", settings(t, waiting+kubeconfig))
	if cause := p.Logged(noEvents, "cause"); cause != "POD_NAME is not set\nPOD_NAMESPACE is not set\nPOD_UID is not set" {
		t.Errorf("the log says %q", cause)
	}
	p.Line(commandtest.Waiting)
	p.Stop()
	if n := strings.Count(p.Stderr.String(), noEvents); n != 1 {
		t.Errorf("it is said %d times", n)
	}
	relay := startWaiting(t, fails)
	relay.Line(commandtest.Waiting)
	relay.Stop()
	if strings.Contains(relay.Stderr.String(), "Event") {
		t.Errorf("the log says %s", relay.Stderr.String())
	}
}
