package filesource

import (
	"context"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// attempt is one read of the file, by a goroutine that may hang in the system. It is told everything it needs and
// shares nothing with the run loop but the notifications, which the loop leaves alone meanwhile.
type attempt struct {
	reader reader
	notify *notifications
	// known is the version that need not be parsed again.
	known string
}

// outcome is what an attempt found.
type outcome struct {
	// version of the content; candidates only when it is not the known one.
	version    string
	candidates []allowlist.Candidate
	// err is why there is no list.
	err error
	// watchErr is why some change may go unnoticed.
	watchErr error
}

// run watches first and reads then, so that no change falls in between.
func (a attempt) run(ctx context.Context) outcome {
	var o outcome
	o.watchErr = a.notify.follow(places(a.reader.path))
	content, err := a.reader.read(ctx)
	if err != nil {
		o.err = err
		return o
	}
	o.version = fingerprint(content)
	if o.version != a.known {
		o.candidates, o.err = parse(content)
	}
	return o
}

// underway is the attempt that a loop waits for. The zero value is none.
type underway struct {
	active bool
	// began is when, and so for which instant the outcome proves something.
	began allowlist.Instant
	// wish says that the outcome answers a relist.
	wish bool
	// back is closed when its goroutine has ended, which matters once nobody waits for the outcome.
	back <-chan struct{}
	// late says that the deadline has passed; the outcome will be thrown away.
	late bool
}

// start runs an attempt. Its outcome goes to the channel; or, once abandoned is closed, nowhere, and then the watcher
// is closed by the goroutine, which is the last to use it. back is closed at its very end.
func (a attempt) start(ctx context.Context, outcomes chan<- outcome, abandoned <-chan struct{}) (back <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o := a.run(ctx)
		select {
		case outcomes <- o:
		case <-abandoned:
			a.notify.close()
		}
	}()
	return ended
}
