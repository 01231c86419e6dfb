package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

// bucketReady is a readiness check: the bucket is there, and this identity may read it as the writer must. It is the
// same read (NATS reference 2.8, 5.2), so it also fails while the bucket's stream has no leader. It asks for the heartbeat,
// which is small; the right to read is one for all keys.
func bucketReady(conn allowkv.Connection, gatewayID string) func(context.Context) error {
	body := fmt.Appendf(nil, `{"last_by_subj":"$KV.%s.%s"}`, allowkv.Bucket, allowlist.HeartbeatKey(gatewayID))
	return func(ctx context.Context) error {
		session, _ := conn.Session()
		if !session.Connected() {
			return natsconn.ErrNotConnected
		}
		reply, err := session.NATS.RequestWithContext(ctx, readSubject(session.JetStream), body)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return errors.New("JetStream is off, or not enabled for this account")
		case errors.Is(err, context.DeadlineExceeded):
			return errors.New("no answer: the bucket's stream has no leader, or this identity may not read it")
		case err != nil:
			return fmt.Errorf("read the bucket: %w", err)
		}
		return bucketAnswer(reply.Data)
	}
}

// readSubject is where a leader-read of the bucket goes, under the prefix of js.
func readSubject(js jetstream.JetStream) string {
	prefix := jetstream.DefaultAPIPrefix
	if p := js.Options().APIPrefix; p != "" {
		prefix = strings.TrimSuffix(p, ".") + "."
	}
	return prefix + "STREAM.MSG.GET." + allowkv.Stream
}

// bucketAnswer judges what came back; no message yet is well.
func bucketAnswer(reply []byte) error {
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply, &answer); err != nil {
		return fmt.Errorf("read the bucket: the answer is no JSON: %w", err)
	}
	switch e := answer.Error; {
	case e == nil, e.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil
	case e.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		return fmt.Errorf("bucket %s does not exist: run nswatch allowlist bootstrap once, as an identity that may create it", allowkv.Bucket)
	default:
		return fmt.Errorf("read the bucket: %w", e)
	}
}

// awaiter gives a connection when there is one; *natsconn.Conn is one.
type awaiter interface {
	Await(ctx context.Context) (natsconn.Session, error)
}

// bootstrapEmbedded is a task that creates the bucket on the embedded server, which nobody else does, and then waits
// for its end. It tries again until it worked: no list can be published before.
func bootstrapEmbedded(conn awaiter, log zerolog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(0))
		for ctx.Err() == nil {
			created, err := bootstrapOnce(ctx, conn)
			if err == nil {
				log.Info().Str(keyBucket, allowkv.Bucket).Bool(keyCreated, created).Msg("the bucket is there")
				<-ctx.Done()
				return nil
			}
			if ctx.Err() == nil {
				log.Error().Err(err).Str(keyBucket, allowkv.Bucket).Msg("cannot create the bucket on the embedded server; trying again")
				sleep(ctx, wait.NextBackOff())
			}
		}
		return nil
	}
}

func bootstrapOnce(ctx context.Context, conn awaiter) (created bool, err error) {
	session, err := conn.Await(ctx)
	if err != nil {
		return false, err
	}
	return allowkv.Bootstrap(ctx, session.JetStream, 1)
}

// Log keys beside telemetry's.
const (
	keyBucket     = "bucket"
	keyCreated    = "created"
	keyGateway    = "gateway_id"
	keySource     = "source"
	keySelector   = "selector"
	keyPath       = "path"
	keyRevocation = "revocation_ms"
	keySigner     = "key_id"
)

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
