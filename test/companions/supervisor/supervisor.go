package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/test/companions/bootstrap"
	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
)

// Supervisor holds a runtime and a session with the gateway.
type Supervisor struct {
	settings Settings
	patience Patience
	log      zerolog.Logger
	health   *health
	link     *link
	now      func() time.Time
}

// New reads the files. It starts nothing.
func New(s Settings, p Patience, now func() time.Time, log zerolog.Logger) (*Supervisor, error) {
	d, err := bootstrap.ReadDescriptor(s.DescriptorFile)
	if err != nil {
		return nil, err
	}
	a, err := bootstrap.ReadAuth(s.AuthFile)
	if err != nil {
		return nil, err
	}
	switch {
	case d.BoundaryID != s.SandboxID:
		return nil, errors.New("OPENSHELL_SANDBOX_ID: not the boundary_id of the descriptor")
	case a.SessionID != d.SessionID:
		return nil, errors.New("auth bundle: session_id is not that of the descriptor")
	case a.RuntimeGeneration != d.Generation:
		return nil, errors.New("auth bundle: runtime_generation is not the generation of the descriptor")
	}
	h := &health{}
	return &Supervisor{settings: s, patience: p, log: log, health: h, now: now, link: &link{
		descriptor: d, token: a.SandboxToken, instance: boundary.NewUUID(), main: s.Main, workdir: s.Workdir,
		health: h, changed: make(chan struct{}),
	}}, nil
}

// Run works until ctx ends, which is no error, or until it has to give up.
func (s *Supervisor) Run(ctx context.Context) error {
	socket, err := listen(ctx, s.settings.HealthSocket)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var (
		wg   sync.WaitGroup
		ends [3]error
	)
	work := func(i int, what string, run func() error) {
		wg.Go(func() {
			defer stop()
			if err := run(); err != nil {
				ends[i] = fmt.Errorf("%s: %w", what, err)
			}
		})
	}
	work(0, "runtime", func() error {
		return s.patience.keep(ctx, s.log.With().Str("to", "runtime").Logger(), s.link.hold)
	})
	work(1, "gateway", func() error {
		return s.patience.keep(ctx, s.log.With().Str("to", "gateway").Logger(), s.holdGateway)
	})
	work(2, "health", func() error { return s.health.serve(socket) })
	<-ctx.Done()
	_ = socket.Close()
	wg.Wait()
	return errors.Join(ends[:]...)
}
