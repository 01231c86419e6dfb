package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// TestWhoGetsNoTurn is refused as such while there would still be time for the work, and leaves no room taken.
func TestWhoGetsNoTurn(t *testing.T) {
	call := service.DefaultSettings().CallTimeout.Std()
	for name, tc := range map[string]struct {
		all, perNamespace int
		timeout, waits    time.Duration
	}{
		"of the namespace": {3, 1, time.Hour, call - 10*time.Second}, "of all": {1, 1, time.Hour, call - 10*time.Second},
		"in the time of its call": {1, 1, 30 * time.Second, 20 * time.Second}, "in a short time": {1, 1, time.Second, time.Second / 2},
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
				if waited := time.Since(began); waited != tc.waits {
					t.Errorf("it waited for %s of the world's time", waited)
				}
				b.leave <- struct{}{}
				b.finish(1)
				if n := b.conductor.announced(); n != 0 {
					t.Errorf("%d calls are still expected", n)
				}
				b.call(t.Context(), "red")
				b.leave <- struct{}{}
				b.finish(1)
			})
		})
	}
}

// TestACrowd of starts in one namespace waits longer than a start may idle, and each gets its turn: the loop is told of all of them, from
// when they come until they have ended.
func TestACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd = 200
		s := newSite(t)
		s.conductor.do = func(context.Context, conduct.Goal) (conduct.Outcome, error) {
			time.Sleep(6 * time.Second)
			if s.conductor.announced() == 0 {
				t.Error("a call that is worked on is not expected")
			}
			return conduct.Outcome{Step: plan.Step{Action: plan.Done}, Facts: standing()}, nil
		}
		began, ended := time.Now(), make(chan error, crowd)
		for range crowd {
			r := valid(t)
			go func() {
				_, _, err := calls["provision"](t.Context(), s, r)
				ended <- err
			}()
		}
		synctest.Wait()
		if n := s.conductor.announced(); n != crowd {
			t.Errorf("%d calls are expected", n)
		}
		for range crowd {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took <= 2*plan.IdleLimit {
			t.Errorf("it took %s of the world's time, so that nobody waited for long", took)
		}
		if n := s.conductor.announced(); n != 0 {
			t.Errorf("%d calls are still expected", n)
		}
	})
}

// TestAStartWaitsForTheLeader: one that waits where nobody tells the loop of it is refused for what it is before it is taken for abandoned.
func TestAStartWaitsForTheLeader(t *testing.T) {
	const limit = plan.IdleLimit - 5*time.Second
	for name, tc := range map[string]struct {
		call        string
		led         bool
		loses, wins time.Duration
		waits       time.Duration // zero for as long as the turn takes
	}{
		"this one leads":                        {"provision", false, 0, 0, 0},
		"another one leads":                     {"provision", true, 0, 0, limit},
		"another one leads soon":                {"provision", false, limit - time.Second, 0, limit},
		"another one leads later":               {"provision", false, limit + time.Second, 0, 2 * limit},
		"this one leads soon":                   {"provision", true, 0, limit - time.Second, 0},
		"another one leads, and it is no start": {"release", true, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBusy(t, 1, 1)
				b.conductor.led.Store(tc.led)
				b.call(t.Context(), "sandboxes")
				b.working()
				for after, led := range map[time.Duration]bool{tc.loses: true, tc.wins: false} {
					if after > 0 {
						time.AfterFunc(after, func() { b.conductor.led.Store(led) })
					}
				}
				const turn = 3 * limit
				go func() {
					time.Sleep(turn)
					close(b.leave)
				}()
				began := time.Now()
				_, _, err := calls[tc.call](t.Context(), b.site, valid(t))
				took := time.Since(began)
				if tc.waits == 0 && (err != nil || took != turn) {
					t.Errorf("%v after %s", err, took)
				}
				if tc.waits > 0 {
					if d := refusal(t, err); d.Reason != verdict.TooManyCalls || !strings.Contains(d.Explanation, "leads") || took != tc.waits {
						t.Errorf("%v after %s", d, took)
					}
				}
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

// TestLooksHaveTurns of their own: as many at once as other calls, and neither keeps the others waiting.
func TestLooksHaveTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBusy(t, 2, 2)
		b.conductor.look = func(context.Context, plan.Ref) conduct.Outcome {
			b.entered <- "look"
			<-b.leave
			return conduct.Outcome{Facts: standing()}
		}
		ask := func(ctx context.Context) {
			_, _, err := calls["status"](ctx, b.site, valid(t))
			b.ended <- err
		}
		for range 3 {
			go ask(t.Context())
		}
		if n := b.working(); n != 2 {
			t.Errorf("%d looks at once", n)
		}
		b.call(t.Context(), "red")
		if n := b.working(); n != 3 {
			t.Error("a stop waits for looks")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go ask(ctx)
		if d := refusal(t, <-b.ended); d.Reason != verdict.TooManyCalls {
			t.Errorf("%+v", d)
		}
		for range 4 {
			b.leave <- struct{}{}
		}
		b.finish(4)
	})
}
