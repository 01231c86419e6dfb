// Command door leads from TCP addresses to private Unix sockets of its own user, so that a test outside of a Pod can be who is inside.
//
//	door 0.0.0.0:7001=/run/gateway/control/control.sock 0.0.0.0:7002=/run/portcullis/gateway/driver.sock
//
// Test equipment, and nothing else: whoever reaches such an address has every right of whoever may use the socket.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/portcullis-mesh/portcullis/shared/udsock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, os.Args[1:], func(string, net.Addr) {})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "door:", err)
		os.Exit(1)
	}
}

// run serves every pair until ctx ends, which is no error. Opened is told where each is served.
func run(ctx context.Context, pairs []string, opened func(socket string, at net.Addr)) error {
	if len(pairs) == 0 {
		return errors.New("nothing to serve: give ADDRESS=SOCKET")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var serving sync.WaitGroup
	defer serving.Wait()
	defer stop()
	for _, pair := range pairs {
		address, socket, found := strings.Cut(pair, "=")
		if !found {
			return fmt.Errorf("%q: not ADDRESS=SOCKET", pair)
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("%q: %w", pair, err)
		}
		opened(socket, l.Addr())
		context.AfterFunc(ctx, func() { _ = l.Close() })
		serving.Go(func() { serve(ctx, l, socket) })
	}
	<-ctx.Done()
	return nil
}

// serve passes every connection on, until the listener is closed.
func serve(ctx context.Context, l net.Listener, socket string) {
	var passing sync.WaitGroup
	defer passing.Wait()
	for {
		outer, err := l.Accept()
		if err != nil {
			return
		}
		passing.Go(func() { pass(ctx, outer, socket) })
	}
}

// pass joins a connection with one to the socket, until either ends or ctx does. While nobody answers there it is closed at once.
func pass(ctx context.Context, outer net.Conn, socket string) {
	ctx, over := context.WithCancel(ctx)
	defer over()
	defer func() { _ = outer.Close() }()
	inner, err := udsock.Dial(ctx, socket)
	if err != nil {
		fmt.Fprintf(os.Stderr, "door: %v\n", err)
		return
	}
	defer func() { _ = inner.Close() }()
	var copying sync.WaitGroup
	for _, way := range []struct{ to, from net.Conn }{{inner, outer}, {outer, inner}} {
		copying.Go(func() {
			defer over()
			_, _ = io.Copy(way.to, way.from) // it ends with either
		})
	}
	<-ctx.Done()
	_, _ = outer.Close(), inner.Close()
	copying.Wait()
}
