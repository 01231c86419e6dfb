package allowkv_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

func TestBootstrap(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js := pubJetStream(t, pubConnect(t, nil, srv.URL()))
	for i, want := range []bool{true, false} {
		created, err := allowkv.Bootstrap(t.Context(), js, 1)
		if err != nil || created != want {
			t.Fatalf("call %d: created %t, %v", i, created, err)
		}
	}
	// The stock client takes it for a bucket.
	kv, err := js.KeyValue(t.Context(), allowkv.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	status, err := kv.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.History() != 8 || status.TTL() != 0 || status.LimitMarkerTTL() != time.Second || status.IsCompressed() {
		t.Errorf("history %d, ttl %s, markers %s", status.History(), status.TTL(), status.LimitMarkerTTL())
	}
}

// TestBootstrapMatchesClient holds what is created against what the stock client makes of the same wishes, so that
// neither drifts from the other.
func TestBootstrapMatchesClient(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js := pubJetStream(t, pubConnect(t, nil, srv.URL()))
	_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{
		Bucket: allowkv.Bucket, Description: "made by hand", History: 8, Storage: jetstream.FileStorage, LimitMarkerTTL: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if created, err := allowkv.Bootstrap(t.Context(), js, 1); created || err != nil {
		t.Errorf("created %t, %v", created, err)
	}
}

// TestBootstrapAtOnce creates the bucket many times at once.
func TestBootstrapAtOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		replicas int
		urls     func() []string
	}{
		{"one server", 1, func() []string { return []string{natstest.Start(t).URL()} }},
		{"cluster", 3, func() []string { return natstest.StartCluster(t, 3).URLs() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn := pubConnect(t, nil, test.urls()...)
			js := pubJetStream(t, conn)
			var calls sync.WaitGroup
			for range 4 {
				calls.Go(func() {
					if _, err := allowkv.Bootstrap(t.Context(), js, test.replicas); err != nil {
						t.Error(err)
					}
				})
			}
			calls.Wait()
			if created, err := allowkv.Bootstrap(t.Context(), js, test.replicas); created || err != nil {
				t.Errorf("afterwards: created %t, %v", created, err)
			}
		})
	}
}

// TestBootstrapBeforeAnElection asks servers that nobody leads, which is what there is when all of them have just started.
func TestBootstrapBeforeAnElection(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	alone, elect := c.Leaderless()
	js := pubJetStream(t, pubConnect(t, nil, alone.URL()))
	ended := make(chan error, 1)
	alone.AwaitMessage(func() {
		go func() {
			created, err := allowkv.Bootstrap(t.Context(), js, 3)
			if err == nil && !created {
				err = errors.New("the bucket was there")
			}
			ended <- err
		}()
	})
	elect()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestBucketDiffers changes one setting of a good bucket at a time.
func TestBucketDiffers(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js := pubJetStream(t, pubConnect(t, nil, srv.URL()))
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORIGIN", Subjects: []string{"origin"}}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		setting string
		spoil   func(*jetstream.StreamConfig)
	}{
		{"max_age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }},
		{"max_bytes", func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }},
		{"max_msgs", func(c *jetstream.StreamConfig) { c.MaxMsgs = 100 }},
		{"max_msg_size", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 }},
		{"max_msgs_per_subject", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }},
		{"max_consumers", func(c *jetstream.StreamConfig) { c.MaxConsumers = 1 }},
		{"discard", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }},
		{"retention", func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }},
		{"storage", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }},
		{"compression", func(c *jetstream.StreamConfig) { c.Compression = jetstream.S2Compression }},
		{"deny_delete", func(c *jetstream.StreamConfig) { c.DenyDelete = false }},
		{"deny_purge", func(c *jetstream.StreamConfig) {
			c.DenyPurge, c.AllowRollup, c.SubjectDeleteMarkerTTL = true, false, 0 // markers would switch both back
		}},
		{"allow_rollup_hdrs", func(c *jetstream.StreamConfig) { c.AllowRollup, c.SubjectDeleteMarkerTTL = false, 0 }},
		{"allow_direct", func(c *jetstream.StreamConfig) { c.AllowDirect = false }},
		{"allow_msg_ttl", func(c *jetstream.StreamConfig) { c.AllowMsgTTL, c.SubjectDeleteMarkerTTL = false, 0 }},
		{"subject_delete_marker_ttl", func(c *jetstream.StreamConfig) { c.SubjectDeleteMarkerTTL = time.Minute }},
		{"no_ack", func(c *jetstream.StreamConfig) { c.NoAck = true }},
		{"duplicate_window", func(c *jetstream.StreamConfig) { c.Duplicates = time.Second }},
		{"subjects", func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "more") }},
		{"republish", func(c *jetstream.StreamConfig) {
			c.RePublish = &jetstream.RePublish{Source: ">", Destination: "copy.>"}
		}},
		{"subject_transform", func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: ">", Destination: "$KV.portcullis_allowlist.x.>"}
		}},
		{"sources", func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "ORIGIN"}} }},
		{"mirror", func(c *jetstream.StreamConfig) {
			c.Mirror, c.Subjects = &jetstream.StreamSource{Name: "ORIGIN"}, nil
			c.AllowMsgTTL, c.SubjectDeleteMarkerTTL = false, 0
		}},
		{"consumer_limits", func(c *jetstream.StreamConfig) { c.ConsumerLimits.MaxAckPending = 1 }},
		{"first_seq", func(c *jetstream.StreamConfig) { c.FirstSeq = 100 }},
		{"allow_atomic", func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = true }},
	} {
		t.Run(test.setting, func(t *testing.T) {
			cfg := pubGoodBucket()
			test.spoil(&cfg)
			stream, err := js.CreateStream(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			created, err := allowkv.Bootstrap(t.Context(), js, 1)
			if created || !errors.Is(err, allowkv.ErrBucketDiffers) || !strings.Contains(err.Error(), test.setting+" is ") {
				t.Errorf("created %t, %v", created, err)
			}
			info, err := stream.Info(t.Context())
			if err != nil || info.Created.IsZero() || info.Config.MaxAge != cfg.MaxAge {
				t.Errorf("the bucket was changed: %+v, %v", info, err)
			}
			if err := js.DeleteStream(t.Context(), allowkv.Stream); err != nil {
				t.Fatal(err)
			}
		})
	}
	// The good one, of which each case is a spoiled copy, is good.
	if _, err := js.CreateStream(t.Context(), pubGoodBucket()); err != nil {
		t.Fatal(err)
	}
	if created, err := allowkv.Bootstrap(t.Context(), js, 1); created || err != nil {
		t.Errorf("created %t, %v", created, err)
	}
	// A sealed stream is refused too; sealing cannot be undone, so it comes last.
	sealed := pubGoodBucket()
	sealed.Sealed = true
	if _, err := js.UpdateStream(t.Context(), sealed); err != nil {
		t.Fatal(err)
	}
	if _, err := allowkv.Bootstrap(t.Context(), js, 1); !errors.Is(err, allowkv.ErrBucketDiffers) || !strings.Contains(err.Error(), "sealed is true") {
		t.Errorf("sealed: %v", err)
	}
}

// pubGoodBucket is the bucket as it must be, in the client's words.
func pubGoodBucket() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: allowkv.Stream, Description: "for people", Subjects: []string{"$KV.portcullis_allowlist.>"},
		MaxMsgsPerSubject: 8, MaxBytes: -1, MaxMsgs: -1, MaxMsgSize: -1, MaxConsumers: -1, Storage: jetstream.FileStorage,
		Replicas: 1, Discard: jetstream.DiscardNew, Duplicates: 2 * time.Minute, AllowRollup: true, DenyDelete: true,
		AllowDirect: true, AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Second, Metadata: map[string]string{"team": "a"},
	}
}

// TestBootstrapRefused is everything else that can go wrong.
func TestBootstrapRefused(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js := pubJetStream(t, pubConnect(t, nil, srv.URL()))
	for _, replicas := range []int{-1, 0, 2, 4, 6, 7} {
		if _, err := allowkv.Bootstrap(t.Context(), js, replicas); err == nil || !strings.Contains(err.Error(), "1, 3 or 5") {
			t.Errorf("%d replicas: %v", replicas, err)
		}
	}
	if _, err := allowkv.Bootstrap(t.Context(), js, 3); err == nil || errors.Is(err, allowkv.ErrBucketDiffers) {
		t.Errorf("three replicas on one server: %v", err)
	}
	if _, err := allowkv.Bootstrap(t.Context(), js, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := allowkv.Bootstrap(t.Context(), js, 3); !errors.Is(err, allowkv.ErrBucketDiffers) || !strings.Contains(err.Error(), "num_replicas is 1, must be 3") {
		t.Errorf("another number of replicas: %v", err)
	}
	plain := natstest.Start(t, func(o *server.Options) { o.JetStream = false })
	off := pubJetStream(t, pubConnect(t, nil, plain.URL()))
	if _, err := allowkv.Bootstrap(t.Context(), off, 1); err == nil || !strings.Contains(err.Error(), "JetStream is off") {
		t.Errorf("without JetStream: %v", err)
	}
}

// TestBootstrapPermissions creates the bucket with the rights that Bootstrap names.
func TestBootstrapPermissions(t *testing.T) {
	t.Parallel()
	w, seed := pubRestricted(t, "$JS.API.STREAM.INFO."+allowkv.Stream, "$JS.API.STREAM.CREATE."+allowkv.Stream)
	if err := w.js().DeleteStream(t.Context(), allowkv.Stream); err != nil {
		t.Fatal(err)
	}
	js := pubJetStream(t, pubConnect(t, pubIdentity(t, seed, "_INBOX_w"), w.server.URL()))
	for i, want := range []bool{true, false} {
		if created, err := allowkv.Bootstrap(t.Context(), js, 1); err != nil || created != want {
			t.Errorf("call %d: created %t, %v", i, created, err)
		}
	}
}
