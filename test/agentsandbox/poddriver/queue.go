package poddriver

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/client-go/util/workqueue"
)

const (
	retryMin = 10 * time.Millisecond
	retryMax = time.Second
)

type queue[K comparable] = workqueue.TypedRateLimitingInterface[K]

// newQueue starts goroutines that end when the queue is shut down.
func newQueue[K comparable]() queue[K] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[K](retryMin, retryMax))
}

// work handles keys until the queue is shut down, and tries again what failed.
func work[K comparable](ctx context.Context, q queue[K], log zerolog.Logger, handle func(context.Context, K) error) {
	for {
		key, shutdown := q.Get()
		if shutdown {
			return
		}
		err := handle(ctx, key)
		if err != nil && ctx.Err() == nil {
			log.Debug().Err(err).Str("key", fmt.Sprint(key)).Msg("trying again")
			q.AddRateLimited(key)
		} else {
			q.Forget(key)
		}
		q.Done(key)
	}
}
