package broker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

// patience ends a wait for something that will never happen.
const patience = 60 * time.Second

// apiPrefix is js_api_prefix of all daemons, inbox the prefix of the operator's inboxes.
const (
	apiPrefix     = "portcullis.js"
	operatorInbox = "portcullis.deliver"
)

// broker is one server in this process, of the shipped files.
type broker struct {
	t   testing.TB
	dir string
	srv *server.Server
	// denied gets what the server refuses its clients.
	denied chan error
}

// newBroker is a server that does not run.
func newBroker(t testing.TB) *broker {
	t.Helper()
	b := &broker{t: t, dir: t.TempDir(), denied: make(chan error, 64)}
	certificate(t, b.dir)
	t.Cleanup(b.stop)
	return b
}

// start runs a server of these files with an empty store.
func start(t testing.TB, f files) *broker {
	t.Helper()
	b := newBroker(t)
	if err := b.run(f); err != nil {
		t.Fatal(err)
	}
	return b
}

// run runs a server of these files on the store. The error is why it does not start.
func (b *broker) run(f files) error {
	b.t.Helper()
	opts, err := server.ProcessConfigFile(f.write(b.t, b.dir))
	if err != nil {
		return fmt.Errorf("the configuration: %w", err)
	}
	opts.Host, opts.Port, opts.HTTPPort, opts.NoLog, opts.NoSigs = "127.0.0.1", server.RANDOM_PORT, 0, true, true
	opts.TLSTimeout = patience.Seconds() // of a busy machine
	srv, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("make the server: %w", err)
	}
	srv.Start()
	if !srv.ReadyForConnections(patience) {
		srv.Shutdown()
		return errors.New("the server does not get ready")
	}
	b.srv = srv
	return nil
}

func (b *broker) stop() {
	if b.srv != nil {
		b.srv.Shutdown()
		b.srv.WaitForShutdown()
		b.srv = nil
	}
}

// url is where clients connect.
func (b *broker) url() string {
	return fmt.Sprintf("tls://localhost:%d", b.srv.Addr().(*net.TCPAddr).Port)
}

// settings are those of [portcullis.nats] that an identity has.
func settings(t testing.TB, who string, urls ...string) natsconn.Config {
	t.Helper()
	cfg := natsconn.DefaultConfig()
	cfg.URLs, cfg.Name, cfg.CAFile, cfg.NKeySeedFile, cfg.JSAPIPrefix = urls, who, authority(t), seed(t, who), apiPrefix
	if who == "operator" {
		cfg.InboxPrefix = operatorInbox
	}
	return cfg
}

// connect keeps a connection as an identity until the test ends.
func connect(t testing.TB, who string, urls ...string) *natsconn.Conn {
	t.Helper()
	conn, err := natsconn.New(settings(t, who, urls...), zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	background(t, "the connection of "+who, conn.Run)
	return conn
}

// background runs something until the test ends, or halt is called.
func background(t testing.TB, what string, task func(context.Context) error) (halt func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- task(ctx) }()
	halt = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s ended: %v", what, err)
		}
	})
	t.Cleanup(halt)
	return halt
}

// bare is a plain connection as an identity, as somebody would have who has stolen its seed.
func (b *broker) bare(who string, options ...nats.Option) (*nats.Conn, error) {
	b.t.Helper()
	key, err := nats.NkeyOptionFromSeed(seed(b.t, who))
	if err != nil {
		return nil, err
	}
	options = append([]nats.Option{key, nats.RootCAs(authority(b.t)), nats.NoReconnect(), nats.Timeout(patience), nats.ErrorHandler(b.note)}, options...)
	if who == "operator" {
		options = append(options, nats.CustomInboxPrefix(operatorInbox))
	}
	nc, err := nats.Connect(b.url(), options...)
	if err == nil {
		b.t.Cleanup(nc.Close)
	}
	return nc, err
}

// note keeps what the server refuses.
func (b *broker) note(_ *nats.Conn, _ *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		select {
		case b.denied <- err:
		default:
		}
	}
}

// do does something until the server refuses a part of it; then nothing is waited for any more.
func (b *broker) do(ctx context.Context, what need) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() { ended <- what(ctx, b) }()
	select {
	case err := <-ended:
		return err
	case refusal := <-b.denied:
		cancel(refusal)
		return errors.Join(refusal, <-ended)
	}
}

// as is JetStream as an identity.
func (b *broker) as(who string) (jetstream.JetStream, error) {
	b.t.Helper()
	nc, err := b.bare(who)
	if err != nil {
		return nil, err
	}
	return jetstream.NewWithAPIPrefix(nc, apiPrefix)
}
