package meshrpc

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// The ceilings of the waits between attempts: 100ms, 200ms, 400ms ... 2s. Each wait is
// drawn evenly between zero and its ceiling, so that callers that failed together do
// not come back together. The library draws between zero and twice the interval when
// its randomization is 1, hence the halves.
const (
	firstInterval = 50 * time.Millisecond
	maxInterval   = time.Second
)

// retry repeats idempotent calls.
type retry struct {
	idempotent map[string]bool
	attempts   int
	server     string
	now        func() time.Time
	metrics    *metrics
	timer      func() backoff.Timer // nil results mean the system's
}

func newRetry(to Target, attempts int, now func() time.Time, m *metrics) *retry {
	r := &retry{
		idempotent: map[string]bool{}, attempts: attempts, server: to.Daemon, now: now, metrics: m,
		timer: func() backoff.Timer { return nil },
	}
	for _, method := range to.Idempotent {
		r.idempotent[method] = true
	}
	return r
}

func (r *retry) unary(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if !r.idempotent[method] {
		return next(ctx, method, request, reply, cc, opts...)
	}
	var last error
	attempt := func() error {
		last = next(ctx, method, request, reply, cc, opts...)
		if !worthRepeating(last) {
			return backoff.Permanent(last) // nil stays nil
		}
		return last
	}
	count := func(error, time.Duration) { r.metrics.retries.WithLabelValues(method, r.server).Inc() }
	_ = backoff.RetryNotifyWithTimer(attempt, r.schedule(ctx), count, r.timer())
	if worthRepeating(last) && ctx.Err() != nil {
		// The caller gave up while we waited.
		return status.Errorf(status.FromContextError(ctx.Err()).Code(), "gave up after: %s", status.Convert(last).Message())
	}
	return last
}

// worthRepeating is true for "could not be reached". An error with a verdict is an
// answer, also when the answer is "could not find out": the server has looked.
func worthRepeating(err error) bool {
	if status.Code(err) != codes.Unavailable {
		return false
	}
	_, answered := verdict.FromError(err)
	return !answered
}

func (r *retry) schedule(ctx context.Context) backoff.BackOff {
	return backoff.WithContext(&bounded{
		BackOff: backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(firstInterval), backoff.WithMaxInterval(maxInterval),
			backoff.WithMultiplier(2), backoff.WithRandomizationFactor(1), backoff.WithMaxElapsedTime(0)),
		ctx: ctx, left: r.attempts - 1, now: r.now,
	}, ctx)
}

// bounded ends a schedule after the attempts are used up, and at once when the next
// wait would outlast the deadline: the caller can use the time better.
type bounded struct {
	backoff.BackOff
	ctx  context.Context
	left int
	now  func() time.Time
}

// NextBackOff is the next wait or backoff.Stop.
func (b *bounded) NextBackOff() time.Duration {
	if b.left <= 0 {
		return backoff.Stop
	}
	b.left--
	wait := b.BackOff.NextBackOff()
	if deadline, ok := b.ctx.Deadline(); ok && wait >= deadline.Sub(b.now()) {
		return backoff.Stop
	}
	return wait
}
