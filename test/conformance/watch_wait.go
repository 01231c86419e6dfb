package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

// backlog is how many events come while a caller does not read: more than the original's queue of 256 and a connection take (contract 2.8).
// How long another driver's queue is cannot be known from outside.
const backlog = 400

// tellsSlowly stops to read when two sandboxes have been told. Then much happens, and at last they are stopped and deleted.
func tellsSlowly(ctx context.Context, p *probe) error {
	boxes, err := p.several(ctx, 2)
	if err != nil {
		return err
	}
	kept, lost := boxes[0].id, boxes[1].id
	from, s, err := p.open(ctx)
	if err != nil {
		return err
	}
	err = s.begin(from, p.patience, kept, lost)
	if err == nil {
		err = p.busy(ctx)
	}
	unread := s.length()
	if err == nil {
		err = errors.Join(p.stop(ctx, kept), p.ends(ctx, lost))
	}
	if err != nil {
		s.unread()
		return err
	}
	go s.read(from)
	_, err = p.tellsGone(ctx, s, lost, unread)
	if err == nil {
		_, err = p.tells(ctx, s, kept, unread, phase.Stopped)
	}
	if s.over() {
		return expect("the watch of a slow caller ends", s.failure(), codes.Unavailable, codes.ResourceExhausted, codes.Aborted)
	}
	return err
}

// begin reads until each of the sandboxes has been told, and no further.
func (s *stream) begin(from grpc.ServerStreamingClient[computev1.WatchSandboxesEvent], limit time.Duration, ids ...string) error {
	timer := time.AfterFunc(limit, s.cancel)
	defer timer.Stop()
	for _, id := range ids {
		for len(s.of(id, 0)) == 0 {
			if !s.next(from) {
				return fmt.Errorf("the watch did not begin with what there is: %w", s.failure())
			}
		}
	}
	return nil
}

// busy lets hundreds of events come, or as many as do in a part of the patience: what other checks do counts too.
func (p *probe) busy(ctx context.Context) error {
	const part, least, few, pause = 3, 3, 4, 100 * time.Millisecond
	counting, err := p.watch(ctx)
	if err != nil {
		return err
	}
	b, err := p.stopped(ctx)
	if err != nil {
		return err
	}
	for began, cycles := time.Now(), 0; cycles < least || counting.length() < backlog && time.Since(began) < p.patience/part; {
		before := counting.length()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		if cycles >= least && counting.length()-before > few {
			continue
		}
		cycles++
		if err := errors.Join(p.start(ctx, b), p.stop(ctx, b.id)); err != nil {
			return err
		}
	}
	counting.close()
	return nil
}

func (s *stream) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

func (s *stream) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem
}

// tellsAnew waits until a sandbox that does not change is told again. That is not what is told twice at once: some time lies between.
func tellsAnew(ctx context.Context, p *probe) error {
	b, err := p.up(ctx)
	if err != nil {
		return err
	}
	s, err := p.watch(ctx)
	if err != nil {
		return err
	}
	at, err := p.tells(ctx, s, b.id, 0, phase.Ready)
	if err != nil {
		return err
	}
	const part, longest = 6, 5 * time.Second
	between := min(p.patience/part, longest)
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	for first := s.at(at - 1); ; {
		at, err = s.await(ctx, p.patience, b.id, at, "Ready, again and unchanged", func(t told) bool { return t.sandbox != nil })
		if err != nil {
			return err
		}
		switch again := s.at(at - 1); {
		case !proto.Equal(first.sandbox, again.sandbox): // it had not come to rest
			first = again
		case again.at.Sub(first.at) >= between:
			return nil
		}
	}
}
