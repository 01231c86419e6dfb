package kubeclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/flowcontrol"
)

// ErrThrottled is in the error of a request that would have waited longer than ThrottleTimeout for the client's own
// rate limiter. It was not sent.
var ErrThrottled = errors.New("held back by the client's own rate limit")

// throttle measures and bounds the wait for a rate limiter. client-go waits before it applies its own timeout, so
// without a bound here a request without a deadline could wait for ever.
type throttle struct {
	flowcontrol.RateLimiter
	timeout time.Duration
	waited  prometheus.Observer
	advice  string // which keys to raise
}

// Wait fulfils flowcontrol.RateLimiter. It fails at once when the turn would come too late.
func (t *throttle) Wait(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	began := time.Now()
	err := t.RateLimiter.Wait(bounded)
	t.waited.Observe(time.Since(began).Seconds())
	if err == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: the turn would not come within %s at %v requests per second: raise %s, or find who asks so much",
		ErrThrottled, t.timeout, t.QPS(), t.advice)
}

// Accept fulfils flowcontrol.RateLimiter. It has no deadline by its nature; client-go does not call it.
func (t *throttle) Accept() {
	began := time.Now()
	t.RateLimiter.Accept()
	t.waited.Observe(time.Since(began).Seconds())
}
