package audit

import (
	"context"
	"errors"
	"slices"
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
		done, err := Bootstrap(t.Context(), js, quick())
		if err != nil || done.Created != want || len(done.Changes) > 0 {
			t.Fatalf("call %d: %+v, %v", i, done, err)
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

// TestBootstrapBeforeAnElection asks servers that nobody leads, which is what there is when all of them have just started.
func TestBootstrapBeforeAnElection(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	alone, elect := c.Leaderless()
	js := jetStream(t, connect(t, alone.URL()))
	ended := make(chan error, 1)
	alone.AwaitMessage(func() {
		go func() {
			done, err := Bootstrap(t.Context(), js, quick())
			if err == nil && !done.Created {
				err = errors.New("the stream was there")
			}
			ended <- err
		}()
	})
	elect()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestStreamDiffers changes one setting of a good stream at a time.
func TestStreamDiffers(t *testing.T) {
	srv := natstest.Start(t)
	js := jetStream(t, connect(t, srv.URL()))
	for _, test := range []struct {
		setting string
		spoil   func(*jetstream.StreamConfig)
	}{
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
			done, err := Bootstrap(t.Context(), js, quick(), AllowShrink())
			if done.Created || !errors.Is(err, ErrStreamDiffers) || !strings.Contains(err.Error(), test.setting+" is ") {
				t.Errorf("%+v, %v", done, err)
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
	if done, err := Bootstrap(t.Context(), js, quick()); done.Created || err != nil {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestBootstrapChangesBounds: more at once, less only when it is allowed, and what people wrote on the stream stays.
func TestBootstrapChangesBounds(t *testing.T) {
	srv := natstest.Start(t)
	js := jetStream(t, connect(t, srv.URL()))
	start := streamConfig(quick())
	start.Description = "for people"
	if _, err := js.CreateStream(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	have := func() jetstream.StreamConfig {
		stream, err := js.Stream(t.Context(), Stream)
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().Config
	}
	cfg := quick()
	cfg.MaxAge, cfg.MaxBytes = 2*cfg.MaxAge, 2*cfg.MaxBytes
	done, err := Bootstrap(t.Context(), js, cfg)
	want := []string{"max_age was 720h0m0s, is 1440h0m0s", "max_bytes was 16777216, is 33554432"}
	if err != nil || done.Created || !slices.Equal(done.Changes, want) {
		t.Errorf("%+v, %v", done, err)
	}
	if c := have(); c.MaxAge != cfg.MaxAge.Std() || c.MaxBytes != cfg.MaxBytes || c.Description != "for people" {
		t.Errorf("%+v", c)
	}

	// One bound up and one down is less.
	cfg.MaxAge, cfg.MaxBytes = cfg.MaxAge/2, 2*cfg.MaxBytes
	if _, err := Bootstrap(t.Context(), js, cfg); !errors.Is(err, ErrStreamShrinks) || !strings.Contains(err.Error(), "max_age was 1440h0m0s, is 720h0m0s") {
		t.Errorf("less without leave: %v", err)
	}
	if c := have(); c.MaxAge != 2*cfg.MaxAge.Std() || c.MaxBytes != cfg.MaxBytes/2 {
		t.Errorf("something was changed: %+v", c)
	}
	if done, err := Bootstrap(t.Context(), js, cfg, AllowShrink()); err != nil || len(done.Changes) != 2 || have().MaxAge != cfg.MaxAge.Std() {
		t.Errorf("less with leave: %+v, %v", done, err)
	}

	// A stream without a bound has more than any.
	endless := have()
	endless.MaxAge, endless.MaxBytes = 0, -1
	if _, err := js.UpdateStream(t.Context(), endless); err != nil {
		t.Fatal(err)
	}
	if _, err := Bootstrap(t.Context(), js, cfg); !errors.Is(err, ErrStreamShrinks) || !strings.Contains(err.Error(), "max_bytes was -1") {
		t.Errorf("a bound for what had none: %v", err)
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
		if done, err := Bootstrap(t.Context(), js, quick()); err != nil || done.Created != want {
			t.Errorf("call %d: %+v, %v", i, done, err)
		}
	}
	// To change a bound takes one more.
	more := quick()
	more.MaxBytes *= 2
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := Bootstrap(ctx, js, more); err == nil || !strings.Contains(err.Error(), "lacks a right") || !strings.Contains(err.Error(), "STREAM.UPDATE") {
		t.Errorf("without the right: %v", err)
	}
}
