package bench_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

const (
	// viewed sandboxes stand, each with its two Pods, made by viewMakers at the same time.
	viewed, viewMakers = 5000, 16
	// viewChanges are told, one after the other; viewLists are asked for.
	viewChanges, viewLists = 500, 40
)

// BenchmarkLifecycleView runs once, whatever b.N is, and prints its table: what lifecycle makes of viewed sandboxes that others made.
// The other daemons, the controllers and the stand-ins are away: nothing but the benchmark changes anything.
func BenchmarkLifecycleView(b *testing.B) {
	private := cluster.StartPrivate(b)
	v := &view{b: b, site: lifecycle.Raise(b, private.Cluster, reconcile.Newest(), "operator"), boxes: make([]string, viewed)}
	v.connect(private.RESTConfig())
	ns := v.site.Workspace("view")
	v.pattern(ns)
	for _, other := range []string{mesh.Supervisorctl, mesh.Tokenauth} {
		v.site.Mesh.Kill(other)
	}
	private.Controllers().Kill()
	empty := v.resident()
	v.ns = "viewed-" + strings.TrimPrefix(v.site.GatewayID, "gw-") // which no stand-in owns
	_, err := v.client().CoreV1().Namespaces().Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v.ns}}, metav1.CreateOptions{})
	v.must(err)
	v.populate()
	conn, err := udsock.NewClient(v.site.Mesh.Socket(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	v.must(err)
	defer func() { _ = conn.Close() }()
	driver := computev1.NewComputeDriverClient(conn)
	v.awaitListed(driver)
	before := v.apiReads()
	lists := v.lists(driver)
	asked := v.apiReads() - before
	raw, ours := v.changes(driver)
	show(b, "view", fmt.Sprintf("| with %d sandboxes, %d Pods | |\n| --- | --- |\n"+
		"| ListSandboxes, p50 / p90 / most of %d | %.1f / %.1f / %.1f ms; what lifecycle read from the API server meanwhile: %.0f |\n"+
		"| a change until a raw watch tells, p50 / p99 of %d | %.2f / %.2f ms |\n| the same until the driver's stream tells | %.2f / %.2f ms, p99 − that of the raw watch %.2f ms |\n"+
		"| resident without sandboxes / now / most since the start | %.1f / %.1f / %.1f MiB |",
		viewed, 2*viewed, viewLists, ms(quantile(lists, 0.5)), ms(quantile(lists, 0.9)), ms(quantile(lists, 1)), asked, viewChanges,
		ms(quantile(raw, 0.5)), ms(quantile(raw, 0.99)), ms(quantile(ours, 0.5)), ms(quantile(ours, 0.99)), ms(quantile(ours, 0.99)-quantile(raw, 0.99)),
		mib(empty), mib(v.resident()), mib(v.memory("VmHWM:"))))
}

// view is lifecycle before many sandboxes.
type view struct {
	b       *testing.B
	site    *lifecycle.Site
	many    *kubernetes.Clientset // without a limit
	objects *dynamic.DynamicClient
	ns      string
	boxes   []string // names
	// box, and the Pods of the sandbox that all others are copies of, with its id.
	box  *unstructured.Unstructured
	pods []corev1.Pod
	id   string
}

func (v *view) must(err error) {
	if err != nil {
		v.b.Helper()
		v.b.Fatal(err)
	}
}

func (v *view) client() kubernetes.Interface { return v.many }

// pattern has one sandbox made in the ordinary way.
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
}

func (v *view) connect(config *rest.Config) {
	v.b.Helper()
	config.QPS = -1
	var err, err2 error
	v.many, err = kubernetes.NewForConfig(config)
	v.objects, err2 = dynamic.NewForConfig(config)
	v.must(errors.Join(err, err2))
}

// populate makes the copies.
func (v *view) populate() {
	v.b.Helper()
	errs := make([]error, viewed)
	todo := make(chan int)
	var making sync.WaitGroup
	for range viewMakers {
		making.Go(func() {
			for n := range todo {
				errs[n] = v.copy(n)
			}
		})
	}
	for n := range viewed {
		todo <- n
	}
	close(todo)
	making.Wait()
	v.must(errors.Join(errs...))
}

// copy makes the n-th sandbox: its object, with the status that the controller gave it, and its Pods, which nobody schedules.
func (v *view) copy(n int) error {
	id, ctx := fmt.Sprintf("%08d%s", n, v.id[8:]), v.b.Context()
	text, err := v.box.MarshalJSON()
	if err != nil {
		return err
	}
	box := new(unstructured.Unstructured)
	if err := box.UnmarshalJSON([]byte(strings.ReplaceAll(string(text), v.id, id))); err != nil {
		return err
	}
	v.boxes[n] = fmt.Sprintf("box-%05d", n)
	labels, annotations := box.GetLabels(), box.GetAnnotations()
	for _, of := range []map[string]string{labels, annotations} {
		for key, value := range map[string]string{workspace.LabelSandboxName: v.boxes[n], workspace.LabelSandboxWorkspace: v.ns} {
			if of[key] != "" {
				of[key] = value
			}
		}
	}
	status := box.Object["status"]
	box.Object["metadata"] = map[string]any{"name": v.boxes[n], "namespace": v.ns}
	box.SetLabels(labels)
	box.SetAnnotations(annotations)
	made, err := v.objects.Resource(sandboxes).Namespace(v.ns).Create(ctx, box, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Object["status"] = status
	if _, err := v.objects.Resource(sandboxes).Namespace(v.ns).UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	for i := range v.pods {
		pod := v.pods[i].DeepCopy()
		name := v.boxes[n]
		if pod.Labels[workspace.LabelBoundaryRole] == workspace.RoleSupervisor {
			name = workspace.SupervisorPod(id)
		}
		owners := pod.OwnerReferences
		for k := range owners {
			owners[k].Name, owners[k].UID = v.boxes[n], made.GetUID()
		}
		for key, value := range pod.Labels {
			pod.Labels[key] = strings.ReplaceAll(value, v.id, id)
		}
		pod.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: v.ns, Labels: pod.Labels, Annotations: pod.Annotations, OwnerReferences: owners}
		pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{}
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "portcullis.test/nobody"}}
		pod.Spec.ServiceAccountName, pod.Spec.AutomountServiceAccountToken = "", new(false)
		if _, err := v.client().CoreV1().Pods(v.ns).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// awaitListed waits until all are told.
func (v *view) awaitListed(driver computev1.ComputeDriverClient) {
	v.b.Helper()
	v.site.Eventually("all are listed", func() error {
		listed, err := driver.ListSandboxes(v.b.Context(), &computev1.ListSandboxesRequest{})
		if err == nil && len(listed.GetSandboxes()) < viewed {
			err = fmt.Errorf("%d are", len(listed.GetSandboxes()))
		}
		return err
	})
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
		for n := 0; ; n++ {
			event, err := stream.Recv()
			if err != nil {
				return
			}
			now := time.Now()
			if n == viewed {
				close(first)
			}
			for _, c := range event.GetSandbox().GetSandbox().GetStatus().GetConditions() {
				if c.GetType() == probeCondition {
					oursSeen <- seen{c.GetMessage(), now}
				}
			}
		}
	})
	<-first
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
	for n := range viewChanges {
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
	request, err := http.NewRequestWithContext(v.b.Context(), http.MethodGet, "http://"+v.site.Mesh.Admin(mesh.Lifecycle)+"/metrics", nil)
	v.must(err)
	answer, err := http.DefaultClient.Do(request)
	v.must(err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	v.must(err)
	for line := range strings.Lines(string(text)) {
		if series, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.Contains(series, "kube_client_requests_total{") && strings.Contains(series, `"calls"`) && strings.Contains(series, `"GET"`) {
			n, err := strconv.ParseFloat(value, 64)
			v.must(err)
			sum += n
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
