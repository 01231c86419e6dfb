package service_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/service"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// busy is a site whose conductor works until it is let go.
type busy struct {
	*site
	entered chan string
	leave   chan struct{}
	ended   chan error
}

func newBusy(t *testing.T, all, perNamespace int) *busy {
	b := &busy{
		site:    newSite(t, func(s *service.Settings) { s.MaxConcurrent, s.MaxConcurrentPerNamespace = all, perNamespace }),
		entered: make(chan string, 100), leave: make(chan struct{}), ended: make(chan error, 100),
	}
	b.conductor.do = func(ctx context.Context, goal conduct.Goal) (conduct.Outcome, error) {
		b.entered <- goal.Ref.Namespace
		<-b.leave
		return conduct.Outcome{Step: plan.Step{Action: plan.Done}, Facts: standing()}, nil
	}
	return b
}

// call makes a call for a namespace.
func (b *busy) call(ctx context.Context, namespace string) {
	r := valid(b.t)
	r.ref.Namespace = namespace
	go func() {
		_, _, err := calls["release"](ctx, b.site, r)
		b.ended <- err
	}()
}

// working is how many are worked on.
func (b *busy) working() int {
	synctest.Wait()
	return len(b.entered)
}

func (b *busy) finish(n int) {
	b.t.Helper()
	for range n {
		if err := <-b.ended; err != nil {
			b.t.Error(err)
		}
	}
}

// TestTurns: so many in all, and so many for each namespace; who waits for a namespace keeps no other one from its turn.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy(t, 3, 2)
		for range 4 {
			b.call(t.Context(), "red")
		}
		if n := b.working(); n != 2 {
			t.Errorf("%d of one namespace", n)
		}
		for range 2 {
			b.call(t.Context(), "blue")
		}
		if n := b.working(); n != 3 {
			t.Errorf("%d in all", n)
		}
		if n := testutil.ToFloat64(inProgress{b.site}); n != 3 {
			t.Errorf("the metric says %v", n)
		}
		for want := 4; want <= 6; want++ {
			b.leave <- struct{}{}
			if n := b.working(); n != want {
				t.Errorf("%d have entered after %d left", n, want-3)
			}
		}
		for range 3 {
			b.leave <- struct{}{}
		}
		b.finish(6)
		if n := testutil.ToFloat64(inProgress{b.site}); n != 0 {
			t.Errorf("the metric says %v", n)
		}
	})
}

// TestWhoGetsNoTurn is refused as such, before the loop takes its start for abandoned, and leaves no room taken.
func TestWhoGetsNoTurn(t *testing.T) {
	for name, tc := range map[string]struct {
		all, perNamespace int
		timeout           time.Duration
	}{
		"of the namespace": {3, 1, time.Hour}, "of all": {1, 1, time.Hour}, "in the time of its call": {1, 1, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBusy(t, tc.all, tc.perNamespace)
				b.call(t.Context(), "red")
				b.working()
				ctx, cancel := context.WithTimeout(t.Context(), tc.timeout)
				defer cancel()
				began := time.Now()
				b.call(ctx, "red")
				err := <-b.ended
				if d := refusal(t, err); status.Code(err) != codes.ResourceExhausted || d.Reason != verdict.TooManyCalls {
					t.Errorf("%v", err)
				}
				if waited := time.Since(began); waited > plan.IdleLimit/2 || waited < min(tc.timeout, plan.IdleLimit/2) {
					t.Errorf("it waited for %s of the world's time", waited)
				}
				b.leave <- struct{}{}
				b.finish(1)
				b.call(t.Context(), "red")
				b.leave <- struct{}{}
				b.finish(1)
			})
		})
	}
}

// TestManyNamespaces leave nothing behind that limits the next ones.
func TestManyNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy(t, 1, 1)
		close(b.leave)
		for i := range 50 {
			b.call(t.Context(), fmt.Sprintf("n%d", i%7))
		}
		b.finish(50)
	})
}

// TestCallTimeout: a call has a deadline also when its caller set none.
func TestCallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.conductor.do = func(ctx context.Context, _ conduct.Goal) (conduct.Outcome, error) {
			<-ctx.Done()
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Error(ctx.Err())
			}
			return conduct.Outcome{Step: plan.Step{Reason: verdict.CallEnded, Explanation: "the call ended"}}, nil
		}
		began := time.Now()
		if _, _, err := calls["remove"](context.Background(), s, valid(t)); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%v", err)
		}
		if took, want := time.Since(began), service.DefaultSettings().CallTimeout.Std(); took != want {
			t.Errorf("%s, want %s", took, want)
		}
	})
}

// inProgress collects the gauge of calls in progress alone.
type inProgress struct{ *site }

// Describe implements prometheus.Collector.
func (inProgress) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (p inProgress) Collect(out chan<- prometheus.Metric) {
	families, err := p.registry.Gather()
	if err != nil {
		p.t.Error(err)
	}
	for _, f := range families {
		if f.GetName() == "portcullis_supervisorctl_calls_in_progress" {
			out <- prometheus.MustNewConstMetric(prometheus.NewDesc(f.GetName(), f.GetHelp(), nil, nil), prometheus.GaugeValue, f.GetMetric()[0].GetGauge().GetValue())
		}
	}
}
