package daemon

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// StopRequest is the cause of a stop that a signal asked for. context.Cause returns
// it for a context made by SignalContext.
type StopRequest struct {
	// Signal is SIGTERM or SIGINT.
	Signal syscall.Signal
}

// Error names the signal.
func (r StopRequest) Error() string {
	return fmt.Sprintf("stop requested by %s", unix.SignalName(r.Signal))
}

// SignalContext returns a child of parent that the first SIGTERM or SIGINT cancels
// with a StopRequest as cause. The second one calls exit with 128 plus the signal's
// number: whoever signals twice does not want to wait. Wiring passes os.Exit.
//
// release cancels the context, restores the default effect of the signals and waits
// for the goroutine behind it.
func SignalContext(parent context.Context, exit func(code int)) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	// Room for both signals, since the runtime drops what does not fit.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	released := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case s := <-signals:
			cancel(StopRequest{Signal: s.(syscall.Signal)})
		case <-released:
			return
		}
		select {
		case s := <-signals:
			exit(128 + int(s.(syscall.Signal)))
		case <-released:
		}
	})
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(released)
		wg.Wait()
		cancel(context.Canceled)
	})
}
