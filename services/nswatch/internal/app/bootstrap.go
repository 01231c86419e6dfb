package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

// Log keys of the bootstrap.
const (
	keyThing   = "thing"
	keyCreated = "created"
	keyChanges = "changes"
)

// awaiter gives a connection when there is one; *natsconn.Conn is one.
type awaiter interface {
	Await(ctx context.Context) (natsconn.Session, error)
}

// thing is something that must be there on the embedded server.
type thing struct {
	name string
	// ensure makes it if it is not there. changes are words about what was changed on one that was.
	ensure func(context.Context, jetstream.JetStream) (created bool, changes string, err error)
}

func bucket() thing {
	return thing{"bucket " + allowkv.Bucket, func(ctx context.Context, js jetstream.JetStream) (bool, string, error) {
		created, err := allowkv.Bootstrap(ctx, js, 1)
		return created, "", err
	}}
}

// stream is the audit stream of all daemons. Bounds are raised to the settings and never lowered, which would delete events;
// the one server has one copy.
func stream(cfg audit.Config) thing {
	cfg.Replicas = 1
	return thing{"stream " + audit.Stream, func(ctx context.Context, js jetstream.JetStream) (bool, string, error) {
		done, err := audit.Bootstrap(ctx, js, cfg)
		return done.Created, strings.Join(done.Changes, "; "), err
	}}
}

// bootstrapEmbedded is a task that makes t on the embedded server, which nobody else does, and then waits for its end. It
// tries again until it worked, or only a person can decide.
func bootstrapEmbedded(conn awaiter, t thing, log zerolog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(0))
		for ctx.Err() == nil {
			created, changes, err := bootstrapOnce(ctx, conn, t)
			if err == nil {
				log.Info().Str(keyThing, t.name).Bool(keyCreated, created).Str(keyChanges, changes).Msg("it is there on the embedded server")
				<-ctx.Done()
				return nil
			}
			if errors.Is(err, audit.ErrStreamShrinks) || errors.Is(err, audit.ErrStreamDiffers) {
				log.Error().Err(err).Str(keyThing, t.name).Msg("it is on the embedded server, and not as the settings say; it stays as it is")
				<-ctx.Done()
				return nil
			}
			if ctx.Err() == nil {
				log.Error().Err(err).Str(keyThing, t.name).Msg("cannot make it on the embedded server; trying again")
				sleep(ctx, wait.NextBackOff())
			}
		}
		return nil
	}
}

func bootstrapOnce(ctx context.Context, conn awaiter, t thing) (created bool, changes string, err error) {
	session, err := conn.Await(ctx)
	if err != nil {
		return false, "", err
	}
	return t.ensure(ctx, session.JetStream)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
