package allowkv_test

import (
	"context"
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// leadWhileElected is what a leader election calls when it is won. lease ends when the Lease is lost, and stop when the
// process is asked to stop; release gives the Lease back.
func leadWhileElected(lease, stop context.Context, p *allowkv.Publisher, source allowkv.Source, release func()) (allowlist.End, error) {
	released := make(chan struct{})
	unhook := context.AfterFunc(stop, func() {
		release() // first, so that a successor can write before this one withdraws (rule W10)
		close(released)
	})
	defer unhook()
	return p.Lead(lease, source, released)
}

// A term lasts as long as the Lease, and a clean stop gives the Lease back before it ends the term.
func ExamplePublisher_Lead() {
	var p *allowkv.Publisher // of NewPublisher
	var source allowkv.Source
	elected := func(lease, stop context.Context) {
		end, err := leadWhileElected(lease, stop, p, source, func() {})
		switch {
		case err != nil:
			fmt.Println("no term:", err)
		case end.Cause == allowlist.EndStopped:
			fmt.Println("stopped")
		default:
			fmt.Println("take part in the next election:", end.Cause, end.Err)
		}
	}
	_ = elected // given to the election
}

// Creating the bucket is a job of its own, with an identity that may write nothing.
func ExampleBootstrap() {
	run := func(conn allowkv.Connection) error {
		session, _ := conn.Session()
		if !session.Connected() {
			return session.Err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		created, err := allowkv.Bootstrap(ctx, session.JetStream, 3)
		if err == nil {
			fmt.Println("created:", created)
		}
		return err
	}
	_ = run // the main function of that job
}
