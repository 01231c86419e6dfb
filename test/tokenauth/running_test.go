package tokenauth_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/tokenauth"
)

// The label is taken off while calls run without a pause: once one call was refused, no call that begins later is granted, and
// there is no other answer in between.
func TestLabelIsRemovedWhileCallsRun(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	i := installation.New(t, cluster.Start(t, cluster.ControlPlane), server.URL())
	i.Bootstrap(1)
	s := tokenauth.Operator(t, i)
	p := s.Start()
	s.Watch(i.Nswatch().Output)
	p.AwaitReady()
	c := s.Client(p)
	callers := []*tokenauth.Bearer{s.Bearer(s.Namespace), s.Bearer(s.Namespace), s.Bearer(s.Namespace)}
	callers = append(callers, callers[0]) // two callers with one token share decisions
	for range 3 {
		for _, b := range callers {
			awaitAccepted(t, c, b)
		}
		callWhileUnlabelled(t, i, s, c, callers)
		i.SetLabel(s.Namespace)
	}
	p.Stop()
}

func callWhileUnlabelled(t *testing.T, i *installation.Installation, s *tokenauth.Site, c *tokenauth.Client, callers []*tokenauth.Bearer) {
	t.Helper()
	var (
		running         sync.WaitGroup
		refused         atomic.Bool
		granted, denied atomic.Int64
		mu              sync.Mutex
		wrong           []error
	)
	// Each caller goes on for so many calls after the first refusal.
	const after = 30
	for _, b := range callers {
		running.Go(func() {
			for late := 0; late < after && t.Context().Err() == nil; {
				began := refused.Load()
				_, err := c.Authenticate(t.Context(), b.Token)
				decision, _ := verdict.FromError(err)
				switch {
				case err == nil && began:
					err = errors.New("a call is granted that began after another was refused")
				case err == nil:
					granted.Add(1)
				case status.Code(err) == codes.PermissionDenied && decision.Reason == verdict.NotListed:
					denied.Add(1)
					refused.Store(true)
					err = nil
				}
				if began {
					late++
				}
				if err != nil {
					mu.Lock()
					wrong = append(wrong, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	cluster.Eventually(t, "calls are granted", func(context.Context) error {
		if granted.Load() < 20 {
			return errors.New("not yet")
		}
		return nil
	})
	i.RemoveLabel(s.Namespace)
	running.Wait()
	for _, err := range wrong {
		t.Error(err)
	}
	if denied.Load() < after {
		t.Errorf("only %d calls were denied", denied.Load())
	}
}
