package bench_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

const (
	// atOnce sandboxes are asked for at the same time, in so many places, by both ways in turns.
	atOnce, places = 200, 20
	crowdTurns     = 3
)

// burst is how one way fared with atOnce sandboxes.
type burst struct {
	ours   bool
	took   time.Duration
	each   []time.Duration
	failed []error
	leaked []string
}

func (b *burst) perSecond() float64 { return float64(atOnce-len(b.failed)) / b.took.Seconds() }

// crowds has both ways take turns.
func (r *race) crowds() (all []*burst) {
	r.b.Helper()
	for turn := range crowdTurns {
		for k := range 2 {
			all = append(all, r.crowd((turn+k)%2 == 0))
		}
	}
	return all
}

// crowd provisions atOnce sandboxes at the same time, looks what there is then, and takes all away again.
func (r *race) crowd(ours bool) *burst {
	r.b.Helper()
	var change []func(*supervisor.Draft)
	if !ours {
		change = append(change, theirs)
	}
	var boxes []*supervisor.Box
	var spaces []string
	for range places {
		ns := r.namespace()
		spaces = append(spaces, ns)
		if !ours {
			r.site.History.Lawless(ns)
		}
		for range atOnce / places {
			boxes = append(boxes, r.site.Box(ns, change...))
		}
	}
	r.restful(boxes[len(boxes)-1])
	out := &burst{ours: ours}
	took := make([]time.Duration, len(boxes))
	start := time.Now()
	errs := each(boxes, func(i int, box *supervisor.Box) error {
		defer func() { took[i] = time.Since(start) }()
		if !ours {
			return r.bare.play(r.b.Context(), r.script, box)
		}
		_, err := r.client.Provision(r.b.Context(), box, box.Run)
		return err
	})
	out.took = time.Since(start)
	for i, err := range errs {
		if err != nil {
			out.failed = append(out.failed, err)
		} else {
			out.each = append(out.each, took[i])
		}
	}
	granted := boxes[:0:0]
	for i, box := range boxes {
		if errs[i] == nil {
			granted = append(granted, box)
			r.awaitReady(box)
		}
	}
	out.leaked = r.unexpected(spaces, granted)
	r.clear(ours, spaces, boxes)
	out.leaked = append(out.leaked, r.unexpected(spaces, nil)...)
	return out
}

// each does the same with all at once.
func each(boxes []*supervisor.Box, do func(int, *supervisor.Box) error) []error {
	var running sync.WaitGroup
	errs := make([]error, len(boxes))
	for i, box := range boxes {
		running.Go(func() { errs[i] = do(i, box) })
	}
	running.Wait()
	return errs
}

// unexpected is what is in namespaces, but for the fences, other than the sets of Boxes, and what of the sets is missing.
func (r *race) unexpected(spaces []string, boxes []*supervisor.Box) (wrong []string) {
	r.b.Helper()
	want := map[string]bool{}
	for _, box := range boxes {
		for _, key := range []string{
			supervisor.Pods + "/" + box.Name, supervisor.Pods + "/" + box.SupervisorName(), supervisor.Services + "/" + box.ServiceName(),
			supervisor.Secrets + "/" + box.SecretName("sandbox", box.Run.Generation), supervisor.Secrets + "/" + box.SecretName("supervisor", box.Run.Generation),
		} {
			want[box.Namespace+"/"+key] = true
		}
	}
	for _, ns := range spaces {
		for _, key := range r.site.History.Now(ns).Companions() {
			if key = ns + "/" + key; !want[key] {
				wrong = append(wrong, key+" is left over")
			}
			delete(want, key)
		}
	}
	for key := range want {
		wrong = append(wrong, key+" is missing")
	}
	slices.Sort(wrong)
	return wrong
}

// clear takes the sets away, as lifecycle would or with their Sandboxes, and then the Sandboxes.
func (r *race) clear(ours bool, spaces []string, boxes []*supervisor.Box) {
	r.b.Helper()
	if ours {
		r.must(errors.Join(each(boxes, func(_ int, box *supervisor.Box) error {
			return supervisor.Insist(r.b.Context(), func(ctx context.Context) error {
				_, err := r.client.Remove(ctx, box, box.Run)
				return err
			})
		})...))
	}
	for _, box := range boxes {
		box.Delete()
	}
	if ours {
		return
	}
	for _, ns := range spaces {
		cluster.Eventually(r.b, "namespace "+ns+" is empty", func(ctx context.Context) error {
			pods, err := r.cluster.Client().CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
			if err == nil && len(pods.Items) > 0 {
				err = fmt.Errorf("there are %d Pods", len(pods.Items))
			}
			return err
		})
	}
	cluster.Eventually(r.b, "the bare client's sets are gone", func(context.Context) error {
		if left := r.unexpected(spaces, nil); len(left) > 0 {
			return fmt.Errorf("there is %s", left[0])
		}
		return nil
	})
}

func crowdTable(all []*burst) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %d at once in %d namespaces | granted | left over or missing | sandboxes per second | half of them / the last after |\n| --- | --- | --- | --- | --- |\n", atOnce, places)
	rates := map[bool][]float64{}
	for _, a := range all {
		name := "bare client"
		if a.ours {
			name = "Provision"
		}
		rates[a.ours] = append(rates[a.ours], a.perSecond())
		fmt.Fprintf(&b, "| %s | %d | %d | %.1f | %.2f / %.2f s |\n", name, len(a.each), len(a.leaked), a.perSecond(),
			quantile(a.each, 0.5).Seconds(), quantile(a.each, 1).Seconds())
	}
	sum := func(of []float64) (s float64) {
		for _, rate := range of {
			s += 1 / rate // all turns are of as many sandboxes, so times add up
		}
		return s
	}
	fmt.Fprintf(&b, "| throughput over all turns / that of the bare client | | | %.2f | |", sum(rates[false])/sum(rates[true]))
	return b.String()
}
