package bench_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// createTurns is how many sandboxes each way makes one after another; createCrowd are made by createCallers at once.
var (
	createTurns = flag.Int("create-turns", 40, "how many sandboxes are created one after another, by lifecycle and by the bare client each")
	createCrowd = flag.Int("create-crowd", 500, "how many sandboxes are created by many callers, by lifecycle and by the bare client each")
	// createProfiles may name a directory, for the profiles of the daemons' first 20 s with createCrowd.
	createProfiles = flag.String("create-profiles", "", "a directory for processor profiles of lifecycle and supervisorctl while many callers create")
	// createUses leaves the gates in the way, which see what the crowd's requests are about, and cost both daemons time.
	createUses = flag.Bool("create-uses", false, "say what lifecycle and supervisorctl ask the API server for while many callers create; makes both slower")
)

const createWarmUp, createCallers = 4, 16 // the first do not count

// duel is lifecycle and a bare client before one API server, in shared mode: each has a namespace.
type duel struct {
	b      *testing.B
	site   *lifecycle.Site
	reel   *reel
	player *player
	bare   string
	// told is what the watch that is open all the time has told.
	ready   sync.Map
	streams atomic.Int64
}

// BenchmarkLifecycleCreate runs once, whatever b.N is, and prints its tables.
func BenchmarkLifecycleCreate(b *testing.B) {
	private := cluster.StartPrivate(b)
	d := newDuel(b, private.Cluster)
	defer d.follow()()
	var ours, theirs []time.Duration
	before := d.steps()
	for n := range createWarmUp + *createTurns {
		for k := range 2 {
			if (n+k)%2 == 0 {
				wish := d.wish(fmt.Sprintf("o%04d", n))
				start := time.Now()
				d.create(wish)
				took := time.Since(start)
				d.awaitReady(wish)
				if n >= createWarmUp {
					ours = append(ours, took)
				}
				continue
			}
			to := d.subject(fmt.Sprintf("t%04d", n))
			start := time.Now()
			d.must(d.player.play(b.Context(), d.reel, to))
			took := time.Since(start)
			d.awaitPods(d.bare, n+1)
			if n >= createWarmUp {
				theirs = append(theirs, took)
			}
		}
	}
	show(b, "alone", fmt.Sprintf("The bare client writes: %s.\n\n"+
		"| one after another, %d each | bare client p50 / p90 | CreateSandbox p50 / p90 | p50 / that of the bare client |\n| --- | --- | --- | --- |\n"+
		"| until the answer | %.1f / %.1f ms | %.1f / %.1f ms | %.2f |\n\nThe steps of CreateSandbox, mean: %s.", d.reel.outline(), *createTurns,
		ms(quantile(theirs, 0.5)), ms(quantile(theirs, 0.9)), ms(quantile(ours, 0.5)), ms(quantile(ours, 0.9)),
		ms(quantile(ours, 0.5))/ms(quantile(theirs, 0.5)), d.steps().since(before)))
	d.crowd(createWarmUp + *createTurns)
}

// crowd makes createCrowd by both ways: half of the bare client's, all of ours, the other half, so that a machine that gets slower or
// faster meanwhile favours neither.
func (d *duel) crowd(before int) {
	d.b.Helper()
	subjects := make([]*subject, *createCrowd)
	wishes := make([]*computev1.DriverSandbox, *createCrowd)
	for n := range *createCrowd {
		subjects[n], wishes[n] = d.subject(fmt.Sprintf("u%04d", n)), d.wish(fmt.Sprintf("p%04d", n))
	}
	play := func(n int) error { return d.player.play(d.b.Context(), d.reel, subjects[n]) }
	half := *createCrowd / 2
	bare := d.atOnce(0, half, play)
	d.awaitPods(d.bare, before+half)
	profiled := d.profile()
	start, spent, asked := d.steps(), d.spent(), d.asked()
	ours := d.atOnce(0, *createCrowd, func(n int) error {
		_, err := d.site.Driver.CreateSandbox(d.b.Context(), &computev1.CreateSandboxRequest{Sandbox: wishes[n]})
		if err != nil {
			wishes[n] = nil
		}
		return err
	})
	took, each, uses := d.steps().since(start), d.spent().each(spent, *createCrowd), d.asked().each(asked, *createCrowd)
	profiled()
	d.awaitPods(d.site.Shared, before+1+*createCrowd-len(ours.failed))
	bare.add(d.atOnce(half, *createCrowd, play))
	d.awaitPods(d.bare, before+*createCrowd-len(bare.failed))
	d.site.Eventually("the stream has told that all are ready", func() error {
		missing := 0
		for _, wish := range wishes {
			if _, told := d.ready.Load(wish.GetId()); wish != nil && !told {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Errorf("%d are not", missing)
		}
		return nil
	})
	leaked := d.deleteAll()
	show(d.b, "crowd", fmt.Sprintf("| %d sandboxes by %d callers | refused | took | a second |\n| --- | --- | --- | --- |\n"+
		"| bare client | %d | %.1f s | %.1f |\n| CreateSandbox | %d | %.1f s | %.1f |\n\nThroughput %.2f of the bare client's. All that were not refused are Ready, by the stream that was open all the time; streams lost: %d. "+
		"After all were deleted there were left: %d. The steps of CreateSandbox, mean: %s. For one, with what is done in the background: %s; the bare client %d requests.%s", *createCrowd, createCallers,
		len(bare.failed), bare.took.Seconds(), bare.rate(), len(ours.failed), ours.took.Seconds(), ours.rate(), ours.rate()/bare.rate(), d.streams.Load()-1, leaked, took, each, len(d.reel.steps)+1, uses))
	for _, err := range append(bare.failed, ours.failed...) {
		d.b.Log(err)
	}
}

// steps is what lifecycle says about the steps of its calls.
func (d *duel) steps() steps {
	d.b.Helper()
	return stepsOf(d.b, d.site.Mesh.Admin(mesh.Lifecycle))
}

// outcome is how some creates at once went.
type outcome struct {
	asked  int
	took   time.Duration
	failed []error
}

func (o *outcome) rate() float64 { return float64(o.asked-len(o.failed)) / o.took.Seconds() }

func (o *outcome) add(more outcome) {
	o.asked, o.took, o.failed = o.asked+more.asked, o.took+more.took, append(o.failed, more.failed...)
}

// atOnce has createCallers do what is from begin up to end.
func (d *duel) atOnce(begin, end int, do func(int) error) outcome {
	out := outcome{asked: end - begin}
	var running sync.WaitGroup
	var next atomic.Int64
	next.Store(int64(begin))
	var mu sync.Mutex
	start := time.Now()
	for range createCallers {
		running.Go(func() {
			for n := int(next.Add(1)) - 1; n < end; n = int(next.Add(1)) - 1 {
				if err := do(n); err != nil {
					mu.Lock()
					out.failed = append(out.failed, err)
					mu.Unlock()
				}
			}
		})
	}
	running.Wait()
	out.took = time.Since(start)
	return out
}

// deleteAll deletes every sandbox of the mesh and counts what is left then.
func (d *duel) deleteAll() int {
	d.b.Helper()
	listed, err := d.site.Driver.ListSandboxes(d.b.Context(), &computev1.ListSandboxesRequest{})
	d.must(err)
	todo := make(chan string)
	var running sync.WaitGroup
	for range createCallers {
		running.Go(func() {
			for id := range todo {
				if _, err := d.site.Driver.DeleteSandbox(d.b.Context(), &computev1.DeleteSandboxRequest{SandboxId: id}); err != nil {
					d.b.Error(err)
				}
			}
		})
	}
	for _, s := range listed.GetSandboxes() {
		todo <- s.GetId()
	}
	close(todo)
	running.Wait()
	left, end := d.objects(d.site.Shared), time.Now().Add(2*time.Minute)
	for left > 0 && time.Now().Before(end) {
		time.Sleep(500 * time.Millisecond)
		left = d.objects(d.site.Shared)
	}
	return left
}

// objects counts the Sandboxes, Pods, Services and Secrets of a namespace.
func (d *duel) objects(ns string) int {
	d.b.Helper()
	ctx, core := d.b.Context(), d.site.Cluster.Client().CoreV1()
	pods, err := core.Pods(ns).List(ctx, metav1.ListOptions{})
	d.must(err)
	services, err := core.Services(ns).List(ctx, metav1.ListOptions{})
	d.must(err)
	secrets, err := core.Secrets(ns).List(ctx, metav1.ListOptions{})
	d.must(err)
	boxes, err := d.site.Cluster.Dynamic().Resource(sandboxes).Namespace(ns).List(ctx, metav1.ListOptions{})
	d.must(err)
	return len(pods.Items) + len(services.Items) + len(secrets.Items) + len(boxes.Items)
}

func newDuel(b *testing.B, c *cluster.Cluster) *duel {
	b.Helper()
	daemons := []string{mesh.Lifecycle, mesh.Supervisorctl}
	d := &duel{b: b, site: lifecycle.RaiseGated(b, c, reconcile.Newest(), "shared", daemons, func(o *mesh.Options) {
		if *createProfiles != "" {
			o.Extra = map[string][]string{mesh.Lifecycle: {"pprof = true"}, mesh.Supervisorctl: {"pprof = true"}}
		}
	})}
	d.bare = strings.TrimSuffix(d.site.Shared, "shared") + "theirs"
	d.site.Namespace(d.bare, nil)
	d.record(daemons)
	config := c.RESTConfig()
	var err error
	d.player, err = newPlayer(config)
	d.must(err)
	return d
}

// record has a first sandbox made, whose namespace has no fence yet, then one more, and keeps what was written for both; then it takes
// the gates out of the way unless createUses wants them.
func (d *duel) record(daemons []string) {
	d.b.Helper()
	var fences, whole recorder
	one := func(into *recorder, name string) *computev1.DriverSandbox {
		for _, daemon := range daemons {
			d.site.Gates[daemon].Record(into.take)
		}
		wish := d.wish(name)
		d.create(wish)
		for _, daemon := range daemons {
			d.site.Gates[daemon].Record(nil)
		}
		d.awaitReady(wish)
		return wish
	}
	one(&fences, "fences")
	wish := one(&whole, "o-reel")
	of := subject{namespace: d.site.Shared, name: wish.GetWorkspace() + "--" + wish.GetName(), id: wish.GetId()}
	box, err := d.site.Cluster.Dynamic().Resource(sandboxes).Namespace(of.namespace).Get(d.b.Context(), of.name, metav1.GetOptions{})
	d.must(err)
	of.generation = box.GetAnnotations()[workspace.AnnotationGeneration]
	pod, err := d.site.Cluster.Client().CoreV1().Pods(of.namespace).Get(d.b.Context(), of.name, metav1.GetOptions{})
	d.must(err)
	of.pod = string(pod.UID)
	d.reel, err = newReel(of, whole.steps)
	d.must(err)
	policies, err := d.site.Cluster.Client().NetworkingV1().NetworkPolicies(of.namespace).List(d.b.Context(), metav1.ListOptions{})
	d.must(err)
	for _, policy := range policies.Items {
		policy.ObjectMeta = metav1.ObjectMeta{Name: policy.Name, Namespace: d.bare, Labels: policy.Labels, Annotations: policy.Annotations}
		_, err := d.site.Cluster.Client().NetworkingV1().NetworkPolicies(d.bare).Create(d.b.Context(), &policy, metav1.CreateOptions{})
		d.must(err)
	}
	if !*createUses {
		d.site.Direct(daemons...)
	}
}

func (d *duel) must(err error) {
	if err != nil {
		d.b.Helper()
		d.b.Fatal(err)
	}
}

func (d *duel) wish(name string) *computev1.DriverSandbox {
	return d.site.Wish("team", padded(name))
}

func (d *duel) create(wish *computev1.DriverSandbox) {
	d.b.Helper()
	_, err := d.site.Driver.CreateSandbox(d.b.Context(), &computev1.CreateSandboxRequest{Sandbox: wish})
	d.must(err)
}

func (d *duel) awaitReady(wish *computev1.DriverSandbox) {
	d.b.Helper()
	d.site.AwaitReady(wish.GetId())
}

// subject is one for the bare client, of the same lengths as that of the reel.
func (d *duel) subject(name string) *subject {
	b := make([]byte, 48)
	_, _ = rand.Read(b) // never fails
	id := hex.EncodeToString(b[:16])
	return &subject{
		namespace: d.bare, name: "team--" + padded(name), generation: hex.EncodeToString(b[16:]),
		id: id[:8] + "-" + id[8:12] + "-4" + id[13:16] + "-8" + id[17:20] + "-" + id[20:],
	}
}

// awaitPods waits until so many sandboxes of a namespace have both Pods ready.
func (d *duel) awaitPods(ns string, want int) {
	d.b.Helper()
	end := time.Now().Add(3 * time.Minute)
	for {
		pods, err := d.site.Cluster.Client().CoreV1().Pods(ns).List(d.b.Context(), metav1.ListOptions{ResourceVersion: "0"})
		d.must(err)
		ready := 0
		for i := range pods.Items {
			for _, c := range pods.Items[i].Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if ready >= 2*want {
			return
		}
		if time.Now().After(end) {
			d.b.Fatalf("%d of %d Pods in %s are ready", ready, 2*want, ns)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// follow watches as a gateway does, and opens the stream again when it ends, which is counted.
func (d *duel) follow() (stop func()) {
	ctx, cancel := context.WithCancel(d.b.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			stream, err := d.site.Driver.WatchSandboxes(ctx, &computev1.WatchSandboxesRequest{})
			if err != nil {
				continue
			}
			d.streams.Add(1)
			for {
				event, err := stream.Recv()
				if err != nil {
					break
				}
				for _, c := range event.GetSandbox().GetSandbox().GetStatus().GetConditions() {
					if c.GetType() == "Ready" && c.GetStatus() == "True" {
						d.ready.Store(event.GetSandbox().GetSandbox().GetId(), true)
					}
				}
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// padded is a name of six letters.
func padded(name string) string { return (name + "zzzzzz")[:6] }
