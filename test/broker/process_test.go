package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/freeport"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// node is one NATS server as a process of its own, as it runs in a Pod.
type node struct {
	t              testing.TB
	name, dir, run string // run is for what the server writes, beside its store
	client, probes int    // ports
	files          files
	cmd            *exec.Cmd
	ended          chan struct{}
}

// newNode prepares a server of these files and starts nothing.
func newNode(t testing.TB, name string, f files) *node {
	t.Helper()
	n := &node{t: t, name: name, dir: t.TempDir(), run: t.TempDir(), client: freeport.Loopback(t), probes: freeport.Loopback(t), files: f}
	certificate(t, n.dir)
	t.Cleanup(func() {
		n.kill()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", name, n.log())
		}
	})
	return n
}

// start runs the server, and does not wait.
func (n *node) start() {
	n.t.Helper()
	main := n.files.write(n.t, n.dir)
	log, err := os.OpenFile(filepath.Join(n.run, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	n.cmd = exec.Command(cluster.Build(n.t, "nats-server", "test", "github.com/nats-io/nats-server/v2"),
		"--config", main, "--pid", n.pidFile(), "--addr", "127.0.0.1", "--port", strconv.Itoa(n.client), "--http_port", strconv.Itoa(n.probes))
	n.cmd.Env = []string{"POD_NAME=" + n.name}
	n.cmd.Stdout, n.cmd.Stderr = log, log
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) { _ = cmd.Wait(); close(ended) }(n.cmd, n.ended)
}

func (n *node) pidFile() string { return filepath.Join(n.run, "nats.pid") }

func (n *node) url() string { return "tls://localhost:" + strconv.Itoa(n.client) }

func (n *node) log() string {
	text, err := os.ReadFile(filepath.Join(n.run, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// kill ends the server without a word.
func (n *node) kill() {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill()
		<-n.ended
		n.cmd = nil
	}
}

// drain ends the server as the kubelet does: the command of preStop, then the signal to end, at which it is to be gone within the grace
// period.
func (n *node) drain() {
	n.t.Helper()
	stop := exec.Command(n.cmd.Path, "--signal", "ldm="+n.pidFile())
	if out, err := stop.CombinedOutput(); err != nil {
		n.t.Fatalf("%s: %v\n%s", stop, err, out)
	}
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	<-n.ended
	n.cmd = nil
}

// probe is what the server answers to a probe of the kubelet.
func (n *node) probe(ctx context.Context, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", n.probes, path), http.NoBody)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return nil
}

// The probes of statefulset.yaml; TestProbesAreThese holds them to it.
const (
	startup   = "/healthz?js-enabled-only=true"
	readiness = "/healthz"
	liveness  = "/healthz?js-enabled-only=true"
)

// ready waits until the server's Pod would be.
func (n *node) ready() {
	n.t.Helper()
	cluster.Eventually(n.t, n.name+" is ready", func(ctx context.Context) error {
		return errors.Join(n.probe(ctx, startup), n.probe(ctx, readiness), n.probe(ctx, liveness))
	})
}

// leads reports whether the server leads the stream of the bucket.
func (n *node) leads(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/jsz?acc=ALLOWLIST&streams=true", n.probes), http.NoBody)
	if err != nil {
		return false
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Accounts []struct {
			Streams []struct {
				Name    string `json:"name"`
				Cluster struct {
					Leader string `json:"leader"`
				} `json:"cluster"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if json.NewDecoder(response.Body).Decode(&answer) != nil {
		return false
	}
	for _, account := range answer.Accounts {
		for _, stream := range account.Streams {
			if stream.Name == "KV_portcullis_allowlist" && stream.Cluster.Leader == n.name {
				return true
			}
		}
	}
	return false
}

// configured is a settings file of the daemons, for an identity and these servers.
func configured(t testing.TB, who string, more string, urls ...string) string {
	t.Helper()
	inbox := ""
	if who == "operator" {
		inbox = "inbox_prefix = \"" + operatorInbox + "\"\n"
	}
	return program.Settings(t, fmt.Sprintf(`[openshell.drivers.kubernetes]
workspace_mode = "operator"
operator_namespace_label = "openshell.ai/sandboxes=allowed"
gateway_id = %q

[portcullis.nats]
urls = ["%s"]
ca_file = %q
nkey_seed_file = %q
js_api_prefix = %q
%s
%s`, gatewayID, strings.Join(urls, `", "`), authority(t), seed(t, who), apiPrefix, inbox, more))
}

// command runs a daemon's subcommand to its end, and returns what it wrote.
func command(t testing.TB, daemon string, args ...string) string {
	t.Helper()
	out, err := program.Command(t, daemon, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", daemon, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// bootstrap does what the job does.
func bootstrap(t testing.TB, replicas int, urls ...string) {
	t.Helper()
	config := configured(t, "bootstrap", fmt.Sprintf("[portcullis.audit]\nreplicas = %d\n", replicas), urls...)
	command(t, "nswatch", "allowlist", "bootstrap", "--config", config, "--replicas", strconv.Itoa(replicas))
	command(t, "tokenauth", "audit", "bootstrap", "--config", config)
}
