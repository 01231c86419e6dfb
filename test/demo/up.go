package demo

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
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

// Serve lets the gateway be used through a socket until ctx ends. Meanwhile the daemons' tokens are renewed, so that the World stands for
// as long as anybody wants; told gets what goes wrong with that.
func (w *World) Serve(ctx context.Context, socket string, told func(error)) error {
	run, tasks := newTasks(ctx)
	tasks.run("tokens", func() error {
		w.mesh.KeepTokens(run, told)
		return nil
	})
	return errors.Join(control.Serve(ctx, w.gateway, socket), tasks.end())
}

// Guide says how to look inside and what to try. Each line that is no comment can be given to a shell, or is a URL or a file.
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
	part("The cluster"+unlessThere("kubectl"), append(lines,
		"kubectl -n "+w.team+" get sandboxes,pods,services,secrets,networkpolicies",
		"kubectl label namespace "+w.team+" "+key+"-            # nobody may use it any more",
		"kubectl label namespace "+w.team+" "+key+"="+value+"     # and again")...)
	lines = []string{"cd " + w.options.Root, "export GATEWAY=" + socket}
	for _, words := range w.operations() {
		operation, rest, _ := strings.Cut(words, " ")
		lines = append(lines, strings.TrimRight("go run ./test/gateway/cmd/gateway "+operation+" --control $GATEWAY "+rest, " "))
	}
	if !w.site.Real {
		lines = append(lines, "# no kubelet runs Pods here: sandboxes are Ready since their supervisors are played, and nothing can be executed in them")
	}
	part("The gateway", lines...)
	part("The allowlist (docs/allowlist.md)", w.options.Programs[mesh.Nswatch]+" allowlist show --config "+w.mesh.Settings(mesh.Nswatch))
	nats := "nats --server " + w.mesh.NATSURL() + " kv"
	keys := "portcullis_allowlist " + w.options.Prefix
	part("The same, raw"+unlessThere("nats"), nats+" get "+keys+".snapshot --raw", nats+" get "+keys+".heartbeat --raw", nats+" watch "+keys+".heartbeat")
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

// operations are those of the gateway that can be tried here.
func (w *World) operations() []string {
	all := []string{"list", "create " + w.team + " another -- /" + workloadProgram + " sleep"}
	if w.site.Real {
		all = append(all, "exec "+w.box+" -- /"+workloadProgram+" echo hello")
	}
	return append(all, "stop "+w.box, "start "+w.box, "delete "+w.box, "events")
}

// unlessThere says that a program is needed that is not part of the repository, where it is not installed.
func unlessThere(program string) string {
	if _, err := exec.LookPath(program); err != nil {
		return ", for those who have " + program + " (it is not installed here)"
	}
	return ""
}
