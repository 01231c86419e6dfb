package embedded

import (
	"context"
	"fmt"
	"net"

	"github.com/portcullis-mesh/portcullis/shared/natsconn"
)

// Claim makes and locks the store and finds out whether the address can be listened on, so that a daemon whose server
// could not run does not start. Run keeps the lock; whoever does not come to call Run must call Release. Claiming again
// does nothing.
//
// The error is one line under the settings key at fault: portcullis.nats.embedded_store_dir or
// portcullis.nats.embedded_listen. The server opens the port itself in Run, so that another process can still take it
// in between; then Run fails.
func (s *Server) Claim(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.release != nil {
		return nil
	}
	release, err := lockStore(s.cfg.StoreDir)
	if err != nil {
		return fmt.Errorf("portcullis.%s.embedded_store_dir: %w", natsconn.Section, err)
	}
	if err := s.probe(ctx); err != nil {
		release()
		return fmt.Errorf("portcullis.%s.embedded_listen: %w", natsconn.Section, err)
	}
	s.release = release
	return nil
}

// probe listens for a moment.
func (s *Server) probe(ctx context.Context) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return err
	}
	return listener.Close()
}

// Release gives up what Claim took, when Run is not called after all. It does nothing once Run has been called, which
// gives it up at its end, or when nothing is claimed.
func (s *Server) Release() {
	if !s.started.Load() {
		s.unlock()
	}
}

func (s *Server) unlock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.release != nil {
		s.release()
		s.release = nil
	}
}
