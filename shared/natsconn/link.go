package natsconn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// link is one connection from its establishment to its end.
type link struct {
	server    string
	nats      *nats.Conn
	jetStream jetstream.JetStream
	closed    chan struct{}

	mu      sync.Mutex
	refused error // the last authorization error the server sent on this link
}

// cause says why a closed link ended. The server's refusal comes first: the end of the stream that follows it tells
// nothing.
func (l *link) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused != nil {
		return l.refused
	}
	if err := l.nats.LastError(); err != nil {
		return err
	}
	return nats.ErrConnectionClosed
}

func (l *link) noteRefusal(err error) {
	if !authRefused(err) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = err
}

// connect tries every server once, in random order, with files read now. The error names each server and its reason.
func (c *Conn) connect(ctx context.Context) (*link, error) {
	files, err := c.cfg.loadFiles()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFiles, pemfile.OneLine(err))
	}
	defer files.wipe()
	servers := slices.Clone(c.cfg.servers())
	//nolint:gosec // spreads load; nothing depends on its being unpredictable
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	var reasons []error
	for _, server := range servers {
		l, err := c.attempt(ctx, server, files)
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		reasons = append(reasons, fmt.Errorf("%s: %w", server, err))
	}
	return nil, pemfile.OneLine(errors.Join(reasons...))
}

// attempt makes one connection to one server. The end of ctx aborts it at once.
func (c *Conn) attempt(ctx context.Context, server string, files *material) (*link, error) {
	c.metrics.connections.Inc()
	l := &link{server: server, closed: make(chan struct{})}
	dialer := &abortable{ctx: ctx, timeout: c.cfg.ConnectTimeout.Std()}
	nc, err := nats.Connect(server, c.options(l, dialer, files)...)
	dialer.release()
	if err != nil {
		// nats.go reports a refused dial as "no servers available"; the dialer knows better.
		if dialer.err != nil {
			err = dialer.err
		}
		return nil, err
	}
	l.nats = nc
	l.jetStream, err = c.newJetStream(nc)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("set up JetStream: %w", err)
	}
	return l, nil
}

func (c *Conn) newJetStream(nc *nats.Conn) (jetstream.JetStream, error) {
	if c.cfg.JSAPIPrefix != "" {
		return jetstream.NewWithAPIPrefix(nc, c.cfg.JSAPIPrefix)
	}
	return jetstream.New(nc)
}

// options turns off everything by which nats.go would carry state from one connection to the next: Run makes a new
// one instead.
func (c *Conn) options(l *link, dialer *abortable, files *material) []nats.Option {
	silence := c.cfg.PingInterval.Std() * time.Duration(c.cfg.MaxPingsOut+1)
	opts := []nats.Option{
		nats.Name(c.cfg.Name),
		nats.NoReconnect(),
		nats.ReconnectBufSize(-1),
		nats.IgnoreDiscoveredServers(),
		nats.SkipHostLookup(),
		nats.SetCustomDialer(dialer),
		nats.Timeout(c.cfg.ConnectTimeout.Std()),
		nats.PingInterval(c.cfg.PingInterval.Std()),
		nats.MaxPingsOutstanding(c.cfg.MaxPingsOut),
		// A write that the peer does not take blocks the ping timer's lock; bound it likewise and let it break the link.
		nats.FlusherTimeout(silence),
		nats.ReconnectOnFlusherError(),
		nats.DrainTimeout(c.cfg.DrainTimeout.Std()),
		nats.PermissionErrOnSubscribe(true),
		nats.ClosedHandler(func(*nats.Conn) { close(l.closed) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) { c.asyncError(l, sub, err) }),
		nats.LameDuckModeHandler(func(*nats.Conn) {
			c.log.Info().Str(telemetry.KeyEndpoint, l.server).Msg("the NATS server is about to stop")
		}),
		func(o *nats.Options) error {
			// Set even without TLS, so that a server that insists on TLS is met with the same minimum version.
			o.TLSConfig = files.tls
			o.Secure = c.cfg.usesTLS() || strings.HasPrefix(l.server, schemeTLS+"://")
			return nil
		},
	}
	if c.cfg.TLSHandshakeFirst {
		opts = append(opts, nats.TLSHandshakeFirst())
	}
	if c.cfg.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(c.cfg.InboxPrefix))
	}
	if id := files.identity(); id != nil {
		opts = append(opts, id)
	}
	return opts
}

// asyncError takes what nats.go can tell only aside: refusals, permission errors, dropped messages.
func (c *Conn) asyncError(l *link, sub *nats.Subscription, err error) {
	l.noteRefusal(err)
	if sub != nil {
		err = fmt.Errorf("subscription %q: %w", sub.Subject, err)
	}
	c.fault(err, "NATS reported an error")
}

// abortable dials and, until released, closes what it dialled when ctx ends: nats.Connect takes no context.
type abortable struct {
	ctx     context.Context
	timeout time.Duration
	err     error
	stop    func() bool
}

// Dial fulfils nats.CustomDialer.
func (a *abortable) Dial(network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: a.timeout}
	conn, err := dialer.DialContext(a.ctx, network, address)
	a.err = err
	if err == nil {
		a.stop = context.AfterFunc(a.ctx, func() { _ = conn.Close() })
	}
	return conn, err
}

func (a *abortable) release() {
	if a.stop != nil {
		a.stop()
	}
}
