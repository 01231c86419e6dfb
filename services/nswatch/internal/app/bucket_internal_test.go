package app

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// connectTo runs a connection for the test.
func connectTo(t *testing.T, url string) *natsconn.Conn {
	t.Helper()
	cfg := natsconn.DefaultConfig()
	cfg.URLs = []string{url}
	conn, err := natsconn.New(cfg, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = conn.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return conn
}

// TestBucketReady: a bucket that is missing shows in readiness, with what to do.
func TestBucketReady(t *testing.T) {
	srv := natstest.Start(t)
	conn := connectTo(t, srv.URL())
	ready := bucketReady(conn, "blue")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	session, err := conn.Await(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := ready(ctx); err == nil || !strings.Contains(err.Error(), "nswatch allowlist bootstrap") {
		t.Errorf("without a bucket: %v", err)
	}
	if _, err := allowkv.Bootstrap(ctx, session.JetStream, 1); err != nil {
		t.Fatal(err)
	}
	if err := ready(ctx); err != nil {
		t.Errorf("with an empty bucket: %v", err)
	}
	if _, err := session.JetStream.Publish(ctx, "$KV."+allowkv.Bucket+".blue.heartbeat", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := ready(ctx); err != nil {
		t.Errorf("with a record: %v", err)
	}
}

// TestBucketReadyReadsLittle: it is asked every few seconds, and a snapshot may be megabytes.
func TestBucketReadyReadsLittle(t *testing.T) {
	srv := natstest.Start(t)
	conn := connectTo(t, srv.URL())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	session, err := conn.Await(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := allowkv.Bootstrap(ctx, session.JetStream, 1); err != nil {
		t.Fatal(err)
	}
	asked, err := session.NATS.SubscribeSync(readSubject(session.JetStream))
	if err != nil {
		t.Fatal(err)
	}
	if err := bucketReady(conn, "blue")(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := asked.NextMsgWithContext(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if body := string(m.Data); !strings.Contains(body, `"$KV.portcullis_allowlist.blue.heartbeat"`) {
		t.Errorf("it asks for %s", body)
	}
}

func TestBucketNotReady(t *testing.T) {
	srv := natstest.Start(t, func(o *server.Options) { o.JetStream = false })
	conn := connectTo(t, srv.URL())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := conn.Await(ctx); err != nil {
		t.Fatal(err)
	}
	if err := bucketReady(conn, "blue")(ctx); err == nil || !strings.Contains(err.Error(), "JetStream is off") {
		t.Errorf("without JetStream: %v", err)
	}
	for reply, want := range map[string]string{"x": "no JSON", `{"error":{"code":503,"err_code":10008,"description":"unavailable"}}`: "unavailable"} {
		if err := bucketAnswer([]byte(reply)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", reply, err)
		}
	}
}
