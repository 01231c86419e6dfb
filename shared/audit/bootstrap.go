package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrStreamDiffers is in the error of a Bootstrap that found a stream which is not as the settings want it. The error
// names every difference.
var ErrStreamDiffers = errors.New("the stream exists and differs")

const (
	// bootstrapPatience bounds a Bootstrap whose ctx has no nearer end.
	bootstrapPatience = 30 * time.Second
	// duplicateWindow is how long the server knows the ids of messages. A copy comes later only when the stream could
	// not be reached for so long, and then has the same instance and seq.
	duplicateWindow = 2 * time.Minute
	// maxHeaderBytes is more than the headers of a message take. The server counts them in.
	maxHeaderBytes = 1 << 10
)

// Bootstrap creates the stream, or makes sure that the one that exists is as it would create it; it never changes one.
// created says that this call asked for the stream and got it; of two calls at once both may say so, and both succeed.
// With an error nothing is known about created.
//
// The stream drops its oldest events at max_age and max_bytes, and takes no deletion, purge or rollup, by which a
// publisher could remove what others wrote (NATS reference 5.3). An existing one that differs in anything that this
// client knows, but for description, metadata and placement, is an error with ErrStreamDiffers: also when only a setting
// was changed, which is then to be changed on the stream by a person.
//
// The identity needs $JS.API.STREAM.INFO and $JS.API.STREAM.CREATE of Stream, and is not one that publishes.
func Bootstrap(ctx context.Context, js jetstream.JetStream, cfg Config) (created bool, err error) {
	if err := errors.Join(cfg.problems()...); err != nil {
		return false, fmt.Errorf("bootstrap stream %s: portcullis.audit: %w", Stream, err)
	}
	ctx, cancel := context.WithTimeout(ctx, bootstrapPatience)
	defer cancel()
	created, err = ensureStream(ctx, js, streamConfig(cfg))
	if err != nil {
		return false, fmt.Errorf("bootstrap stream %s: %w", Stream, err)
	}
	return created, nil
}

func ensureStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (created bool, err error) {
	stream, err := js.Stream(ctx, Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, want)
		created = err == nil
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			// Somebody else has created another one just now. Say how it differs.
			stream, err = js.Stream(ctx, Stream)
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return false, fmt.Errorf("no answer in time: JetStream has no leader, or this identity may not ask: %w", err)
	case err != nil:
		return false, err
	}
	// A server that does not know a setting ignores it, so what was just created is compared too.
	problems, err := differences(want, stream.CachedInfo().Config)
	if err != nil {
		return false, err
	}
	if len(problems) > 0 {
		return false, fmt.Errorf("%w: %s. Nothing was changed: correct the settings or the stream",
			ErrStreamDiffers, strings.Join(problems, "; "))
	}
	return created, nil
}

func streamConfig(cfg Config) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: Stream, Subjects: []string{subjects}, Storage: jetstream.FileStorage, Replicas: cfg.Replicas,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, Compression: jetstream.NoCompression,
		MaxAge: cfg.MaxAge.Std(), MaxBytes: cfg.MaxBytes, MaxMsgSize: MaxEntryBytes + maxHeaderBytes,
		MaxMsgs: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1,
		Duplicates: duplicateWindow, DenyDelete: true, DenyPurge: true, AllowDirect: true,
	}
}

// differences says, one sentence each and in order of the names in the API, how got is not as want.
func differences(want, got jetstream.StreamConfig) ([]string, error) {
	wanted, err := settings(want)
	if err != nil {
		return nil, err
	}
	have, err := settings(got)
	if err != nil {
		return nil, err
	}
	names := maps.Clone(wanted)
	maps.Copy(names, have)
	var found []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !reflect.DeepEqual(wanted[name], have[name]) {
			found = append(found, fmt.Sprintf("%s is %v, must be %v", name, have[name], wanted[name]))
		}
	}
	return found, nil
}

// settings are those of a stream by their names in the API, without those by which nothing is decided: words for people,
// and where replicas live.
func settings(c jetstream.StreamConfig) (map[string]any, error) {
	c.Description, c.Metadata, c.Placement = "", nil, nil
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("compare the stream: %w", err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var named map[string]any
	if err := decoder.Decode(&named); err != nil {
		return nil, fmt.Errorf("compare the stream: %w", err)
	}
	return named, nil
}
