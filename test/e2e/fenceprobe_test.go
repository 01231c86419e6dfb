package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/program"
)

const (
	proberImage = "portcullis.test/supervisorctl:1"
	canaryPods  = "openshell.ai/component=fence-canary"
	workloads   = "openshell-sandbox-workloads"
)

// proberRights are those of supervisorctl that a probe uses, and no others.
const proberRights = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: prober}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: prober}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [get, list, create, delete]}
  - {apiGroups: [networking.k8s.io], resources: [networkpolicies], verbs: [get, create]}
  - {apiGroups: [""], resources: [namespaces], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: prober}
subjects: [{kind: ServiceAccount, name: prober}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: prober}
`

// Policies of others: the platform closes the namespace for everybody, or somebody opens it again for workloads.
const (
	platformDenies = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: default-deny}
spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
`
	somebodyOpensEgress = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allow-out}
spec: {podSelector: {}, policyTypes: [Egress], egress: [{}]}
`
	somebodyOpensIngress = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allow-in}
spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{}]}
`
	somebodysFence = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: openshell-sandbox-workloads}
spec: {podSelector: {matchLabels: {app: other}}, policyTypes: [Egress]}
`
)

// prober runs "supervisorctl fence probe" in a namespace of its own.
type prober struct {
	t         *testing.T
	c         *cluster.Cluster
	namespace string
	settings  string
}

// proberLoaded says that the node has supervisorctl's image. Packing it takes longer than a probe.
var proberLoaded struct {
	sync.Mutex
	done bool
}

// How long a fence may take to close until it is found open, which is how long a probe of an open one takes.
const (
	patience = 30 * time.Second // the default
	brief    = 15 * time.Second // where something else has to come about meanwhile
	hasty    = 5 * time.Second  // where nothing has
)

func newProber(t *testing.T, settle time.Duration) *prober {
	t.Helper()
	c := cluster.Start(t, cluster.Node)
	loadProber(t, c)
	p := &prober{t: t, c: c, namespace: c.Namespace(t, restricted)}
	c.Apply(t, p.namespace, []byte(proberRights))
	p.settings = program.Settings(t, fmt.Sprintf(`[openshell.drivers.kubernetes]
gateway_id = "gw-%[1]s"
workspace_mode = "shared"
namespace = %[1]q
service_account_name = "default"
[openshell.drivers.kubernetes.sandbox_runtime]
boundary_port = 5500
[portcullis.supervisorctl]
probe_image = %[2]q
probe_image_pull_policy = "IfNotPresent"
fence_probe_settle = %[4]q
fence_probe_timeout = "3m"
[portcullis.kubernetes]
kubeconfig = %[3]q
`, p.namespace, proberImage, c.ServiceAccountKubeconfig(t, p.namespace, "prober"), settle.String()))
	return p
}

func loadProber(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	proberLoaded.Lock()
	defer proberLoaded.Unlock()
	if !proberLoaded.done {
		c.LoadProgram(t, proberImage, "supervisorctl", "services/supervisorctl", "./cmd/supervisorctl")
		proberLoaded.done = true
	}
}

// probed is what one run of the command left behind.
type probed struct {
	code                                   int
	Fence, Reason, Explanation, Node, text string
	PoliciesMade                           []string `json:"policies_made"`
	LeftOver                               []string `json:"left_over"`
}

func (p *prober) command(args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	p.t.Helper()
	cmd = program.Command(p.t, "supervisorctl", append([]string{"fence", "probe", "--config", p.settings, "--json"}, args...)...)
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

func (p *prober) probe(args ...string) probed {
	p.t.Helper()
	cmd, stdout, stderr := p.command(args...)
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	out := probed{code: cmd.ProcessState.ExitCode(), text: stdout.String() + stderr.String()}
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		p.t.Fatalf("%v: exit code %d\n%s", err, out.code, out.text)
	}
	p.empty()
	return out
}

// empty demands that no canary is left, but for those that end just now.
func (p *prober) empty() {
	p.t.Helper()
	cluster.Eventually(p.t, "no canary is left in "+p.namespace, func(ctx context.Context) error {
		list, err := p.c.Client().CoreV1().Pods(p.namespace).List(ctx, metav1.ListOptions{LabelSelector: canaryPods})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d Pods, the first is %s in phase %s", len(list.Items), list.Items[0].Name, list.Items[0].Status.Phase)
		}
		return err
	})
}

func (p *prober) demand(got probed, code int, fence, reason string) {
	p.t.Helper()
	if got.code != code || got.Fence != fence || got.Reason != reason || len(got.LeftOver) > 0 {
		p.t.Errorf("exit code %d, fence %q, reason %q, want %d, %q, %q:\n%s", got.code, got.Fence, got.Reason, code, fence, reason, got.text)
	}
}

// machine is an address of this machine where somebody listens, or nobody does.
func (p *prober) machine(listens bool) string {
	p.t.Helper()
	l, err := new(net.ListenConfig).Listen(p.t.Context(), "tcp", net.JoinHostPort(cluster.HostAddress, "0"))
	if err != nil {
		p.t.Fatal(err)
	}
	if !listens {
		_ = l.Close()
	}
	p.t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// The fence of a namespace that nobody has used is made and proven, and proven once more as it is; also where the platform closes the
// namespace for everybody.
func TestFenceProbeProvesAFence(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]string{"alone": "", "default-deny": platformDenies} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProber(t, patience)
			if others != "" {
				p.c.Apply(t, p.namespace, []byte(others))
			}
			got := p.probe("--target", "kubernetes", "--target", p.machine(true))
			p.demand(got, 0, "enforced", "")
			if !slices.Equal(got.PoliciesMade, []string{workloads, "openshell-sandbox-supervisors"}) || got.Node != cluster.NodeName {
				t.Errorf("%+v", got)
			}
			if others == "" {
				got = p.probe()
				p.demand(got, 0, "enforced", "")
				if len(got.PoliciesMade) > 0 {
					t.Errorf("made again: %v", got.PoliciesMade)
				}
			}
		})
	}
}

// A fence that stands and does not hold is found out: egress and ingress that somebody else opens are as open as with a plug-in that
// enforces nothing.
func TestFenceProbeFindsAnOpenFence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		others, reason string
		settle         time.Duration
	}{
		"egress": {somebodyOpensEgress, "fence_egress_open", hasty}, "ingress": {somebodyOpensIngress, "fence_ingress_open", brief},
		"altered": {somebodysFence, "fence_altered", patience},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProber(t, c.settle)
			p.c.Apply(t, p.namespace, []byte(c.others))
			p.demand(p.probe(), 2, "not enforced", c.reason)
		})
	}
}

// What proves nothing is told apart from both: a dead target, and a canary that cannot run.
func TestFenceProbeInDoubt(t *testing.T) {
	t.Parallel()
	t.Run("dead target", func(t *testing.T) {
		t.Parallel()
		p := newProber(t, brief)
		p.demand(p.probe("--target", "kubernetes", "--target", p.machine(false)), 3, "unknown", "probe_target_unreached")
	})
	t.Run("no image", func(t *testing.T) {
		t.Parallel()
		p := newProber(t, patience)
		text, err := os.ReadFile(p.settings)
		if err != nil {
			t.Fatal(err)
		}
		p.settings = program.Settings(t, strings.NewReplacer(proberImage, "portcullis.test/absent:1", "IfNotPresent", "Never").Replace(string(text)))
		got := p.probe()
		p.demand(got, 3, "unknown", "probe_pod_failed")
		if !strings.Contains(got.Explanation, "ErrImageNeverPull") {
			t.Errorf("%s", got.Explanation)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		p := newProber(t, patience)
		cmd, stdout, stderr := p.command()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if t.Failed() {
				t.Logf("the command wrote:\n%s%s", stdout, stderr)
			}
		})
		cluster.Eventually(t, "a canary runs", func(ctx context.Context) error {
			list, err := p.c.Client().CoreV1().Pods(p.namespace).List(ctx, metav1.ListOptions{LabelSelector: canaryPods})
			if err == nil && (len(list.Items) == 0 || list.Items[0].Status.PodIP == "") {
				err = errors.New("not yet")
			}
			return err
		})
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 3 || !strings.Contains(stdout.String(), `"call_ended"`) {
			t.Errorf("exit code %d\n%s", code, stdout)
		}
		p.empty()
	})
}
