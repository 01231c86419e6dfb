package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

// Errors of a Bootstrap that found a stream which is not as the settings want it; the text names every difference.
var (
	// ErrStreamDiffers: in something that is no bound. Only a person may change that.
	ErrStreamDiffers = errors.New("the stream exists and differs")
	// ErrStreamShrinks: the settings want less of a bound, and AllowShrink was not given.
	ErrStreamShrinks = errors.New("the settings would take something from the stream that exists")
)

const (
	// bootstrapPatience bounds a Bootstrap whose ctx has no nearer end.
	bootstrapPatience = 30 * time.Second
	// duplicateWindow is how long the server knows the ids of messages. A copy comes later only when the stream could
	// not be reached for so long, and then has the same instance and seq.
	duplicateWindow = 2 * time.Minute
	// maxHeaderBytes is more than the headers of a message take. The server counts them in.
	maxHeaderBytes = 1 << 10
)

// Bootstrapped is what a Bootstrap did; the zero value is that it found all as it should be.
type Bootstrapped struct {
	// Created says that this call asked for the stream and got it; of two calls at once both may say so.
	Created bool
	// Changes are the bounds that were changed, one sentence each: "max_age was 720h0m0s, is 48h0m0s".
	Changes []string
}

// BootstrapOption changes what a Bootstrap may do.
type BootstrapOption func(*bootstrapping)

type bootstrapping struct{ shrink bool }

// AllowShrink lets Bootstrap lower max_age and max_bytes, at which the server deletes the events beyond at once and for
// good, and replicas, at which it deletes copies.
func AllowShrink() BootstrapOption { return func(b *bootstrapping) { b.shrink = true } }

// Bootstrap creates the stream, or makes sure that the one that exists is as it would create it. The three bounds,
// max_age, max_bytes and replicas, are changed to what cfg says: to more always, to less only with AllowShrink, else the
// error has ErrStreamShrinks. Anything else that differs and that this client knows, but for description, metadata and
// placement, is an error with ErrStreamDiffers. After these two errors nothing was changed; after others nothing is known.
// It may be repeated, and run by several at once.
//
// The stream drops its oldest events at max_age and max_bytes, and takes no deletion, purge or rollup, by which a
// publisher could remove what others wrote (NATS reference 5.3).
//
// The identity needs $JS.API.STREAM.INFO and $JS.API.STREAM.CREATE of Stream, and $JS.API.STREAM.UPDATE to change a bound;
// it is not one that publishes. A right that is missing shows as an error that names it, after the end of ctx or 30 s.
//
// Servers that are just starting may be asked: until they have elected who leads them, or ctx ends, it asks again.
func Bootstrap(ctx context.Context, js jetstream.JetStream, cfg Config, options ...BootstrapOption) (Bootstrapped, error) {
	if err := errors.Join(cfg.problems()...); err != nil {
		return Bootstrapped{}, fmt.Errorf("bootstrap stream %s: portcullis.audit: %w", Stream, err)
	}
	var b bootstrapping
	for _, option := range options {
		option(&b)
	}
	ctx, cancel := context.WithTimeout(ctx, bootstrapPatience)
	defer cancel()
	done, err := b.ensure(ctx, js, streamConfig(cfg))
	switch {
	case err == nil:
		return done, nil
	case errors.Is(err, context.DeadlineExceeded):
		err = unanswered(js, err)
	}
	return Bootstrapped{}, fmt.Errorf("bootstrap stream %s: %w", Stream, err)
}

// unanswered says why there may be no answer: the server tells of a missing right beside the request.
func unanswered(js jetstream.JetStream, err error) error {
	if said := js.Conn().LastError(); errors.Is(said, nats.ErrPermissionViolation) {
		return fmt.Errorf("this identity lacks a right: %w", said)
	}
	return fmt.Errorf("no answer in time: JetStream has no leader, or this identity may not ask: %w", err)
}

func (b bootstrapping) ensure(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (Bootstrapped, error) {
	stream, created, err := findOrCreate(ctx, js, want)
	if err != nil {
		return Bootstrapped{}, err
	}
	// A server that does not know a setting ignores it, so what was just created or changed is compared too.
	have := stream.CachedInfo().Config
	more, less, err := bounds(want, have)
	if err != nil {
		return Bootstrapped{}, err
	}
	if len(less) > 0 && !b.shrink {
		return Bootstrapped{}, fmt.Errorf("%w: %s. Nothing was changed", ErrStreamShrinks, strings.Join(less, "; "))
	}
	changes := slices.Concat(more, less)
	if len(changes) == 0 {
		return Bootstrapped{Created: created}, nil
	}
	have.MaxAge, have.MaxBytes, have.Replicas = want.MaxAge, want.MaxBytes, want.Replicas
	stream, err = js.UpdateStream(ctx, have)
	if err != nil {
		return Bootstrapped{}, fmt.Errorf("change its bounds: %w", err)
	}
	problems, err := differences(want, stream.CachedInfo().Config)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("%w after its bounds were changed: %s", ErrStreamDiffers, strings.Join(problems, "; "))
	}
	return Bootstrapped{Created: created, Changes: changes}, err
}

func findOrCreate(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (stream jetstream.Stream, created bool, err error) {
	err = natsconn.UntilLed(ctx, func(ctx context.Context) (err error) {
		stream, err = js.Stream(ctx, Stream)
		return err
	})
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return stream, false, err
	}
	stream, err = js.CreateStream(ctx, want)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		// Somebody else has created another one just now.
		stream, err = js.Stream(ctx, Stream)
		return stream, false, err
	}
	return stream, err == nil, err
}

// bounds are the differences that may be changed, as sentences, those that take something away apart. Any other difference
// is an error.
func bounds(want, have jetstream.StreamConfig) (more, less []string, err error) {
	rest := have
	rest.MaxAge, rest.MaxBytes, rest.Replicas = want.MaxAge, want.MaxBytes, want.Replicas
	problems, err := differences(want, rest)
	if err != nil {
		return nil, nil, err
	}
	if len(problems) > 0 {
		return nil, nil, fmt.Errorf("%w: %s. Nothing was changed: correct the stream", ErrStreamDiffers, strings.Join(problems, "; "))
	}
	// In a stream 0 and -1 stand for no bound, more than any.
	bound := func(key string, has, wants int64, show func(int64) string) {
		if has == wants {
			return
		}
		change := fmt.Sprintf("%s was %s, is %s", key, show(has), show(wants))
		if has <= 0 || wants < has {
			less = append(less, change)
		} else {
			more = append(more, change)
		}
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	bound("max_age", int64(have.MaxAge), int64(want.MaxAge), func(n int64) string { return time.Duration(n).String() })
	bound("max_bytes", have.MaxBytes, want.MaxBytes, number)
	bound("replicas", int64(have.Replicas), int64(want.Replicas), number)
	return more, less, nil
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
