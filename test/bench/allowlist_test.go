package bench_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
)

const (
	// changes is how many labels are changed at each size, after warmUp that do not count.
	changes = 300
	warmUp  = 20
	// idleTime is how long an installation at rest is looked at.
	idleTime = 20 * time.Second
)

// row is what was measured with one number of listed namespaces.
type row struct {
	listed           int
	alone, raw, ours []time.Duration
	bytes            float64       // through NATS, for a change
	watcherCPU       time.Duration // of nswatch, for a change, above what it takes at rest
	readerCPU        time.Duration
	watcher, reader  int64 // resident bytes
	check            float64
	allocations      int
}

// BenchmarkAllowlist runs once, whatever b.N is, and prints its table.
func BenchmarkAllowlist(b *testing.B) {
	private := cluster.StartPrivate(b)
	server := natstest.Start(b)
	i := installation.New(b, private.Cluster, server.URL())
	i.Bootstrap(1)
	private.Controllers().Kill() // it would furnish ten thousand namespaces while we measure
	f := &field{b: b, i: i, server: server}
	var rows []row
	for _, listed := range []int{10, 1000, 10_000} {
		f.grow(listed)
		rows = append(rows, f.measure())
	}
	b.Log("\n" + table(rows))
}

// field is where is measured.
type field struct {
	b      *testing.B
	i      *installation.Installation
	server *natstest.Server
	names  []string
}

func (f *field) measure() row {
	r := row{listed: len(f.names)}
	w := f.watch()
	r.alone = f.each(func(ns string, trusted bool) time.Duration {
		start := f.label(ns, trusted)
		return w.await(ns, trusted) - start
	})

	nswatch := program.Start(f.b, "nswatch", f.i.Settings(""))
	nswatch.AwaitReady()
	reader := f.startReader()
	reader.expect(f.names[0], true)()
	idle := f.load(nswatch, reader, func() { time.Sleep(idleTime) })
	busy := f.load(nswatch, reader, func() {
		f.each(func(ns string, trusted bool) time.Duration {
			answer := reader.expect(ns, trusted)
			start := f.label(ns, trusted)
			r.raw = append(r.raw, w.await(ns, trusted)-start)
			r.ours = append(r.ours, answer()-start)
			return 0
		})
	})
	r.raw, r.ours = r.raw[warmUp:], r.ours[warmUp:]
	share := busy.took.Seconds() / idle.took.Seconds()
	perChange := func(busy, idle float64) float64 { return max(busy-idle*share, 0) / (changes + warmUp) }
	r.bytes = perChange(busy.bytes, idle.bytes)
	r.watcherCPU = time.Duration(perChange(float64(busy.watcher), float64(idle.watcher)))
	r.readerCPU = time.Duration(perChange(float64(busy.reader), float64(idle.reader)))
	r.watcher, r.reader = f.resident(nswatch.Resident()), f.resident(resident(reader.pid()))
	r.check, r.allocations = reader.check(f.names[0])
	reader.stop()
	nswatch.Kill()
	w.stop()
	return r
}

func (f *field) resident(bytes int64, err error) int64 {
	f.b.Helper()
	if err != nil {
		f.b.Fatal(err)
	}
	return bytes
}

// each takes the label off a listed namespace and puts it on again, over and over, and returns what do measured, warm.
func (f *field) each(do func(ns string, trusted bool) time.Duration) (measured []time.Duration) {
	for n := range changes + warmUp {
		ns := f.names[n/2%len(f.names)]
		measured = append(measured, do(ns, n%2 == 1))
	}
	return measured[warmUp:]
}

// label changes the label and returns when the request for it began, in monotonic time.
func (f *field) label(ns string, trusted bool) time.Duration {
	f.b.Helper()
	key, value, _ := strings.Cut(f.i.Label, "=")
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, key)
	if trusted {
		patch = fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	}
	start := monotonic(f.b)
	_, err := f.i.Cluster.Client().CoreV1().Namespaces().Patch(f.b.Context(), ns, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		f.b.Fatal(err)
	}
	return start
}

// bareWatch is a client-go watch with nothing around it.
type bareWatch struct {
	b    *testing.B
	w    watch.Interface
	seen chan seen
}

type seen struct {
	name    string
	trusted bool
	at      time.Duration
}

func (f *field) watch() *bareWatch {
	f.b.Helper()
	client := f.i.Cluster.Client().CoreV1().Namespaces()
	now, err := client.List(f.b.Context(), metav1.ListOptions{LabelSelector: f.i.Label, Limit: 1})
	if err != nil {
		f.b.Fatal(err)
	}
	w, err := client.Watch(context.WithoutCancel(f.b.Context()), metav1.ListOptions{LabelSelector: f.i.Label, ResourceVersion: now.ResourceVersion})
	if err != nil {
		f.b.Fatal(err)
	}
	bare := &bareWatch{b: f.b, w: w, seen: make(chan seen, 4*changes)}
	go func() {
		defer close(bare.seen)
		for event := range w.ResultChan() {
			at := monotonic(f.b)
			object, ok := event.Object.(metav1.Object)
			if ok {
				bare.seen <- seen{object.GetName(), event.Type != watch.Deleted, at}
			}
		}
	}()
	return bare
}

func (w *bareWatch) await(ns string, trusted bool) time.Duration {
	w.b.Helper()
	for {
		select {
		case s, open := <-w.seen:
			if !open {
				w.b.Fatal("the bare watch ended")
			}
			if s.name == ns && s.trusted == trusted {
				return s.at
			}
		case <-time.After(program.Limit):
			w.b.Fatalf("the bare watch shows nothing of namespace %s", ns)
		}
	}
}

func (w *bareWatch) stop() {
	w.w.Stop()
	for range w.seen { // until the goroutine has ended
	}
}

func quantile(of []time.Duration, q float64) time.Duration {
	sorted := slices.SortedFunc(slices.Values(of), cmp.Compare[time.Duration])
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func table(rows []row) string {
	var b strings.Builder
	b.WriteString("| listed | raw p50 / p99 | raw beside ours p50 / p99 | ours p50 / p99 | ratio p50, p99 | p99 ours − raw | NATS bytes, a change | CPU nswatch, reader, a change | resident nswatch, reader | Check |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	pair := func(of []time.Duration) string {
		return fmt.Sprintf("%.2f / %.2f ms", ms(quantile(of, 0.5)), ms(quantile(of, 0.99)))
	}
	for _, r := range rows {
		ratio := func(q float64) float64 { return ms(quantile(r.ours, q)) / ms(quantile(r.raw, q)) }
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %.2f, %.2f | %.2f ms | %.0f | %.2f, %.2f ms | %.1f, %.1f MiB | %.1f ns, %d allocations |\n",
			r.listed, pair(r.alone), pair(r.raw), pair(r.ours), ratio(0.5), ratio(0.99),
			ms(quantile(r.ours, 0.99)-quantile(r.raw, 0.99)), r.bytes, ms(r.watcherCPU), ms(r.readerCPU),
			mib(r.watcher), mib(r.reader), r.check, r.allocations)
	}
	return b.String()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
