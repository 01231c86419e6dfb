package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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

// Log keys beside telemetry's.
const (
	keyGateway    = "gateway_id"
	keySource     = "source"
	keySelector   = "selector"
	keyPath       = "path"
	keyRevocation = "revocation_ms"
	keySigner     = "key_id"
)
