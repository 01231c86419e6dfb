package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/portcullis-mesh/portcullis/test/gateway/control"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// Furnish makes a workspace with a sandbox that is Ready, for those who want to look around.
func (w *World) Furnish(ctx context.Context, t *Timeline) error {
	for _, part := range []func(context.Context, *Timeline) error{w.allow, w.create} {
		if err := part(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// Serve lets the gateway be used through a socket until ctx ends.
func (w *World) Serve(ctx context.Context, socket string) error {
	return control.Serve(ctx, w.gateway, socket)
}

// Guide says how to look inside and what to try.
func (w *World) Guide(socket string) string {
	var b strings.Builder
	part := func(title string, lines ...string) {
		fmt.Fprintf(&b, "\n%s\n", title)
		for _, line := range lines {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	key, value := w.label()
	var lines []string
	if w.site.Kubeconfig != "" {
		lines = append(lines, "export KUBECONFIG="+w.site.Kubeconfig)
	}
	part("The cluster", append(lines,
		"kubectl -n "+w.team+" get sandboxes,pods,services,secrets,networkpolicies",
		"kubectl label namespace "+w.team+" "+key+"-            # nobody may use it any more",
		"kubectl label namespace "+w.team+" "+key+"="+value+"     # and again")...)
	lines = []string{"export GATEWAY=" + socket}
	for _, words := range []string{
		"list", "create " + w.team + " another -- /" + workloadProgram + " sleep", "exec " + w.box + " -- /" + workloadProgram + " echo hello",
		"stop " + w.box, "start " + w.box, "delete " + w.box, "events",
	} {
		operation, rest, _ := strings.Cut(words, " ")
		lines = append(lines, strings.TrimRight("go run ./test/gateway/cmd/gateway "+operation+" --control $GATEWAY "+rest, " "))
	}
	part("The gateway", lines...)
	nats := "nats --server " + w.mesh.NATSURL() + " kv"
	keys := "portcullis_allowlist " + w.options.Prefix
	part("The allowlist (docs/allowlist.md)",
		w.options.Programs[mesh.Nswatch]+" allowlist show --config "+w.mesh.Settings(mesh.Nswatch),
		nats+" get "+keys+".snapshot --raw", nats+" get "+keys+".heartbeat --raw", nats+" watch "+keys+".heartbeat")
	var metrics, logs []string
	for _, p := range w.mesh.Running() {
		logs = append(logs, p.LogFile)
		if address := w.mesh.Admin(p.Name); address != "" {
			metrics = append(metrics, fmt.Sprintf("http://%s/metrics   /readyz?verbose   # %s, process %d", address, p.Name, p.PID()))
		}
	}
	part("Metrics", metrics...)
	part("Logs", append(logs, filepath.Join(w.options.Dir, "gateway.log"))...)
	return b.String()
}
