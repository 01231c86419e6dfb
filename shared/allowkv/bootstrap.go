package allowkv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

// ErrBucketDiffers is in the error of a Bootstrap that found a bucket which is not as the protocol wants it. The error
// names every difference.
var ErrBucketDiffers = errors.New("the bucket exists and differs")

const (
	// bootstrapPatience bounds a Bootstrap whose ctx has no nearer end.
	bootstrapPatience = 30 * time.Second
	// history is how many messages of each key are kept: people look at the last changes, nothing is decided by them.
	history = 8
	// markerLife is how long an expiry marker lasts. It is the least that the server takes, because a TTL below it is
	// raised to it (NATS reference 2.3) and heartbeat_ttl may be as short.
	markerLife = time.Second
	// duplicateWindow is what KV buckets have. Nothing here sends the header that it is about.
	duplicateWindow = 2 * time.Minute
)

// Bootstrap creates the bucket of the allowlists, or makes sure that the one that exists is as it would create it; it
// never changes one. replicas is 1, 3 or 5. created says that this call asked for the bucket and got it; of two calls
// at once both may say so, and both succeed. With an error nothing is known about created.
//
// The bucket is what the protocol says: file storage, history 8, limit markers, no TTL, no limits of its own (a full
// bucket could not record a removal, NATS reference 2.2), no mirror, source or republish. An existing one that differs
// in anything but its description, metadata and placement is an error with ErrBucketDiffers.
//
// The identity needs $JS.API.STREAM.INFO and $JS.API.STREAM.CREATE of Stream, and is not the writer's: a writer that
// could create the bucket would hide that it was wiped.
//
// Servers that are just starting may be asked: until they have elected who leads them, or ctx ends, it asks again.
func Bootstrap(ctx context.Context, js jetstream.JetStream, replicas int) (created bool, err error) {
	if replicas < 1 || replicas > 5 || replicas%2 == 0 {
		return false, fmt.Errorf("bootstrap bucket %s: replicas is %d, must be 1, 3 or 5", Bucket, replicas)
	}
	ctx, cancel := context.WithTimeout(ctx, bootstrapPatience)
	defer cancel()
	created, err = ensureBucket(ctx, js, bucketConfig(replicas))
	if err != nil {
		return false, fmt.Errorf("bootstrap bucket %s: %w", Bucket, err)
	}
	return created, nil
}

func ensureBucket(ctx context.Context, js jetstream.JetStream, want streamConfig) (created bool, err error) {
	var found streamAnswer
	err = natsconn.UntilLed(ctx, func(ctx context.Context) error {
		found = streamAnswer{}
		return askAPI(ctx, js, "STREAM.INFO."+Stream, nil, &found)
	})
	if codeOf(err) == codeNoStream {
		found = streamAnswer{}
		err = askAPI(ctx, js, "STREAM.CREATE."+Stream, want, &found)
		created = err == nil
		if codeOf(err) == codeStreamExists {
			// Somebody else has created another one just now. Say how it differs.
			err = askAPI(ctx, js, "STREAM.INFO."+Stream, nil, &found)
		}
	}
	if err != nil {
		return false, err
	}
	// A server that does not know a setting ignores it, so what was just created is compared too.
	if problems := want.differences(found.Config); len(problems) > 0 {
		return false, fmt.Errorf("%w: %s. Nothing was changed: check who made it so, then delete the bucket and bootstrap again",
			ErrBucketDiffers, strings.Join(problems, "; "))
	}
	return created, nil
}

// streamAnswer is the answer to STREAM.INFO and STREAM.CREATE. The settings are read as they are, so that one which
// this code does not know is seen too.
type streamAnswer struct {
	apiFailure
	Config streamConfig `json:"config"`
}

// bucketConfig is the stream behind the bucket: what nats.go makes of a KV bucket (NATS reference 2.1), with every
// setting that has a meaning for it. Settings that are not here must be absent or zero.
func bucketConfig(replicas int) streamConfig {
	return streamConfig{
		"name":     Stream,
		"subjects": []any{subjectPrefix + ">"},
		"storage":  "file", "num_replicas": replicas, "retention": "limits", "discard": "new", "compression": "none",
		"max_msgs_per_subject": history,
		"max_msgs":             -1, "max_bytes": -1, "max_msg_size": -1, "max_consumers": -1,
		"duplicate_window":  duplicateWindow.Nanoseconds(),
		"allow_rollup_hdrs": true, "deny_delete": true, "allow_direct": true,
		"allow_msg_ttl": true, "subject_delete_marker_ttl": markerLife.Nanoseconds(),
	}
}
