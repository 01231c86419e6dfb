package installation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// Connect keeps a connection to these NATS servers until the test ends; to those of the installation when none are
// given.
func (i *Installation) Connect(urls ...string) *natsconn.Conn {
	i.t.Helper()
	if len(urls) == 0 {
		urls = i.URLs
	}
	cfg := natsconn.DefaultConfig()
	cfg.URLs, cfg.Name = urls, "test"
	conn, err := natsconn.New(cfg, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		i.t.Fatal(err)
	}
	i.run("the connection to NATS", conn.Run)
	return conn
}

// run runs something until the test ends.
func (i *Installation) run(what string, task func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(i.t.Context()))
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := task(ctx); err != nil {
			i.t.Errorf("%s ended: %v", what, err)
		}
	})
	i.t.Cleanup(func() { cancel(); wait.Wait() })
}

// Bootstrap makes the bucket.
func (i *Installation) Bootstrap(replicas int) {
	i.t.Helper()
	conn := i.Connect()
	cluster.Eventually(i.t, "the bucket is made", func(ctx context.Context) error {
		session, err := conn.Await(ctx)
		if err != nil {
			return err
		}
		_, err = allowkv.Bootstrap(ctx, session.JetStream, replicas)
		return err
	})
}

// Reader is a running reader of the installation's list.
type Reader struct {
	*allowkv.Reader
	t testing.TB
}

// Reader runs a reader that reaches NATS at these servers, or at those of the installation.
func (i *Installation) Reader(urls ...string) *Reader {
	i.t.Helper()
	return i.ReaderOf(i.ReaderConfig(), urls...)
}

// ReaderConfig is the configuration of the installation's readers: its bounds, its keys, no disk.
func (i *Installation) ReaderConfig() allowkv.ReaderConfig {
	i.t.Helper()
	return allowkv.ReaderConfig{GatewayID: i.GatewayID, Name: "test", Config: i.config()}
}

// ReaderOf runs a reader with a configuration.
func (i *Installation) ReaderOf(cfg allowkv.ReaderConfig, urls ...string) *Reader {
	i.t.Helper()
	r, err := allowkv.NewReader(cfg, i.Connect(urls...), zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		i.t.Fatal(err)
	}
	i.run("the reader", r.Run)
	return &Reader{Reader: r, t: i.t}
}

// AwaitAllowed waits until the reader says yes to the namespace.
func (r *Reader) AwaitAllowed(namespace string) {
	r.t.Helper()
	cluster.Eventually(r.t, "namespace "+namespace+" is allowed", func(context.Context) error {
		if a := r.Check(namespace); !a.Allowed() {
			return fmt.Errorf("refused: %s at epoch %d, revision %d", a.Reason, a.Epoch, a.Revision)
		}
		return nil
	})
}

// AwaitRefused waits until the reader says no to the namespace for one of the reasons.
func (r *Reader) AwaitRefused(namespace string, reasons ...verdict.Reason) {
	r.t.Helper()
	cluster.Eventually(r.t, fmt.Sprintf("namespace %s is refused: %v", namespace, reasons), func(context.Context) error {
		a := r.Check(namespace)
		if a.Allowed() {
			return errors.New("allowed")
		}
		for _, want := range reasons {
			if a.Reason == want {
				return nil
			}
		}
		return fmt.Errorf("refused: %s", a.Reason)
	})
}

// AwaitBeats waits until the reader has accepted so many heartbeats of one epoch that is later than the given one.
func (r *Reader) AwaitBeats(after, beats uint64) {
	r.t.Helper()
	cluster.Eventually(r.t, fmt.Sprintf("heartbeat %d of a later epoch than %d", beats, after), func(context.Context) error {
		if m := r.Status().Marks; m.Epoch <= after || m.Beat < beats {
			return fmt.Errorf("it has heartbeat %d of epoch %d", m.Beat, m.Epoch)
		}
		return nil
	})
}
