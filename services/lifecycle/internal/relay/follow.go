package relay

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Following says how a Follower works.
type Following struct {
	// Backend is the connection that calls are passed to.
	Backend grpc.ClientConnInterface
	// Others returns a connection on which calls take turns over all replicas. It is asked for one while Backend's replica is not
	// ready, and the Follower closes what it got.
	Others func() (*grpc.ClientConn, error)
	// Leave ends what is under way on Backend and has the next calls made to another replica, if there is one (meshrpc.Sticky).
	Leave func() bool
	// Patience is how long a replica may be unready before another is looked for. It is how often one is looked for, too, and how long the
	// answer may take.
	Patience time.Duration
}

// Follower leaves a replica of lifecycle that can be reached and says that it is not ready, once another says that it is. While none is
// ready nothing changes: what a replica can do still is wanted then, and what it cannot do it refuses with the reason. Make it with
// NewFollower.
type Follower struct {
	how Following
	log zerolog.Logger
}

// NewFollower starts nothing.
func NewFollower(how Following, log zerolog.Logger) (*Follower, error) {
	if how.Backend == nil || how.Others == nil || how.Leave == nil || how.Patience <= 0 {
		return nil, errors.New("follow whether lifecycle is ready: there are no connections, no way to leave one, or no patience")
	}
	return &Follower{how: how, log: log}, nil
}

// Run follows until ctx ends, and returns nil.
func (f *Follower) Run(ctx context.Context) error {
	for {
		f.follow(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(f.how.Patience):
		}
	}
}

// follow hears of one replica until the connection to it ends.
func (f *Follower) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := grpc_health_v1.NewHealthClient(f.how.Backend).Watch(ctx, new(grpc_health_v1.HealthCheckRequest))
	if err != nil {
		return // calls say so to their callers
	}
	stop := func() {}
	defer func() { stop() }()
	for {
		answer, err := stream.Recv()
		stop()
		stop = func() {}
		if err != nil {
			return
		}
		if answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			stop = f.search(stream.Context())
		}
	}
}

// search looks for a replica that is ready, until it is stopped.
func (f *Follower) search(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if f.found(ctx) && f.how.Leave() {
			line := f.log.Warn()
			if p, ok := peer.FromContext(ctx); ok {
				line.Stringer(telemetry.KeyPeer, p.Addr)
			}
			line.Msg("this lifecycle is not ready and another one is; the calls go there from now on")
		}
	}()
	return func() { cancel(); <-ended }
}

// found reports that another replica is ready. It asks all in turn, and knows that this one is not.
func (f *Follower) found(ctx context.Context) bool {
	tick := time.NewTicker(f.how.Patience)
	defer tick.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-tick.C:
	}
	others, err := f.how.Others()
	if err != nil {
		f.log.Error().Err(err).Msg("whether another lifecycle is ready cannot be asked")
		return false
	}
	defer func() { _ = others.Close() }()
	for {
		if f.ready(ctx, others) {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

func (f *Follower) ready(ctx context.Context, conn grpc.ClientConnInterface) bool {
	ctx, cancel := context.WithTimeout(ctx, f.how.Patience)
	defer cancel()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, new(grpc_health_v1.HealthCheckRequest))
	return err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING
}
