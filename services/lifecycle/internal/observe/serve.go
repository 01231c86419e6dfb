package observe

import (
	"context"
	"fmt"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
)

// Watch tells send everything, as the package comment says, until ctx ends, send fails or the stream is reset; it returns why. It
// waits until the view is complete; of a view that is not current later it begins nothing, and returns ErrStale. The messages are shared
// and must not be changed.
//
// It returns also while send is blocked, so that the one who called can end the stream and send with it; send is then not called again.
func (o *Observer) Watch(ctx context.Context, send func(*computev1.WatchSandboxesEvent) error) error {
	select {
	case <-o.complete:
	case <-ctx.Done():
		return ctx.Err()
	case <-o.stopped:
		return ErrStopped
	}
	to := newCaller(o.cfg.Queue)
	if err := o.join(to); err != nil {
		return err
	}
	defer o.leave(to)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := make(chan error, 1)
	go func() {
		defer o.senders.Done()
		sent <- o.deliver(ctx, to, send)
	}()
	select {
	case err := <-sent:
		return err
	case <-to.broken:
		return to.failed // not written any more
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join takes a caller in, and a place among the senders. What it is owed then must be the present state: a gateway that has just taken over
// may know a newer one already.
func (o *Observer) join(to *caller) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-o.stopped:
		return ErrStopped
	default:
	}
	if err := o.present().stale(); err != nil {
		return err
	}
	o.senders.Add(1)
	o.core.join(to)
	return nil
}

func (o *Observer) leave(to *caller) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.core.leave(to)
}

// deliver sends what a caller is owed, as it comes.
func (o *Observer) deliver(ctx context.Context, to *caller, send func(*computev1.WatchSandboxesEvent) error) error {
	for {
		o.mu.Lock()
		m, failed := o.core.next(to), to.failed
		o.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case failed != nil:
			return failed
		case m != nil:
			if err := send(m); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-to.broken:
		case <-to.wake:
		}
	}
}

// List gives all sandboxes, in the order of their ids, without asking the cluster. The error is ErrStale. It lacks only those whose
// object cannot be read or whose id is of more than one object, and of these Get never says that they are absent. What it gives is
// shared and must not be changed.
func (o *Observer) List() ([]*computev1.DriverSandbox, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.present().stale(); err != nil {
		return nil, err
	}
	all := make([]*computev1.DriverSandbox, 0, len(o.core.ids))
	for _, id := range o.core.sorted() {
		if state := o.core.ids[id].state(); state != nil {
			all = append(all, state)
		}
	}
	return all, nil
}

// Get gives one sandbox: from the view while that is current and has it, and else from a live look. The error is ErrAbsent only when
// the live look has proven it; ErrAmbiguous, ErrUnreadable, or the finder's. What it gives is shared and must not be changed.
func (o *Observer) Get(ctx context.Context, id string) (*computev1.DriverSandbox, error) {
	o.mu.Lock()
	e := o.core.ids[id]
	state, many, stale := e.state(), e != nil && len(e.boxes) > 1, o.present().stale()
	o.mu.Unlock()
	switch {
	case stale != nil:
	case many:
		return nil, fmt.Errorf("%w: %s", ErrAmbiguous, id)
	case state != nil:
		return state, nil
	}
	return o.look(ctx, id)
}

// look is Get from a live look, whatever the view says. Its Pods are those of the view, as far as that is current.
func (o *Observer) look(ctx context.Context, id string) (*computev1.DriverSandbox, error) {
	found, err := o.finder.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrAbsent, id)
	}
	var readable []snapshot.Sandbox
	var problem error
	for i := range found {
		s, err := snapshot.Read(&found[i], o.scheme)
		switch {
		case err != nil:
			problem = err
		case s.ID == id: // a server that took no notice of the selector proves nothing
			readable = append(readable, s)
		default:
			problem = fmt.Errorf("the Sandbox %s/%s has the sandbox id %.64q", s.Namespace, s.Object, s.ID)
		}
	}
	switch len(readable) {
	case 0:
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, problem)
	case 1:
	default:
		return nil, fmt.Errorf("%w: %s", ErrAmbiguous, id)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.present().render(&readable[0]), nil
}
