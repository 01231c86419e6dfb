package traffic

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// lacking are the residents that were not told of.
func (r *runner) lacking(told map[string]bool) (lacks []string) {
	for _, id := range r.Residents {
		if !told[id] {
			lacks = append(lacks, id)
		}
	}
	return lacks
}

// watch keeps a stream open until ctx ends, and then until it has told of all residents. It is one request, with an attempt for each
// stream.
func (r *runner) watch(ctx context.Context) {
	request := Request{Call: Watch}
	for since := time.Now(); ; {
		s := stream{of: r, told: map[string]bool{}}
		s.follow(ctx)
		request.Attempts = append(request.Attempts, s.attempt)
		if len(s.told) > 0 {
			since = time.Now()
		}
		if s.attempt.Code == codes.OK || time.Since(since) > Patience {
			break
		}
		time.Sleep(Again)
	}
	r.note(request)
}

// stream is one stream and what it has told.
type stream struct {
	of      *runner
	attempt Attempt

	mu   sync.Mutex
	told map[string]bool
}

// follow reads the stream. It ends well when ctx has ended, and all residents were told of or Patience has passed since.
func (s *stream) follow(ctx context.Context) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if s.whole() {
			cancel()
			return
		}
		timer := time.AfterFunc(Patience, cancel)
		context.AfterFunc(own, func() { timer.Stop() })
	})()
	in, err := s.of.Driver.WatchSandboxes(own, &computev1.WatchSandboxesRequest{})
	for err == nil && (ctx.Err() == nil || !s.whole()) {
		var event *computev1.WatchSandboxesEvent
		if event, err = in.Recv(); err == nil {
			s.take(event)
		}
	}
	if err != nil && own.Err() == nil {
		s.attempt.Code, s.attempt.Message = status.Code(err), status.Convert(err).Message()
		if errors.Is(err, io.EOF) { // one that ends cleanly is opened again, too (contract 2.8)
			s.attempt.Code, s.attempt.Message = codes.Unavailable, "the stream ended"
		}
		return
	}
	s.attempt.Lacks = s.of.lacking(s.told)
}

func (s *stream) take(event *computev1.WatchSandboxesEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := event.GetSandbox().GetSandbox().GetId(); id != "" {
		s.told[id] = true
	}
	if id := event.GetDeleted().GetSandboxId(); slices.Contains(s.of.Residents, id) {
		s.attempt.Gone = append(s.attempt.Gone, id)
	}
}

// whole reports whether all residents were told of.
func (s *stream) whole() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of.lacking(s.told)) == 0
}
