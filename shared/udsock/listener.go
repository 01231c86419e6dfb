//go:build linux

package udsock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// Options are the listener's settings. The zero value logs nothing and registers no
// metric. Nothing widens who may connect.
type Options struct {
	// Log gets one warning for each dropped peer, at most five in ten seconds.
	Log zerolog.Logger
	// Registerer, if not nil, gets portcullis_udsock_peers_dropped_total.
	Registerer prometheus.Registerer
}

// Listener is a net.Listener that hands out only connections of peers with our
// effective uid, as [*Conn]. It starts no goroutine.
type Listener struct {
	inner   *net.UnixListener
	dir     *directory
	lock    *os.File
	path    string
	name    string
	id      identity
	uid     uint32 // of the peers that are accepted
	log     zerolog.Logger
	dropLog zerolog.Logger
	dropped *prometheus.CounterVec

	closing sync.Once
	closed  error
}

var _ net.Listener = (*Listener)(nil)

// Listen makes the private socket at path and returns when it accepts
// connections; the package comment tells the steps. ctx bounds only the start. On
// an error nothing of ours is left at path, and nothing of anybody else's was
// touched. The caller must Close the listener.
func Listen(ctx context.Context, path string, opts Options) (*Listener, error) {
	l, err := listen(ctx, path, opts, effectiveOwner(), func(string) {})
	if err != nil {
		return nil, fmt.Errorf("listen on private socket: %w", err)
	}
	return l, nil
}

// listen calls reached after every step that changes the file system, for tests
// that look at the state in between.
func listen(ctx context.Context, path string, opts Options, own owner, reached func(step string)) (_ *Listener, err error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	dropped, err := droppedCounter(opts.Registerer)
	if err != nil {
		return nil, err
	}
	l := &Listener{
		path: path, name: filepath.Base(path),
		uid:     own.euid,
		log:     opts.Log,
		dropLog: opts.Log.Sample(&zerolog.BurstSampler{Burst: 5, Period: 10 * time.Second}),
		dropped: dropped,
	}
	if l.dir, err = openDirectory(filepath.Dir(path), own); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = l.dir.close()
		}
	}()
	reached("directory")
	if l.lock, err = l.dir.lock(l.name, own); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = l.lock.Close()
		}
	}()
	reached("lock")
	if err := l.open(ctx, own, reached); err != nil {
		return nil, err
	}
	return l, nil
}

// open clears what a dead process left and puts the listening socket into place.
func (l *Listener) open(ctx context.Context, own owner, reached func(string)) (err error) {
	// A fixed temporary name is cleared by the next start after a crash here.
	temp := "." + l.name + ".new"
	for _, name := range []string{l.name, temp} {
		if err := l.dir.clear(ctx, name, own); err != nil {
			return err
		}
	}
	reached("clear")
	if l.inner, err = l.dir.bind(ctx, temp); err != nil {
		return err
	}
	reached("bind")
	defer func() {
		if err != nil {
			_, _ = l.dir.remove(temp, l.id)
			_ = l.inner.Close()
		}
	}()
	if l.id, err = l.dir.settle(temp, own); err != nil {
		return err
	}
	reached("settle")
	if err = l.dir.publish(temp, l.name); err != nil {
		return err
	}
	reached("publish")
	return nil
}

// Accept waits for the next connection of a peer whose uid equals our effective one.
// Connections of others, root included, are closed without an answer, counted and logged (contract 2.2).
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.inner.AcceptUnix()
		if err != nil {
			return nil, err
		}
		peer, err := peerOf(conn)
		if err == nil && peer.runsAs(l.uid) {
			return &Conn{UnixConn: conn, peer: peer}, nil
		}
		l.drop(peer, err)
		_ = conn.Close()
	}
}

func (l *Listener) drop(peer Peer, err error) {
	if err != nil {
		l.dropped.WithLabelValues("unknown_uid").Inc()
		l.dropLog.Warn().Err(err).Str(telemetry.KeyAddress, l.path).Msg("dropped a connection whose peer could not be identified")
		return
	}
	l.dropped.WithLabelValues("foreign_uid").Inc()
	l.dropLog.Warn().Str(telemetry.KeyAddress, l.path).Stringer(telemetry.KeyPeer, peer).
		Msg("dropped a connection of another user")
}

// Addr is the socket's path as given to [Listen].
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Check is a readiness check: nil while the path leads to this socket. Someone with
// our uid may have removed or replaced it, and no client would tell.
func (l *Listener) Check(context.Context) error {
	var st unix.Stat_t
	if err := unix.Lstat(l.path, &st); err != nil {
		return fmt.Errorf("the socket is gone: look at %q: %w: restart the driver", l.path, err)
	}
	if !l.id.isSocket(&st) {
		return fmt.Errorf("%q is no longer this driver's socket: something replaced it: restart the driver", l.path)
	}
	return nil
}

// Close removes the socket file if it is still ours, stops accepting and gives the
// lock up, in this order: the inode stays reserved while it is compared, and the
// next starter waits until all is done. Accepted connections live on. Repeated
// calls return the first result.
func (l *Listener) Close() error {
	l.closing.Do(func() {
		removed, err := l.dir.remove(l.name, l.id)
		if err == nil && !removed {
			l.log.Warn().Str(telemetry.KeyAddress, l.path).Msg("left the socket path alone on exit: it was no longer this driver's socket")
		}
		l.closed = errors.Join(err, l.inner.Close(), l.lock.Close(), l.dir.close())
	})
	return l.closed
}

func droppedCounter(reg prometheus.Registerer) (*prometheus.CounterVec, error) {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: telemetry.Namespace,
		Subsystem: "udsock",
		Name:      "peers_dropped_total",
		Help:      "Connections to the private socket that were closed because of who made them.",
	}, []string{"reason"})
	if reg == nil {
		return counter, nil
	}
	if err := reg.Register(counter); err != nil {
		// A second socket of the same process shares the metric.
		var same prometheus.AlreadyRegisteredError
		if errors.As(err, &same) {
			if existing, ok := same.ExistingCollector.(*prometheus.CounterVec); ok {
				return existing, nil
			}
		}
		return nil, fmt.Errorf("register socket metrics: %w", err)
	}
	return counter, nil
}
