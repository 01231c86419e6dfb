package allowkv

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

// carry does what the Writer planned, one thing at a time, and answers each with one input. What is under way when ctx
// ends is given up.
func (t *term) carry(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case job := <-t.jobs:
			// The outcome has room: there is one for each job, and no job before it is taken.
			t.outcomes <- t.attempt(ctx, job)
		}
	}
}

// attempt does one job on the connection of now, within the limit. Nothing is kept for a later connection: what could
// not be sent is not sent (rule W1).
func (t *term) attempt(ctx context.Context, job allowlist.Action) allowlist.Input {
	ctx, cancel := context.WithTimeout(ctx, attemptLimit(t.config.Settings))
	defer cancel()
	session, _ := t.conn.Session()
	began := t.clock().Mono
	if write, ok := job.(allowlist.Write); ok {
		label, written := writeLabelUnsent, allowlist.Written{Err: fmt.Errorf("write of %s: nothing was sent: %w", write.Key, notConnected(session))}
		if session.Connected() {
			label, written = publish(ctx, session.JetStream, write)
		}
		t.metrics.wrote(t.config.GatewayID, write.Key, label, t.clock().Mono-began)
		return written
	}
	err := notConnected(session)
	var looked allowlist.Looked
	if session.Connected() {
		looked, err = look(ctx, session.JetStream, t.config.GatewayID)
	}
	t.metrics.looked(err)
	if err != nil {
		return allowlist.LookFailed{Err: fmt.Errorf("read of the bucket: %w", err)}
	}
	return looked
}

// notConnected is why nothing can be done without a connection.
func notConnected(session natsconn.Session) error {
	if session.Err == nil {
		return natsconn.ErrNotConnected
	}
	return fmt.Errorf("%w: %w", natsconn.ErrNotConnected, session.Err)
}

// look is a leader-read of both keys.
func look(ctx context.Context, js jetstream.JetStream, gatewayID string) (looked allowlist.Looked, err error) {
	if looked.Snapshot, err = leaderRead(ctx, js, allowlist.SnapshotKey(gatewayID)); err != nil {
		return allowlist.Looked{}, err
	}
	if looked.Heartbeat, err = leaderRead(ctx, js, allowlist.HeartbeatKey(gatewayID)); err != nil {
		return allowlist.Looked{}, err
	}
	return looked, nil
}

// leaderRead asks the stream's leader for the newest message of a key. nats.go would ask any replica instead, because
// KV buckets allow direct gets, and those have no bound on their age (NATS reference 2.8). The sequence is the one in
// the body, which the server makes; headers are the publisher's and may say anything.
func leaderRead(ctx context.Context, js jetstream.JetStream, key string) (allowlist.Stored, error) {
	var answer struct {
		apiFailure
		Message struct {
			Subject  string `json:"subject"`
			Sequence uint64 `json:"seq"`
			Headers  []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	request := struct {
		LastFor string `json:"last_by_subj"`
	}{subject(key)}
	err := askAPI(ctx, js, "STREAM.MSG.GET."+Stream, request, &answer)
	m := &answer.Message
	switch {
	case codeOf(err) == codeNoMessage:
		return allowlist.Stored{}, nil
	case codeOf(err) == codeNoStream:
		return allowlist.Stored{}, fmt.Errorf("bucket %s does not exist: bootstrap it, which the writer never does: %w", Bucket, err)
	case err != nil:
		return allowlist.Stored{}, fmt.Errorf("key %s: %w", key, err)
	case m.Subject != request.LastFor || m.Sequence == 0:
		return allowlist.Stored{}, fmt.Errorf("key %s: the server answered with sequence %d of subject %q", key, m.Sequence, m.Subject)
	}
	return allowlist.Stored{Sequence: m.Sequence, Operation: storedOperation(m.Headers, m.Data), Value: m.Data}, nil
}

// storedOperation is what a stored message does to its key. Headers that do not decode were put there by somebody; they
// are no fault of the read, which must not keep the writer from overwriting them.
func storedOperation(headers, value []byte) allowlist.Operation {
	if len(headers) == 0 {
		return operation(nil, value)
	}
	header, err := nats.DecodeHeadersMsg(headers)
	if err != nil {
		return allowlist.OperationUnknown
	}
	return operation(header, value)
}

// publish stores one record by compare-and-set, once. The message is a new one each time: nats.go leaves options in
// the headers of what it was given (NATS reference 2.1).
func publish(ctx context.Context, js jetstream.JetStream, write allowlist.Write) (writeLabel, allowlist.Written) {
	options := []jetstream.PublishOpt{
		jetstream.WithExpectStream(Stream),
		jetstream.WithExpectLastSequencePerSubject(write.ExpectSequence), // zero is sent too: the key must have no message
		jetstream.WithRetryAttempts(0),
	}
	if write.TTL > 0 {
		options = append(options, jetstream.WithMsgTTL(write.TTL))
	}
	ack, err := js.PublishMsg(ctx, &nats.Msg{Subject: subject(write.Key), Data: write.Record}, options...)
	if err != nil {
		label, result, explained := classifyWrite(err, len(write.Record), js.Conn().MaxPayload())
		return label, allowlist.Written{Result: result, Err: fmt.Errorf("write of %s: %w", write.Key, explained)}
	}
	if ack.Stream != Stream || ack.Sequence == 0 || ack.Duplicate {
		// Not an answer to what was sent.
		return writeLabelDoubtful, allowlist.Written{Err: fmt.Errorf(
			"write of %s: acknowledged by stream %q with sequence %d (duplicate: %t), expected stream %s", write.Key, ack.Stream, ack.Sequence, ack.Duplicate, Stream)}
	}
	return writeLabelStored, allowlist.Written{Result: allowlist.WriteStored, Sequence: ack.Sequence}
}

// classifyWrite says what an error of a write means to the Writer. Where the server refused and nothing is stored, the
// Writer is still told Doubtful unless it has an input that says more: it looks, and decides on what it finds.
func classifyWrite(err error, size int, limit int64) (writeLabel, allowlist.WriteResult, error) {
	switch code := codeOf(err); {
	case code == codeWrongSequence, code == codeWrongSequenceR:
		return writeLabelConflict, allowlist.WriteConflict, err
	case code == codeMessageSize:
		return writeLabelTooLarge, allowlist.WriteTooLarge, fmt.Errorf(
			"the record has %d bytes, more than stream %s takes; the bucket should have no limit of its own: %w", size, Stream, err)
	case errors.Is(err, nats.ErrMaxPayload):
		return writeLabelTooLarge, allowlist.WriteTooLarge, fmt.Errorf(
			"the record has %d bytes and headers, the server's max_payload is %d: %w", size, limit, err)
	case code != 0:
		return writeLabelRefused, allowlist.WriteDoubtful, err
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return writeLabelRefused, allowlist.WriteDoubtful, fmt.Errorf(
			"nobody takes it: bucket %s does not exist, or its stream has no leader: %w", Bucket, err)
	case errors.Is(err, context.DeadlineExceeded):
		return writeLabelDoubtful, allowlist.WriteDoubtful, fmt.Errorf(
			"no acknowledgement in time: the stream has no leader, or this identity may not write the key: %w", err)
	default:
		return writeLabelDoubtful, allowlist.WriteDoubtful, err
	}
}
