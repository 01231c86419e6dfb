package bench_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/apiproxy"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

const (
	// quarters are the namespaces in which sandboxes stand while an installation at rest is looked at.
	quarters = 50
	// makers make sandboxes at the same time.
	makers = 16
)

var (
	restTime = flag.Duration("rest-time", 11*time.Minute,
		"for how long an installation at rest is looked at, after the first looks: usually longer than the time within which all are looked at again")
	restSandboxes = flag.Int("rest-sandboxes", 1000, "how many sandboxes stand while an installation at rest is looked at; half of them run")
	restRate      = flag.Int("rest-rate", 4, "reconcile_rate of the daemon that is looked at")
)

// BenchmarkSupervisorctlAtRest runs once, whatever b.N is, and prints its table. The sandboxes are made by a bare client before the
// daemon starts: it finds them as another process has left them.
func BenchmarkSupervisorctlAtRest(b *testing.B) {
	private := cluster.StartPrivate(b)
	r := newRaces(b, private.Cluster)
	at := &race{races: r}
	var err error
	at.bare, err = newBare(private.RESTConfig())
	r.must(err)
	empty := r.rest("no sandbox", 0, time.Minute)
	boxes := at.populate()
	full := r.rest(fmt.Sprintf("%d sandboxes, of which %d run", len(boxes), len(boxes)/2), float64(len(boxes)), *restTime)
	unchanged := r.unchanged(boxes)
	show(b, "rest", restTable(empty, full)+"\n\n"+unchanged)
}

// populate makes the sandboxes, those that run first.
func (r *race) populate() []*supervisor.Box {
	r.b.Helper()
	var spaces []string
	for range quarters {
		spaces = append(spaces, r.namespace())
		r.site.History.Lawless(spaces[len(spaces)-1])
	}
	boxes := make([]*supervisor.Box, *restSandboxes)
	running := len(boxes) / 2
	errs := make([]error, len(boxes))
	todo := make(chan int)
	var making sync.WaitGroup
	for range makers {
		making.Go(func() {
			for n := range todo {
				if boxes[n], errs[n] = r.site.Make(r.b.Context(), spaces[n%quarters]); errs[n] == nil {
					errs[n] = r.settle(boxes[n], n < running)
				}
			}
		})
	}
	for n := range boxes {
		todo <- n
	}
	close(todo)
	making.Wait()
	r.must(errors.Join(errs...))
	for _, box := range boxes[:running] {
		r.awaitReady(box)
	}
	return boxes
}

// settle writes the record of a sandbox that is settled, after a whole run was raised for it if it runs.
func (r *race) settle(box *supervisor.Box, runs bool) error {
	gone := []string{"bootstrapping", "bootstrap-started-at-ms", "bootstrap-operation", "bootstrap-phase", "bootstrap-attempt"}
	readiness := "ready"
	if runs {
		if err := r.bare.play(r.b.Context(), r.script, box); err != nil {
			return err
		}
	} else {
		gone = append(gone, "generation")
		readiness = "unavailable"
	}
	const prefix = `"openshell.ai/sandbox-runtime-`
	patch := prefix + `readiness":"` + readiness + `"`
	for _, key := range gone {
		patch += "," + prefix + key + `":null`
	}
	_, err := r.bare.dynamic.Resource(sandboxes).Namespace(box.Namespace).Patch(r.b.Context(), box.Name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{`+patch+`}}}`), metav1.PatchOptions{})
	return err
}

// quiet is what a daemon does and takes while nobody asks for anything.
type quiet struct {
	what          string
	took          time.Duration
	first         time.Duration // until every sandbox was looked at once
	begun         map[string]int
	reads, writes map[string]int
	cpu           time.Duration
	now, most     int64 // resident bytes, after a while and at most since the start
	heap          float64
}

// rest starts a daemon and looks at it for some time, once it has looked at everything.
func (r *races) rest(what string, all float64, long time.Duration) *quiet {
	r.b.Helper()
	proxy := apiproxy.New(r.b, r.cluster)
	tape := newTape(proxy)
	out := &quiet{what: what}
	start := time.Now()
	const table = "[portcullis.supervisorctl]\n"
	settings := r.settings(r.kubeconfig(proxy.Address(), proxy.Authority()))
	p := longRun(r.b, strings.Replace(settings, table, fmt.Sprintf("%sreconcile_rate = %d\n", table, *restRate), 1))
	p.await("not every sandbox was found settled", func() error {
		v, err := p.metric("portcullis_supervisorctl_reconcile_looks_total", `ending="settled"`)
		if err == nil && v < all {
			err = fmt.Errorf("%v of %v were", v, all)
		}
		return err
	})
	out.first = time.Since(start)
	out.begun, _ = tape.count()
	f := &field{b: r.b}
	cpu := f.cpu(p.pid())
	reads, writes := tape.count()
	start = time.Now()
	time.Sleep(long)
	out.took = time.Since(start)
	later, latest := tape.count()
	out.reads, out.writes = less(later, reads), less(latest, writes)
	out.cpu = f.cpu(p.pid()) - cpu
	out.now, out.most = p.memory("VmRSS:"), p.memory("VmHWM:")
	var err error
	out.heap, err = p.metric("go_memstats_heap_inuse_bytes", "")
	r.must(err)
	p.stop()
	return out
}

func (t *tape) count() (reads, writes map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.reads), maps.Clone(t.others)
}

func less(later, earlier map[string]int) map[string]int {
	for key, n := range earlier {
		if later[key] -= n; later[key] == 0 {
			delete(later, key)
		}
	}
	return later
}

// unchanged says how many of the sandboxes are as they were made.
func (r *races) unchanged(boxes []*supervisor.Box) string {
	r.b.Helper()
	kept := map[string]int{}
	for _, box := range boxes {
		now, err := box.Object(context.WithoutCancel(r.b.Context()))
		r.must(err)
		what := "running, "
		if now.Suspended() {
			what = "suspended, "
		}
		kept[what+now.Annotations["openshell.ai/sandbox-runtime-readiness"]+" "+now.Annotations["openshell.ai/sandbox-runtime-bootstrap-phase"]]++
	}
	var words []string
	for _, what := range slices.Sorted(maps.Keys(kept)) {
		words = append(words, fmt.Sprintf("%d %s", kept[what], what))
	}
	return "Afterwards there are: " + strings.Join(words, "; ") + "."
}

func restTable(all ...*quiet) string {
	var b strings.Builder
	b.WriteString("| at rest | looked at all after | writes per second | reads per second | of a core | resident / most since the start | heap in use |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	sum := func(of map[string]int) (n float64) {
		for _, v := range of {
			n += float64(v)
		}
		return n
	}
	for _, r := range all {
		s := r.took.Seconds()
		fmt.Fprintf(&b, "| %s | %.0f s | %.2f %v | %.2f %v | %.1f %% | %.1f / %.1f MiB | %.1f MiB |\n", r.what, r.first.Seconds(),
			sum(r.writes)/s, r.writes, sum(r.reads)/s, r.reads, 100*r.cpu.Seconds()/s, mib(r.now), mib(r.most), mib(int64(r.heap)))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
