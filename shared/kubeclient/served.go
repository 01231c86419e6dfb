package kubeclient

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

// askAgain is for how long it is believed that the API server serves a group, which changes when somebody installs or removes a CRD.
const askAgain = 30 * time.Second

// Served is a readiness check: nil while the API server serves a group of resources. What is not known yet is an error; once it is known,
// an API server that cannot be asked changes nothing: that is for Clients.Ready to tell. An account that may not ask, where discovery is
// narrowed, learns from its calls what is not served. Safe for concurrent use.
type Served struct {
	clients *Clients
	group   string
	advice  string
	now     func() time.Time

	mu    sync.Mutex
	known time.Time // when it last was so; zero: it is not known to be
}

// Serves returns the check for a group. The advice says what to do when it is not served. Every account that the API server knows may ask.
func (c *Clients) Serves(group, advice string) *Served {
	return &Served{clients: c, group: group, advice: advice, now: time.Now}
}

// Ready asks, unless it is known from the last half minute.
func (s *Served) Ready(ctx context.Context) error {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	if !known.IsZero() && s.now().Sub(known) < askAgain {
		return nil
	}
	status, err := s.ask(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case status == http.StatusOK:
		s.known = s.now()
		return nil
	case status == http.StatusNotFound:
		s.known = time.Time{}
		return fmt.Errorf("kubernetes API %s serves no %s: %s", s.clients.server, s.group, s.advice)
	case !known.IsZero(), status == http.StatusForbidden: // who may not ask learns it from the calls themselves
		return nil
	case err != nil:
		return fmt.Errorf("kubernetes API could not be asked whether it serves %s: %w", s.group, pemfile.OneLine(err))
	default:
		return fmt.Errorf("kubernetes API %s does not say whether it serves %s: it answered %d", s.clients.server, s.group, status)
	}
}

func (s *Served) ask(ctx context.Context) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.clients.server.JoinPath("apis", s.group).String(), nil)
	if err != nil {
		return 0, err
	}
	resp, err := s.clients.Calls.http.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
