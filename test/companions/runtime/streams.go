package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/companions/exactjson"
)

// maxExpiry is how far ahead an exec may expire; the contract's is about 30 s.
const maxExpiry = time.Minute

// outlet writes stream frames from several goroutines. Before it is opened its writers wait: the reply
// goes first.
type outlet struct {
	opened chan struct{}
	mu     sync.Mutex
	stream *boundary.Stream
}

func newOutlet() *outlet { return &outlet{opened: make(chan struct{})} }

func (o *outlet) open(stream *boundary.Stream) {
	o.stream = stream
	close(o.opened)
}

func (o *outlet) send(channel boundary.Channel, b []byte) error {
	<-o.opened
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stream == nil {
		return io.ErrClosedPipe
	}
	return boundary.WriteStream(o.stream, channel, b)
}

func (o *outlet) exited(e boundary.Exit) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return o.send(boundary.Exited, b)
}

// channelWriter writes on one channel of an outlet.
type channelWriter struct {
	outlet  *outlet
	channel boundary.Channel
}

// Write sends b.
func (w channelWriter) Write(b []byte) (int, error) {
	if err := w.outlet.send(w.channel, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func execute(r *Runtime, _ context.Context, request []byte) (answer, *boundary.Failure) {
	var req boundary.Exec
	if err := exactjson.Decode(request, &req); err != nil {
		return answer{}, boundary.Failed(boundary.Invalid, "exec: %v", err)
	}
	now, expires := r.cfg.Now(), time.UnixMilli(req.ExpiresAt)
	switch {
	case now.After(expires):
		return answer{}, boundary.Failed(boundary.Denied, "exec: expired")
	case expires.Sub(now) > maxExpiry:
		return answer{}, boundary.Failed(boundary.Invalid, "exec: expires_at_ms: more than %s ahead", maxExpiry)
	}
	stdin, feed := io.Pipe()
	out := newOutlet()
	p, failure := r.processes.start(command{
		args: req.Command, env: r.overlaid(req.Env), workdir: req.Workdir, stdin: stdin,
		stdout: channelWriter{out, boundary.Stdout}, stderr: channelWriter{out, boundary.Stderr},
	})
	if failure != nil {
		return answer{}, failure
	}
	drop := func() {
		out.open(nil)
		_ = p.signal(syscall.SIGKILL)
	}
	return answer{body: boundary.Started{ProcessID: p.id}, drop: drop, then: func(ctx context.Context, stream *boundary.Stream) error {
		out.open(stream)
		misfed := feedFrom(stream, feed)
		select {
		case <-p.done:
			return out.exited(p.exit)
		case failure := <-misfed:
			_ = p.signal(syscall.SIGKILL)
			<-p.done
			return failure.Status()
		case <-ctx.Done():
			_ = p.signal(syscall.SIGKILL)
			<-p.done
			return ctx.Err()
		}
	}}, nil
}

// feedFrom copies stdin frames into w beside its caller, until they end, w is closed or the stream
// ends. The channel tells of a frame that may not be; it tells nothing else.
func feedFrom(stream *boundary.Stream, w io.WriteCloser) <-chan *boundary.Failure {
	misfed := make(chan *boundary.Failure, 1)
	go func() {
		defer func() { _ = w.Close() }()
		for {
			channel, b, err := boundary.ReadStream(stream)
			var failure *boundary.Failure
			switch {
			case errors.As(err, &failure):
			case err != nil || channel == boundary.StdinClosed:
				return
			case channel != boundary.Stdin:
				failure = boundary.Failed(boundary.Invalid, "a frame on channel %d: only input goes this way", channel)
			}
			if failure != nil {
				misfed <- failure
				return
			}
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	}()
	return misfed
}

func connect(_ *Runtime, ctx context.Context, request []byte) (answer, *boundary.Failure) {
	var req boundary.LoopbackConnect
	if err := exactjson.Decode(request, &req); err != nil {
		return answer{}, boundary.Failed(boundary.Invalid, "loopback_connect: %v", err)
	}
	if req.Port == 0 {
		return answer{}, boundary.Failed(boundary.Invalid, "loopback_connect: port: 0")
	}
	dialer := net.Dialer{Timeout: 10 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(req.Port))))
	if err != nil {
		return answer{}, boundary.Failed(boundary.Unavailable, "loopback_connect: %v", err)
	}
	return answer{body: empty{}, drop: func() { _ = conn.Close() }, then: func(ctx context.Context, stream *boundary.Stream) error {
		return join(ctx, stream, conn)
	}}, nil
}

// join copies between the stream and conn until conn has no more to say.
func join(ctx context.Context, stream *boundary.Stream, conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	misfed := feedFrom(stream, halfClosing{conn})
	out := newOutlet()
	out.open(stream)
	_, err := io.Copy(channelWriter{out, boundary.Stdout}, conn)
	select {
	case failure := <-misfed:
		return failure.Status()
	default:
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return boundary.Failed(boundary.Unavailable, "loopback_connect: %v", err).Status()
	}
	return out.exited(boundary.Exit{})
}

// halfClosing closes only the sending half.
type halfClosing struct{ net.Conn }

// Close ends what we send; the peer may still answer.
func (h halfClosing) Close() error {
	if tcp, ok := h.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}
