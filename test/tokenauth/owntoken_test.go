package tokenauth_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/tokenauth"
)

// The daemon's own token is replaced on disk while calls run, and the old one becomes invalid: no call notices. Then the token
// becomes invalid before there is another: nothing can be found out until there is, and the next call is good.
func TestReplayT05OwnTokenIsReplaced(t *testing.T) {
	t.Parallel()
	s := tokenauth.Shared(t, cluster.Start(t, cluster.ControlPlane))
	s.OwnTokenFile = filepath.Join(t.TempDir(), "token")
	first := s.IssueOwnToken()
	p := s.Start()
	p.AwaitReady()
	c := s.Client(p)
	b := s.Bearer(s.Namespace)
	awaitAccepted(t, c, b)

	stop := callOn(t, c, s.Bearer(s.Namespace), b)
	second := s.IssueOwnToken()
	first.Revoke()
	awaitRevoked(t, first)
	stop()

	second.Revoke()
	awaitRevoked(t, second)
	// What the API server has just accepted it goes on to accept for a few seconds.
	awaitRefused(t, c, b.Token, verdict.ReviewFailed)
	s.IssueOwnToken()
	if _, err := c.Authenticate(t.Context(), b.Token); err != nil {
		t.Errorf("the first call after the new token came: %v", err)
	}
	p.Stop()
}

// awaitRevoked waits until the API server accepts the token from nobody.
func awaitRevoked(t *testing.T, token *tokenauth.OwnToken) {
	t.Helper()
	cluster.Eventually(t, "the token of the daemon is invalid", func(ctx context.Context) error {
		if err := token.Try(ctx); !apierrors.IsUnauthorized(err) {
			return errors.Join(errors.New("it is not"), err)
		}
		return nil
	})
}

// callOn has each of the bearers call one time after another. stop waits until each was granted some more calls, and demands that
// all were.
func callOn(t *testing.T, c *tokenauth.Client, bearers ...*tokenauth.Bearer) (stop func()) {
	t.Helper()
	const after = 20
	var (
		running  sync.WaitGroup
		stopping atomic.Bool
		granted  atomic.Int64
	)
	for _, b := range bearers {
		running.Go(func() {
			for left := after; left > 0; {
				if stopping.Load() {
					left--
				}
				if _, err := c.Authenticate(t.Context(), b.Token); err != nil {
					decision, _ := verdict.FromError(err)
					t.Errorf("after %d calls: %v (%s)", granted.Load(), err, decision.Explain())
					return
				}
				granted.Add(1)
			}
		})
	}
	return func() { stopping.Store(true); running.Wait() }
}
