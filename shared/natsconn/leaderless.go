package natsconn

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// askAgain is how long a question waits for its answer before it is asked again.
	askAgain = 3 * time.Second
	// codeNoQuorum is what a server answers that has been without a leader of its cluster's JetStream for some seconds (JSClusterNotAvailErr).
	codeNoQuorum jetstream.ErrorCode = 10008
)

// UntilLed asks JetStream something that may be asked any number of times, until a leader has answered or ctx ends, which must have an end.
// Servers of a cluster that have not elected its leader yet drop a question without a word, and later say that they have none: who asks at
// their start, once, waits for nothing. Any other answer is returned as it is; after the end of ctx, the last error of ask.
func UntilLed(ctx context.Context, ask func(context.Context) error) error {
	for {
		asking, cancel := context.WithTimeout(ctx, askAgain)
		err := ask(asking)
		var refused *jetstream.APIError
		leaderless := errors.As(err, &refused) && refused.ErrorCode == codeNoQuorum
		if leaderless {
			<-asking.Done()
		}
		cancel()
		if ctx.Err() != nil || !leaderless && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}
