package meshrpc

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// instant is a timer that fires at once and notes what was asked of it. When stuck, it
// never fires.
type instant struct {
	waits []time.Duration
	c     chan time.Time
	stuck bool
	onSet func()
}

func (i *instant) Start(d time.Duration) {
	i.waits = append(i.waits, d)
	i.c = make(chan time.Time, 1)
	if i.onSet != nil {
		i.onSet()
	}
	if !i.stuck {
		i.c <- time.Time{}
	}
}
func (i *instant) Stop()               {}
func (i *instant) C() <-chan time.Time { return i.c }

func testRetry(t *testing.T, attempts int, timer *instant) *retry {
	t.Helper()
	metrics, err := newMetrics(prometheus.NewRegistry(), false)
	must(t, err)
	r := newRetry(Target{Daemon: "tokenauth", Idempotent: []string{emptyCall}}, attempts, time.Now, metrics)
	r.timer = func() backoff.Timer { return timer }
	return r
}

var errUnavailable = status.Error(codes.Unavailable, "try again")

func TestRetry(t *testing.T) {
	// From the base, a call that fails twice and then works, each case changes one
	// thing. failures is how often it fails with err; -1 is always.
	cases := map[string]struct {
		method   string
		err      error
		failures int
		attempts int // made
		code     codes.Code
	}{
		"base":                   {emptyCall, errUnavailable, 2, 3, codes.OK},
		"no failure":             {emptyCall, errUnavailable, 0, 1, codes.OK},
		"always":                 {emptyCall, errUnavailable, -1, 4, codes.Unavailable},
		"one too many":           {emptyCall, errUnavailable, 4, 4, codes.Unavailable},
		"not idempotent":         {unaryCall, errUnavailable, 2, 1, codes.Unavailable},
		"denied with a verdict":  {emptyCall, verdict.Refuse(verdict.NotListed, "", "").Err(), 2, 1, codes.PermissionDenied},
		"unknown with a verdict": {emptyCall, verdict.Refuse(verdict.Stale, "", "").Err(), 2, 1, codes.Unavailable},
		"deadline":               {emptyCall, status.Error(codes.DeadlineExceeded, ""), 2, 1, codes.DeadlineExceeded},
		"internal":               {emptyCall, status.Error(codes.Internal, ""), 2, 1, codes.Internal},
		"exhausted":              {emptyCall, status.Error(codes.ResourceExhausted, ""), 2, 1, codes.ResourceExhausted},
		"aborted":                {emptyCall, status.Error(codes.Aborted, ""), 2, 1, codes.Aborted},
		"not a status":           {emptyCall, context.DeadlineExceeded, 2, 1, codes.Unknown},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			timer := &instant{}
			r := testRetry(t, 4, timer)
			made := 0
			err := r.unary(context.Background(), c.method, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				made++
				if c.failures < 0 || made <= c.failures {
					return c.err
				}
				return nil
			})
			if made != c.attempts || status.Code(err) != c.code {
				t.Errorf("%d attempts end with %v, want %d and %s", made, err, c.attempts, c.code)
			}
			if err != nil && err != c.err {
				t.Errorf("the error was changed: %v", err)
			}
			if len(timer.waits) != c.attempts-1 {
				t.Errorf("%d waits", len(timer.waits))
			}
			if got := testutil.ToFloat64(r.metrics.retries.WithLabelValues(c.method, "tokenauth")); got != float64(c.attempts-1) {
				t.Errorf("%v retries counted", got)
			}
		})
	}
}

// Full jitter: every wait lies between zero and a ceiling that doubles up to 2s, and
// the waits fill the whole range.
func TestWaits(t *testing.T) {
	const rounds = 400
	var sums, lows, highs [8]float64
	for i := range lows {
		lows[i] = math.Inf(1)
	}
	for range rounds {
		timer := &instant{}
		r := testRetry(t, 9, timer)
		_ = r.unary(context.Background(), emptyCall, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			return errUnavailable
		})
		if len(timer.waits) != 8 {
			t.Fatalf("%d waits", len(timer.waits))
		}
		for i, w := range timer.waits {
			ceiling := min(100*time.Millisecond<<i, 2*time.Second)
			if w < 0 || w > ceiling {
				t.Fatalf("wait %d is %s, above %s", i, w, ceiling)
			}
			share := float64(w) / float64(ceiling)
			sums[i] += share
			lows[i], highs[i] = min(lows[i], share), max(highs[i], share)
		}
	}
	for i := range sums {
		// Even draws miss either fifth of the range 400 times in a row once in 10^38.
		if mean := sums[i] / rounds; lows[i] > 0.2 || highs[i] < 0.8 || mean < 0.3 || mean > 0.7 {
			t.Errorf("wait %d is drawn from %.2f to %.2f of its ceiling, mean %.2f", i, lows[i], highs[i], mean)
		}
	}
}

// A wait that would outlast the deadline is not begun, and the error is the server's.
func TestRetryStopsBeforeTheDeadline(t *testing.T) {
	timer := &instant{}
	r := testRetry(t, 10, timer)
	start := time.Now()
	elapsed := time.Duration(0)
	r.now = func() time.Time { return start.Add(elapsed) }
	ctx, cancel := context.WithDeadline(context.Background(), start.Add(time.Hour))
	defer cancel()
	made := 0
	err := r.unary(ctx, emptyCall, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		if made++; made == 3 {
			elapsed = time.Hour
		}
		return errUnavailable
	})
	if made != 3 || err != errUnavailable {
		t.Errorf("%d attempts end with %v", made, err)
	}
}

// The caller gives up during a wait.
func TestRetryIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	timer := &instant{stuck: true, onSet: cancel}
	r := testRetry(t, 10, timer)
	err := r.unary(ctx, emptyCall, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		return errUnavailable
	})
	if status.Code(err) != codes.Canceled || status.Convert(err).Message() != "gave up after: try again" {
		t.Errorf("the call ends with %v", err)
	}
	// An answer that arrives as the caller gives up is still the answer.
	refused := verdict.Refuse(verdict.NotListed, "", "").Err()
	err = r.unary(ctx, emptyCall, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		return refused
	})
	if err != refused {
		t.Errorf("the call ends with %v", err)
	}
}

// Over a real connection: the handler is reached again, details come through, and the
// call counts once.
func TestRetryOverTheWire(t *testing.T) {
	s := &service{}
	address := join(t, plaintextConfig(), "tokenauth").serve(t, Policy{testService: {PlaintextCaller}}, s)
	m := join(t, plaintextConfig(), "lifecycle")
	client := m.client(t, Target{Daemon: "tokenauth", Address: address, Idempotent: []string{emptyCall}})
	call := func(err error, times int64) (int64, error) {
		s.calls.Store(0)
		s.empty = func(context.Context) error {
			if times < 0 || s.calls.Load() <= times {
				return err
			}
			return nil
		}
		_, got := client.EmptyCall(testContext(t), &grpc_testing.Empty{})
		return s.calls.Load(), got
	}
	if n, err := call(errUnavailable, 2); n != 3 || err != nil {
		t.Errorf("%d attempts end with %v", n, err)
	}
	if got := testutil.ToFloat64(m.metrics.called.WithLabelValues(emptyCall, "OK", "tokenauth")); got != 1 {
		t.Errorf("%v calls counted", got)
	}
	if got := testutil.ToFloat64(m.metrics.retries.WithLabelValues(emptyCall, "tokenauth")); got != 2 {
		t.Errorf("%v retries counted", got)
	}
	refused := verdict.Refuse(verdict.Stale, "allowlist.age", "too old").WithAllowlist(verdict.Evidence{Namespace: "n", Epoch: 7})
	n, err := call(refused.Err(), -1)
	if n != 1 {
		t.Errorf("a verdict was asked for %d times", n)
	}
	if d, ok := verdict.FromError(err); !ok || d.Reason != verdict.Stale || d.Step != "allowlist.age" || d.Allowlist.Epoch != 7 {
		t.Errorf("the verdict came through as %t, %s", ok, d.Explain())
	}
	detailed, withErr := status.New(codes.Unavailable, "details").WithDetails(&grpc_testing.Payload{Body: []byte("x")})
	must(t, withErr)
	n, err = call(detailed.Err(), -1)
	if n != int64(DefaultConfig().MaxAttempts) || !proto.Equal(status.Convert(err).Proto(), detailed.Proto()) {
		t.Errorf("%d attempts end with %v", n, status.Convert(err).Proto())
	}
}
