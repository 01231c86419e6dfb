package acceptance_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// writer is a Publisher that leads one term after the other, as a process that wins every election.
type writer struct {
	*allowkv.Publisher
	t      testing.TB
	source *allowkvtest.Source
	// step is how far its wall clock has been moved, in nanoseconds.
	step atomic.Int64
	// ends counts the terms that are over.
	ends atomic.Int64
	// kill ends the process: nothing is withdrawn, and the records stay.
	kill func()
}

// write runs a writer of these namespaces.
func (c *channel) write(conn allowkv.Connection, namespaces ...string) *writer {
	c.t.Helper()
	w := &writer{t: c.t}
	clock := allowkv.NewClock()
	stepped := func() allowlist.Instant {
		at := clock()
		at.Wall = at.Wall.Add(time.Duration(w.step.Load()))
		return at
	}
	w.source = allowkvtest.NewSource(stepped, allowkvtest.List(c.t, namespaces...))
	w.source.Every = 500 * time.Millisecond
	var err error
	w.Publisher, err = allowkv.NewPublisher(allowkv.PublisherConfig{
		GatewayID: c.gateway, Name: "writer", Settings: c.config.Settings, PublicKeysFile: c.config.PublicKeysFile,
	}, conn, c.signer, stepped, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		c.t.Fatal(err)
	}
	w.kill = inBackground(c.t, "the writer", func(ctx context.Context) error {
		for ; ctx.Err() == nil; w.ends.Add(1) {
			if _, err := w.Lead(ctx, w.source, nil); err != nil {
				return err
			}
		}
		return nil
	})
	return w
}

// publish makes these the namespaces of the source.
func (w *writer) publish(namespaces ...string) {
	w.t.Helper()
	w.source.Set(allowkvtest.List(w.t, namespaces...))
}

// answers waits for an answer; an empty reason is a yes.
func (r *reader) answers(namespace string, want verdict.Reason) {
	r.t.Helper()
	r.until("answer "+string(want)+" about "+namespace, func() bool {
		a := r.Check(namespace)
		return a.Reason == want && a.Allowed() == (want == "")
	})
}
