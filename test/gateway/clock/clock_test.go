package clock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/test/gateway/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestManual(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	m := clock.NewManual(start)
	var fired []time.Duration
	add := func(d time.Duration, then func()) func() bool {
		return m.AfterFunc(d, func() {
			fired = append(fired, m.Now().Sub(start))
			if then != nil {
				then()
			}
		})
	}
	add(3*time.Second, nil)
	add(time.Second, func() { add(time.Second, nil) })
	stop := add(2*time.Second, nil)
	if !stop() || stop() {
		t.Error("stopped never, or twice")
	}
	m.Advance(2 * time.Second)
	if len(fired) != 2 || fired[0] != time.Second || fired[1] != 2*time.Second || m.Now() != start.Add(2*time.Second) {
		t.Errorf("fired at %v, now %s", fired, m.Now())
	}
	m.Advance(time.Hour)
	if len(fired) != 3 || fired[2] != 3*time.Second {
		t.Errorf("fired at %v", fired)
	}
}

func TestSleepAndLimit(t *testing.T) {
	t.Parallel()
	m := clock.NewManual(time.Unix(0, 0))
	slept := make(chan error, 1)
	go func() { slept <- clock.Sleep(t.Context(), m, time.Second) }()
	if err := m.AwaitTimer(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	m.Advance(time.Second)
	if err := <-slept; err != nil {
		t.Error(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if err := clock.Sleep(ctx, m, time.Second); !errors.Is(err, enough) {
		t.Error(err)
	}
	if err := m.AwaitTimer(ctx, time.Second); !errors.Is(err, enough) {
		t.Errorf("a timer that was stopped runs: %v", err)
	}
	limited, done := clock.Limit(t.Context(), m, time.Second)
	defer done()
	if limited.Err() != nil {
		t.Error("ended at once")
	}
	m.Advance(time.Second)
	<-limited.Done()
	if !errors.Is(context.Cause(limited), context.DeadlineExceeded) {
		t.Error(context.Cause(limited))
	}
	stopped, done := clock.Limit(t.Context(), clock.System{}, time.Hour)
	done()
	if <-stopped.Done(); errors.Is(context.Cause(stopped), context.DeadlineExceeded) {
		t.Error("finished, and late")
	}
}
