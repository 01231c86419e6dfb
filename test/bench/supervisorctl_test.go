package bench_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/poddriver"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/apiproxy"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

const (
	// starts is how many sandboxes each way provisions one after another, after warmStarts that do not count; farStarts with the
	// distance.
	starts, farStarts, warmStarts = 40, 25, 5
	// elsewhere is the gateway of the Boxes that the bare client works on: supervisorctl passes them over.
	elsewhere = "elsewhere"
)

// BenchmarkSupervisorctlStart runs once, whatever b.N is, and prints its tables. Both ways act as the daemon's ServiceAccount. The daemon
// has its default settings, and its reconcile loop works meanwhile, as it does when it is installed.
func BenchmarkSupervisorctlStart(b *testing.B) {
	private := cluster.StartPrivate(b)
	r := newRaces(b, private.Cluster)
	near := r.race(private.RESTConfig().Host)
	near.takeTurns(starts)
	show(b, "near", startTable(near))
	show(b, "near-steps", near.steps())
	near.daemon.Stop()

	relay := startRelay(b, installation.Address(private.RESTConfig()), distance)
	far := r.race("https://" + relay.address())
	far.takeTurns(farStarts)
	show(b, "far", fmt.Sprintf("With %s more to the API server, each way:\n\n%s", distance, startTable(far)))
	show(b, "far-steps", far.steps())
}

// BenchmarkSupervisorctlCrowd runs once, whatever b.N is, and prints its table. Settings and rights are those of the starts one by one.
func BenchmarkSupervisorctlCrowd(b *testing.B) {
	private := cluster.StartPrivate(b)
	many := newRaces(b, private.Cluster).race(private.RESTConfig().Host)
	all := many.crowds()
	show(b, "many", crowdTable(all))
	for _, a := range all {
		for _, err := range a.failed {
			b.Logf("refused: %v", err)
		}
	}
}

// races is what all of them have in common.
type races struct {
	b       *testing.B
	cluster *cluster.Cluster
	site    *supervisor.Site
	script  *script
}

func newRaces(b *testing.B, c *cluster.Cluster) *races {
	b.Helper()
	r := &races{b: b, cluster: c, site: supervisor.New(b, c, reconcile.Newest())}
	r.site.LogLevel = "info"
	r.record()
	return r
}

// record has the daemon provision one sandbox and keeps what it wrote.
func (r *races) record() {
	r.b.Helper()
	proxy := apiproxy.New(r.b, r.cluster)
	tape := newTape(proxy)
	daemon := r.start(r.kubeconfig(proxy.Address(), proxy.Authority()))
	box := r.site.Box(r.namespace())
	r.site.Pods.Override(box.Namespace, box.SupervisorName(), poddriver.Behaviour{NeverReady: true}) // so the loop writes nothing
	_, err := r.site.Client(daemon).Provision(r.b.Context(), box, box.Run)
	r.must(err)
	r.script, err = newScript(r.b.Context(), r.cluster.Client(), box, tape.taken())
	r.must(err)
	daemon.Stop()
}

func (r *races) must(err error) {
	if err != nil {
		r.b.Helper()
		r.b.Fatal(err)
	}
}

func (r *races) namespace() string {
	r.b.Helper()
	name, err := r.site.Namespace(r.b.Context(), nil)
	r.must(err)
	return name
}

// own are lines of the site's settings that the benchmark has its own of.
var own = regexp.MustCompile(`(?m)^(kubeconfig|qps|burst) = .*\n`)

// settings are the defaults, and the way to the API server that a kubeconfig describes.
func (r *races) settings(kubeconfig string) string {
	r.b.Helper()
	return strings.Replace(own.ReplaceAllString(r.site.Settings(), ""), "[portcullis.kubernetes]\n",
		fmt.Sprintf("[portcullis.kubernetes]\nkubeconfig = %q\n", kubeconfig), 1)
}

// start runs a daemon and waits until it leads.
func (r *races) start(kubeconfig string) *program.Process {
	r.b.Helper()
	p := program.Start(r.b, "supervisorctl", r.settings(kubeconfig))
	p.AwaitReady()
	p.AwaitMetric(1, "portcullis_supervisorctl_leading")
	return p
}

func (r *races) home() string { return strings.TrimPrefix(r.site.GatewayID, "gw-") }

// kubeconfig acts as supervisorctl.
func (r *races) kubeconfig(server string, authority []byte) string {
	r.b.Helper()
	token := r.cluster.Token(r.b, r.home(), "supervisorctl", cluster.TokenRequest{})
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["bench"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	cfg.AuthInfos["bench"] = &clientcmdapi.AuthInfo{Token: token}
	cfg.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	cfg.CurrentContext = "bench"
	path := filepath.Join(r.b.TempDir(), "kubeconfig")
	r.must(clientcmd.WriteToFile(*cfg, path))
	return path
}

// race is both ways to one API server.
type race struct {
	*races
	daemon *program.Process
	client *supervisor.Client
	bare   *bare

	ours, raw         []time.Duration // until both Pods have lost their gates
	oursDone, rawDone []time.Duration // until the end of the call, and of the script
}

// race starts a daemon on the way to an address of the API server, and a bare client on the same.
func (r *races) race(server string) *race {
	r.b.Helper()
	at := &race{races: r, daemon: r.start(r.kubeconfig(server, r.cluster.RESTConfig().CAData))}
	at.client = r.site.Client(at.daemon)
	config := r.cluster.ServiceAccountConfig(r.b, r.home(), "supervisorctl")
	config.Host = server
	var err error
	at.bare, err = newBare(config)
	r.must(err)
	return at
}

// theirs makes a Box for the bare client.
func theirs(d *supervisor.Draft) { d.Sandbox.Labels["openshell.ai/gateway-id"] = elsewhere }

// takeTurns has each way provision one sandbox after the other, each in a namespace of its own.
func (r *race) takeTurns(turns int) {
	r.b.Helper()
	for n := range warmStarts + turns {
		for k := range 2 {
			ours := (n+k)%2 == 0
			ungated, done := r.one(ours)
			switch {
			case n < warmStarts:
			case ours:
				r.ours, r.oursDone = append(r.ours, ungated), append(r.oursDone, done)
			default:
				r.raw, r.rawDone = append(r.raw, ungated), append(r.rawDone, done)
			}
		}
	}
}

// one provisions a sandbox and waits until it is at rest. It says when both Pods had lost their gates, as a watch of somebody else shows
// it, and when all was done.
func (r *race) one(ours bool) (ungated, done time.Duration) {
	r.b.Helper()
	ns := r.namespace()
	var change []func(*supervisor.Draft)
	if !ours {
		r.site.History.Lawless(ns)
		change = append(change, theirs)
	}
	box := r.site.Box(ns, change...)
	r.restful(box)
	seen := r.watchGates(ns)
	start := monotonic(r.b)
	if ours {
		_, err := r.client.Provision(r.b.Context(), box, box.Run)
		r.must(err)
	} else {
		r.must(r.bare.play(r.b.Context(), r.script, box))
	}
	done = monotonic(r.b) - start
	ungated = <-seen - start
	r.awaitReady(box)
	return ungated, done
}

// watchGates says when the second Pod of a namespace lost its last gate.
func (r *race) watchGates(ns string) <-chan time.Duration {
	r.b.Helper()
	w, err := r.cluster.Client().CoreV1().Pods(ns).Watch(r.b.Context(), metav1.ListOptions{})
	r.must(err)
	seen := make(chan time.Duration, 1)
	go func() {
		defer close(seen)
		defer w.Stop()
		free := map[types.UID]bool{}
		for event := range w.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && len(pod.Spec.SchedulingGates) == 0 {
				if free[pod.UID] = true; len(free) == 2 {
					seen <- monotonic(r.b)
					return
				}
			}
		}
	}()
	return seen
}

// restful waits until the controller has seen the suspended Sandbox.
func (r *races) restful(box *supervisor.Box) {
	r.b.Helper()
	cluster.Eventually(r.b, "the controller has seen "+box.Name, func(ctx context.Context) error {
		now, err := box.Object(ctx)
		if err == nil && len(now.Status.Conditions) == 0 {
			err = errors.New("it has no conditions")
		}
		return err
	})
}

// awaitReady waits until both Pods are ready.
func (r *races) awaitReady(box *supervisor.Box) {
	r.b.Helper()
	for _, name := range []string{box.Name, box.SupervisorName()} {
		cluster.Eventually(r.b, name+" is ready", func(ctx context.Context) error {
			pod, err := r.cluster.Client().CoreV1().Pods(box.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					return nil
				}
			}
			return fmt.Errorf("it is %s, %v, gates %v", pod.Status.Phase, pod.Status.Conditions, pod.Spec.SchedulingGates)
		})
	}
}

// actions are those of a Provision, in their order.
var actions = []string{
	"create-workload-fence", "create-supervisor-fence", "create-service", "create-supervisor", "resume", "await", "write", "make-secrets",
	"ungate-supervisor", "ungate-workload",
}

// steps says where the time of all Provisions so far went, on average. What is left lies before, between and after the steps.
func (r *race) steps() string {
	r.b.Helper()
	metric := func(name string, labels ...string) float64 {
		v, err := r.daemon.Metric(r.b.Context(), "portcullis_supervisorctl_"+name, labels...)
		r.must(err)
		return v
	}
	count := metric("call_seconds_count", `call="provision"`)
	mean := func(v float64) float64 { return 1000 * v / count }
	left := mean(metric("call_seconds_sum", `call="provision"`))
	text := "On average a Provision spends: "
	for _, action := range actions {
		took := mean(metric("step_seconds_sum", `action="`+action+`"`))
		left -= took
		text += fmt.Sprintf("%s %.1f ms, ", action, took)
	}
	moved := metric("step_seconds_count", `result="moved"`) / count
	return text + fmt.Sprintf("%.1f ms otherwise, with %.2f writes that lost a race. It was played: %s.", left, moved, r.script.outline())
}

func startTable(r *race) string {
	line := func(name string, raw, ours []time.Duration) string {
		pair := func(of []time.Duration) string {
			return fmt.Sprintf("%.1f / %.1f ms", ms(quantile(of, 0.5)), ms(quantile(of, 0.9)))
		}
		return fmt.Sprintf("| %s | %s | %s | %.2f |", name, pair(raw), pair(ours), ms(quantile(ours, 0.5))/ms(quantile(raw, 0.5)))
	}
	return fmt.Sprintf("| %d each, p50 / p90 | bare client | Provision | p50 / that of the bare client |\n| --- | --- | --- | --- |\n%s\n%s",
		len(r.ours), line("both Pods ungated", r.raw, r.ours), line("answered, the last write made", r.rawDone, r.oursDone))
}
