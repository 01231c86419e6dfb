package canary

import (
	"bufio"
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What the canaries say to each other, a line each: the supervisor enters with greeting and the probe's name; it says try as often as
// it wants the workload to try all targets, which answers held or loose when it has; each says bye, the supervisor first.
const (
	greeting = "portcullis fence probe "
	try      = "try"
	held     = "held"
	loose    = "loose"
	bye      = "bye"
	// maxLine bounds a line.
	maxLine = 128
	// greetLimit is how long a visitor may take to say who it is.
	greetLimit = 2 * time.Second
)

// door is one end of the conversation.
type door struct {
	conn net.Conn
	in   *bufio.Reader
}

func newDoor(conn net.Conn) *door { return &door{conn, bufio.NewReaderSize(conn, maxLine)} }

func (d *door) say(line string) bool {
	_, err := d.conn.Write([]byte(line + "\n"))
	return err == nil
}

// next is the next line; empty when there is none.
func (d *door) next() string {
	text, err := d.in.ReadSlice('\n')
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

// hears reports whether the next line is the one that is expected.
func (d *door) hears(line string) bool { return d.next() == line }

// until makes the conversation end with ctx; the returned function undoes that.
func (d *door) until(ctx context.Context) func() bool {
	return context.AfterFunc(ctx, func() { _ = d.conn.SetDeadline(time.Unix(1, 0)) })
}

func (d *door) close() { _ = d.conn.Close() }

// host is the workload canary's side: it listens at the door and at the port that must be shut.
type host struct {
	listeners []net.Listener
	probe     string
	visitors  chan *door
	visitor   *door
	end       context.CancelFunc
	all       sync.WaitGroup
}

func (l *look) open(ctx context.Context) (*host, error) {
	ctx, cancel := context.WithCancel(ctx)
	h := &host{probe: l.plan.Probe, visitors: make(chan *door, 1), end: cancel}
	for i, port := range []uint16{l.plan.Door, l.plan.Shut} {
		listener, err := l.network.Listen(ctx, port)
		if err != nil {
			h.close()
			return nil, err
		}
		h.listeners = append(h.listeners, listener)
		h.all.Go(func() { h.accept(ctx, listener, i == 0) })
	}
	return h, nil
}

// accept takes one visitor after the other. Who does not say what a canary says is sent away.
func (h *host) accept(ctx context.Context, listener net.Listener, receives bool) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		if d := newDoor(conn); !receives || !h.receive(ctx, d) {
			d.close()
		}
	}
}

// receive reports whether the visitor was let in.
func (h *host) receive(ctx context.Context, d *door) bool {
	stop := d.until(ctx)
	defer stop()
	_ = d.conn.SetDeadline(time.Now().Add(greetLimit))
	if ctx.Err() != nil || !d.hears(greeting+h.probe) {
		return false
	}
	_ = d.conn.SetDeadline(time.Time{})
	select {
	case h.visitors <- d:
		return true
	default: // one is here already
		return false
	}
}

// entered reports whether the supervisor canary is here.
func (h *host) entered() bool {
	if h.visitor == nil {
		select {
		case h.visitor = <-h.visitors:
		default:
		}
	}
	return h.visitor != nil
}

// serve tries all targets as often as the visitor says so, and reports whether it took leave. What tries finds ends it when it is open.
func (h *host) serve(ctx context.Context, tries func() (answer string, open bool)) (parted bool) {
	stop := h.visitor.until(ctx)
	defer stop()
	for {
		switch h.visitor.next() {
		case try:
			if answer, open := tries(); open || !h.visitor.say(answer) {
				return false
			}
		case bye:
			return h.visitor.say(bye)
		default:
			return false
		}
	}
}

// close sends everybody away and waits until they are gone.
func (h *host) close() {
	h.end()
	for _, listener := range h.listeners {
		_ = listener.Close()
	}
	h.all.Wait()
	if h.entered() {
		h.visitor.close()
	}
}

// enter is the supervisor canary's side: it tries for as long as the time to settle. Nil when it was not let in.
func (l *look) enter(ctx context.Context) *door {
	until := l.since() + l.plan.settle()
	at := net.JoinHostPort(l.plan.Peer, strconv.Itoa(int(l.plan.Door)))
	for {
		if d := l.greet(ctx, at); d != nil {
			return d
		}
		if l.since() >= until {
			l.report.End = EndDone
			return nil
		}
		if !rest(ctx) {
			return nil
		}
	}
}

func (l *look) greet(ctx context.Context, at string) *door {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	conn, err := l.network.Dial(ctx, at)
	if err != nil {
		return nil
	}
	d := newDoor(conn)
	_ = conn.SetWriteDeadline(time.Now().Add(tryLimit))
	if !d.say(greeting + l.plan.Probe) {
		d.close()
		return nil
	}
	_ = conn.SetWriteDeadline(time.Time{})
	return d
}

// part is the supervisor canary's leave: the workload canary has tried, and answers still.
func (d *door) part(ctx context.Context) bool {
	stop := d.until(ctx)
	defer stop()
	return d.say(bye) && d.hears(bye)
}
