package audit

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

func TestBootstrap(t *testing.T) {
	srv := natstest.Start(t)
	js := jetStream(t, connect(t, srv.URL()))
	for i, want := range []bool{true, false} {
		created, err := Bootstrap(t.Context(), js, quick())
		if err != nil || created != want {
			t.Fatalf("call %d: created %t, %v", i, created, err)
		}
	}
	var calls sync.WaitGroup
	if err := js.DeleteStream(t.Context(), Stream); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		calls.Go(func() {
			if _, err := Bootstrap(t.Context(), js, quick()); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}

// TestStreamDiffers changes one setting of a good stream at a time.
func TestStreamDiffers(t *testing.T) {
	srv := natstest.Start(t)
	js := jetStream(t, connect(t, srv.URL()))
	for _, test := range []struct {
		setting string
		spoil   func(*jetstream.StreamConfig)
	}{
		{"max_age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }},
		{"max_bytes", func(c *jetstream.StreamConfig) { c.MaxBytes++ }},
		{"max_msgs", func(c *jetstream.StreamConfig) { c.MaxMsgs = 100 }},
		{"max_msg_size", func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1000 }},
		{"max_msgs_per_subject", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }},
		{"discard", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardNew }},
		{"retention", func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy }},
		{"storage", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }},
		{"deny_delete", func(c *jetstream.StreamConfig) { c.DenyDelete = false }},
		{"deny_purge", func(c *jetstream.StreamConfig) { c.DenyPurge = false }},
		{"allow_rollup_hdrs", func(c *jetstream.StreamConfig) { c.AllowRollup, c.DenyPurge = true, false }},
		{"no_ack", func(c *jetstream.StreamConfig) { c.NoAck = true }},
		{"duplicate_window", func(c *jetstream.StreamConfig) { c.Duplicates = time.Second }},
		{"subjects", func(c *jetstream.StreamConfig) { c.Subjects = []string{"portcullis.audit.a.>"} }},
		{"republish", func(c *jetstream.StreamConfig) {
			c.RePublish = &jetstream.RePublish{Source: ">", Destination: "copy.>"}
		}},
		{"allow_msg_ttl", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true }},
	} {
		t.Run(test.setting, func(t *testing.T) {
			cfg := streamConfig(quick())
			test.spoil(&cfg)
			if _, err := js.CreateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			created, err := Bootstrap(t.Context(), js, quick())
			if created || !errors.Is(err, ErrStreamDiffers) || !strings.Contains(err.Error(), test.setting+" is ") {
				t.Errorf("created %t, %v", created, err)
			}
			if err := js.DeleteStream(t.Context(), Stream); err != nil {
				t.Fatal(err)
			}
		})
	}
	// Words and metadata are people's.
	cfg := streamConfig(quick())
	cfg.Description, cfg.Metadata = "for people", map[string]string{"team": "a"}
	if _, err := js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if created, err := Bootstrap(t.Context(), js, quick()); created || err != nil {
		t.Errorf("created %t, %v", created, err)
	}
}

func TestBootstrapRefused(t *testing.T) {
	srv := natstest.Start(t)
	js := jetStream(t, connect(t, srv.URL()))
	bad, three := quick(), quick()
	bad.Replicas, three.Replicas = 2, 3
	if _, err := Bootstrap(t.Context(), js, bad); err == nil || !strings.Contains(err.Error(), "1, 3 or 5") {
		t.Errorf("two replicas: %v", err)
	}
	if _, err := Bootstrap(t.Context(), js, three); err == nil || errors.Is(err, ErrStreamDiffers) {
		t.Errorf("three replicas on one server: %v", err)
	}
}

// TestBootstrapRights creates the stream with the rights that Bootstrap names.
func TestBootstrapRights(t *testing.T) {
	user, seed := natstest.NKey(t)
	srv := natstest.Start(t, func(o *server.Options) {
		o.Nkeys = []*server.NkeyUser{{Nkey: user, Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"$JS.API.STREAM.INFO." + Stream, "$JS.API.STREAM.CREATE." + Stream}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_w.>"}},
		}}}
	})
	js := jetStream(t, connect(t, srv.URL(), identified(t, seed)))
	for i, want := range []bool{true, false} {
		if created, err := Bootstrap(t.Context(), js, quick()); err != nil || created != want {
			t.Errorf("call %d: created %t, %v", i, created, err)
		}
	}
}
