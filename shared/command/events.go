package command

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/shared/command/podevent"
	"github.com/portcullis-mesh/portcullis/shared/daemon"
	"github.com/portcullis-mesh/portcullis/shared/kubeclient"
	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// tellOnPod has Events written about why the daemon is not ready, until stop, for a daemon that uses the cluster and knows which Pod it is
// in. Why there are none is said once.
func (s *start[S]) tellOnPod(ctx context.Context) (stop func()) {
	cfg, uses := s.own.Sections()[kubeclient.Section].(*kubeclient.Config)
	if !uses {
		return func() {}
	}
	log := telemetry.Component(s.log, "events")
	pod, err := podevent.PodOf(s.env.LookupEnv)
	if err != nil {
		log.Info().AnErr(telemetry.KeyCause, err).Msg("no Events are written about a Pod")
		return func() {}
	}
	s.events = podevent.New(pod, s.daemon.Name, *cfg, log)
	ctx, cancel := context.WithCancel(ctx)
	var told sync.WaitGroup
	told.Go(func() { s.events.Run(ctx) })
	return func() { cancel(); told.Wait() }
}

// observe takes what all readiness checks say.
func (s *start[S]) observe(ready daemon.Report) {
	if s.events != nil {
		s.events.Observe(ready)
	}
}

// countEvents adds the metrics of Events to a registry.
func (s *start[S]) countEvents(reg prometheus.Registerer) error {
	if s.events == nil {
		return nil
	}
	return s.events.Register(reg)
}
