package bench_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// viewSandboxes stand, each with its two Pods.
var viewSandboxes = flag.Int("view-sandboxes", 5000, "how many sandboxes stand while lifecycle's view is measured")

const (
	// viewMakers make them at the same time.
	viewMakers = 16
	// viewChanges are told, one after the other; viewLists, and viewLooks for one sandbox, are asked for.
	viewChanges, viewLists, viewLooks = 500, 40, 200
)

// BenchmarkLifecycleView runs once, whatever b.N is, and prints its table: what lifecycle makes of many sandboxes that others made.
// The other daemons, the controllers and the stand-ins are away: nothing but the benchmark changes anything.
func BenchmarkLifecycleView(b *testing.B) {
	viewed := *viewSandboxes
	v, driver := newView(b, viewed)
	empty := v.resident()
	noneLooks := v.looks(driver)
	start := time.Now()
	v.populate()
	made := time.Since(start)
	size := v.awaitListed(driver)
	before := v.apiReads()
	lists := v.lists(driver)
	asked := v.apiReads() - before
	looks := v.looks(driver)
	if n := v.apiReads() - before - asked; n < viewLooks {
		b.Fatalf("lifecycle counts %.0f reads of %d live looks: what it counts is not what the benchmark reads", n, viewLooks)
	}
	raw, ours := v.changes(driver)
	now, most := v.resident(), v.memory("VmHWM:")
	listed := v.restart(driver)
	show(b, "view", fmt.Sprintf("%d sandboxes with %d Pods, made in %.0f s.\n\n| | |\n| --- | --- |\n"+
		"| ListSandboxes, p50 / p90 / most of %d | %.1f / %.1f / %.1f ms for %.1f MiB; what lifecycle read from the API server meanwhile: %.0f |\n"+
		"| a change until a raw watch tells, p50 / p99 of %d | %.2f / %.2f ms |\n| the same until the driver's stream tells | %.2f / %.2f ms, p99 − that of the raw watch %.2f ms |\n"+
		"| a live look for an id, p50 / p90 of %d, without sandboxes; with all | %.2f / %.2f ms; %.2f / %.2f ms |",
		viewed, 2*viewed, made.Seconds(), viewLists, ms(quantile(lists, 0.5)), ms(quantile(lists, 0.9)), ms(quantile(lists, 1)), mib(size), asked, len(raw),
		ms(quantile(raw, 0.5)), ms(quantile(raw, 0.99)), ms(quantile(ours, 0.5)), ms(quantile(ours, 0.99)), ms(quantile(ours, 0.99)-quantile(raw, 0.99)),
		viewLooks, ms(quantile(noneLooks, 0.5)), ms(quantile(noneLooks, 0.9)), ms(quantile(looks, 0.5)), ms(quantile(looks, 0.9))))
	show(b, "memory", fmt.Sprintf("| lifecycle, resident | |\n| --- | --- |\n| without sandboxes | %.1f MiB |\n"+
		"| with %d, all told to a stream and %d of them changed / most since the start | %.1f / %.1f MiB |\n"+
		"| started anew, all of them listed after %.2f s / most since the start | %.1f / %.1f MiB |",
		mib(empty), viewed, len(raw), mib(now), mib(most), listed.Seconds(), mib(v.resident()), mib(v.memory("VmHWM:"))))
}

// view is lifecycle before many sandboxes.
type view struct {
	b       *testing.B
	site    *lifecycle.Site
	many    *kubernetes.Clientset // without a limit
	objects *dynamic.DynamicClient
	ns      string
	boxes   []string // names
	// box is the sandbox that all others are copies of, with its Pods and its id.
	box  *unstructured.Unstructured
	pods []corev1.Pod
	id   string
}

// newView raises lifecycle alone, with a sandbox to make copies of.
func newView(b *testing.B, viewed int) (*view, computev1.ComputeDriverClient) {
	b.Helper()
	private := cluster.StartPrivate(b)
	v := &view{b: b, site: lifecycle.Raise(b, private.Cluster, reconcile.Newest(), "operator"), boxes: make([]string, viewed)}
	v.connect(private.RESTConfig())
	v.pattern(v.site.Workspace("view"))
	v.ns = "viewed-" + strings.TrimPrefix(v.site.GatewayID, "gw-") // which no stand-in owns
	v.site.Namespace(v.ns, nil)
	for _, other := range []string{mesh.Supervisorctl, mesh.Tokenauth} {
		v.site.Mesh.Kill(other)
	}
	private.Controllers().Kill()
	conn, err := udsock.NewClient(v.site.Mesh.Socket(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	v.must(err)
	b.Cleanup(func() { _ = conn.Close() })
	return v, computev1.NewComputeDriverClient(conn)
}

func (v *view) must(err error) {
	if err != nil {
		v.b.Helper()
		v.b.Fatal(err)
	}
}

// pattern has one sandbox made in the ordinary way, and deleted when it was seen: its volume outlives the cluster's controllers otherwise.
func (v *view) pattern(ns string) {
	v.b.Helper()
	wish := v.site.Wish(ns, "pattern")
	v.site.Eventually("the sandbox is made", func() error {
		_, err := v.site.Driver.CreateSandbox(v.b.Context(), &computev1.CreateSandboxRequest{Sandbox: wish})
		return err
	})
	v.site.AwaitReady(wish.GetId())
	v.id = wish.GetId()
	var err error
	v.box, err = v.site.Cluster.Dynamic().Resource(sandboxes).Namespace(ns).Get(v.b.Context(), "pattern", metav1.GetOptions{})
	v.must(err)
	pods, err := v.site.Cluster.Client().CoreV1().Pods(ns).List(v.b.Context(), metav1.ListOptions{})
	v.must(err)
	if v.pods = pods.Items; len(v.pods) != 2 {
		v.b.Fatalf("the sandbox has %d Pods", len(v.pods))
	}
	_, err = v.site.Driver.DeleteSandbox(v.b.Context(), &computev1.DeleteSandboxRequest{SandboxId: v.id})
	v.must(err)
	v.site.Eventually("the sandbox is gone with its volume", func() error {
		volumes, err := v.many.CoreV1().PersistentVolumes().List(v.b.Context(), metav1.ListOptions{})
		if err == nil && len(volumes.Items) > 0 {
			err = fmt.Errorf("there is %s", volumes.Items[0].Name)
		}
		return err
	})
}

func (v *view) connect(config *rest.Config) {
	v.b.Helper()
	config.QPS = -1
	var err, err2 error
	v.objects, err2 = dynamic.NewForConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	v.many, err = kubernetes.NewForConfig(config)
	v.must(errors.Join(err, err2))
}

// awaitListed waits until all are told, and all the copies as ready, and says how many bytes the list has.
func (v *view) awaitListed(driver computev1.ComputeDriverClient) (size int64) {
	v.b.Helper()
	v.site.Eventually("all are listed", func() error {
		listed, err := driver.ListSandboxes(v.b.Context(), &computev1.ListSandboxesRequest{})
		if err != nil {
			return err
		}
		ready, other := 0, ""
		for _, s := range listed.GetSandboxes() {
			for _, c := range s.GetStatus().GetConditions() {
				if c.GetType() == "Ready" && c.GetStatus() == "True" {
					ready++
				} else if c.GetType() == "Ready" {
					other = s.GetStatus().String()
				}
			}
		}
		if ready < len(v.boxes) {
			return fmt.Errorf("%d are listed, %d are ready; one that is not says %s", len(listed.GetSandboxes()), ready, other)
		}
		size = int64(proto.Size(listed))
		return nil
	})
	return size
}

func (v *view) lists(driver computev1.ComputeDriverClient) (took []time.Duration) {
	v.b.Helper()
	for range viewLists {
		start := time.Now()
		_, err := driver.ListSandboxes(v.b.Context(), &computev1.ListSandboxesRequest{})
		v.must(err)
		took = append(took, time.Since(start))
	}
	return took
}

// looks asks for sandboxes that there are not, which only a live look can say.
func (v *view) looks(driver computev1.ComputeDriverClient) (took []time.Duration) {
	v.b.Helper()
	for n := range viewLooks {
		id := fmt.Sprintf("absent%02d%s", n%100, v.id[8:])
		start := time.Now()
		_, err := driver.GetSandbox(v.b.Context(), &computev1.GetSandboxRequest{SandboxId: id})
		took = append(took, time.Since(start))
		if status.Code(err) != codes.NotFound {
			v.b.Fatalf("a sandbox that there is not: %v", err)
		}
	}
	return took
}

// restart starts lifecycle anew before the sandboxes that there are.
func (v *view) restart(driver computev1.ComputeDriverClient) time.Duration {
	v.b.Helper()
	v.must(v.site.Mesh.Process(mesh.Lifecycle).Stop())
	start := time.Now()
	v.must(v.site.Mesh.Run(v.b.Context(), mesh.Lifecycle))
	v.awaitListed(driver)
	return time.Since(start)
}

// changes writes a word into the status of one sandbox after the other, and measures how long after the beginning of the write a raw
// watch tells of it, and the driver's stream.
func (v *view) changes(driver computev1.ComputeDriverClient) (raw, ours []time.Duration) {
	v.b.Helper()
	ctx, cancel := context.WithCancel(v.b.Context())
	list, err := v.objects.Resource(sandboxes).Namespace(v.ns).List(ctx, metav1.ListOptions{Limit: 1})
	v.must(err)
	w, err := v.objects.Resource(sandboxes).Namespace(v.ns).Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	v.must(err)
	stream, err := driver.WatchSandboxes(ctx, &computev1.WatchSandboxesRequest{})
	v.must(err)
	type seen struct {
		word string
		at   time.Time
	}
	rawSeen, oursSeen := make(chan seen, 1<<16), make(chan seen, 1<<16)
	var running sync.WaitGroup
	running.Go(func() {
		for event := range w.ResultChan() {
			now := time.Now()
			if u, ok := event.Object.(*unstructured.Unstructured); ok {
				if word := wordIn(u); word != "" {
					rawSeen <- seen{word, now}
				}
			}
		}
	})
	first := make(chan struct{})
	running.Go(func() {
		for told := map[string]bool{}; ; {
			event, err := stream.Recv()
			if err != nil {
				return
			}
			now := time.Now()
			if id := event.GetSandbox().GetSandbox().GetId(); id != "" && !told[id] {
				if told[id] = true; len(told) == len(v.boxes) {
					close(first)
				}
			}
			for _, c := range event.GetSandbox().GetSandbox().GetStatus().GetConditions() {
				if c.GetType() == probeCondition {
					oursSeen <- seen{c.GetMessage(), now}
				}
			}
		}
	})
	select {
	case <-first:
	case <-time.After(time.Minute):
		v.b.Fatal("the stream did not tell of all sandboxes")
	}
	await := func(from chan seen, word string, start time.Time) time.Duration {
		for {
			select {
			case s := <-from:
				if s.word == word {
					return s.at.Sub(start)
				}
			case <-time.After(time.Minute):
				v.b.Fatalf("nobody told of %s", word)
			}
		}
	}
	for n := range min(viewChanges, len(v.boxes)) {
		word := fmt.Sprintf("word %d", n)
		patch := fmt.Sprintf(`[{"op":"add","path":"/status/conditions/-","value":{"type":%q,"status":"True","reason":"Probe","message":%q,"lastTransitionTime":"2026-01-01T00:00:00Z"}}]`, probeCondition, word)
		start := time.Now()
		_, err := v.objects.Resource(sandboxes).Namespace(v.ns).Patch(ctx, v.boxes[n], types.JSONPatchType, []byte(patch), metav1.PatchOptions{}, "status")
		v.must(err)
		raw, ours = append(raw, await(rawSeen, word, start)), append(ours, await(oursSeen, word, start))
	}
	cancel()
	w.Stop()
	running.Wait()
	return raw, ours
}

// probeCondition is no condition that anybody else writes.
const probeCondition = "Probe"

func wordIn(u *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == probeCondition {
			word, _ := m["message"].(string)
			return word
		}
	}
	return ""
}

// apiReads is how often lifecycle has read from the API server, but for its watches and their lists.
func (v *view) apiReads() (sum float64) {
	v.b.Helper()
	for series, value := range series(v.b, v.site.Mesh.Admin(mesh.Lifecycle), "portcullis_kube_client_requests_total") {
		if strings.Contains(series, `"calls"`) && strings.Contains(series, `"GET"`) {
			sum += value
		}
	}
	return sum
}

// resident is lifecycle's memory now.
func (v *view) resident() int64 { return v.memory("VmRSS:") }

func (v *view) memory(line string) int64 {
	v.b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.site.Mesh.Process(mesh.Lifecycle).PID()))
	v.must(err)
	for text := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(text, line); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			v.must(err)
			return kib << 10
		}
	}
	v.b.Fatalf("the kernel does not say %s", line)
	return 0
}
