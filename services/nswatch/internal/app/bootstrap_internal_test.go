package app

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// TestBootstrapEmbedded tries until it worked, and makes the bucket and the audit stream.
func TestBootstrapEmbedded(t *testing.T) {
	srv := natstest.New(t)
	conn := connectTo(t, srv.URL())
	ctx, cancel := context.WithCancel(t.Context())
	bounds := audit.DefaultConfig()
	// The server reserves MaxBytes of its store, and the bucket needs some of that too, whichever is made first.
	bounds.MaxAge, bounds.Replicas, bounds.MaxBytes = driverconf.Duration(48*time.Hour), 3, 16<<20
	var tasks sync.WaitGroup
	ended := make(chan error, 2)
	for _, wanted := range []thing{bucket(), stream(bounds)} {
		tasks.Go(func() { ended <- bootstrapEmbedded(conn, wanted, zerolog.Nop())(ctx) })
	}
	srv.Start()
	ready := bucketReady(conn, "blue")
	var made *jetstream.StreamInfo
	find := func() (err error) {
		if err = ready(ctx); err != nil {
			return err
		}
		session, err := conn.Await(ctx)
		if err != nil {
			return err
		}
		found, err := session.JetStream.Stream(ctx, audit.Stream)
		if err == nil {
			made = found.CachedInfo()
		}
		return err
	}
	for end := time.Now().Add(time.Minute); find() != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %v", find())
		}
	}
	if c := made.Config; c.MaxAge != 48*time.Hour || c.MaxBytes != bounds.MaxBytes || c.Replicas != 1 {
		t.Errorf("%+v", c)
	}
	select {
	case err := <-ended:
		t.Errorf("a task ended before it was asked to: %v", err)
	default:
	}
	cancel()
	tasks.Wait()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestBootstrapEmbeddedTakesNoEventsAway: settings that want less leave the stream as it is.
func TestBootstrapEmbeddedTakesNoEventsAway(t *testing.T) {
	conn := connectTo(t, natstest.Start(t).URL())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bounds := audit.DefaultConfig()
	bounds.MaxBytes = 16 << 20
	if created, _, err := bootstrapOnce(ctx, conn, stream(bounds)); err != nil || !created {
		t.Fatalf("%t %v", created, err)
	}
	bounds.MaxBytes *= 2
	if created, changes, err := bootstrapOnce(ctx, conn, stream(bounds)); err != nil || created || !strings.Contains(changes, "max_bytes was") {
		t.Errorf("%t %q %v", created, changes, err)
	}
	bounds.MaxBytes /= 4
	if _, _, err := bootstrapOnce(ctx, conn, stream(bounds)); err == nil || !strings.Contains(err.Error(), "max_bytes was") {
		t.Errorf("%v", err)
	}
}
