package gateway

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/clock"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// deadlineLoop ends the windows of creates and starts, and stops what they left behind (contract 2.12).
func (g *Gateway) deadlineLoop(l *life) {
	for clock.Sleep(l.ctx, g.config.Clock, g.config.Timing.Tick) == nil {
		rows, err := g.records.List()
		if err != nil {
			g.config.Log.Error().Err(err).Msg("read the deadlines")
			continue
		}
		for _, row := range rows {
			if expired(row, g.config.Clock.Now()) {
				row = g.expire(row)
			}
			if row.Phase == phase.Error && row.Cause == phase.ProvisioningTimedOut && !row.Reclaimed {
				g.reclaim(l, row)
			}
		}
	}
}

func expired(row record.Row, now time.Time) bool {
	return (row.Phase == phase.Provisioning || row.Phase == phase.Starting) && !row.Deadline.IsZero() && !now.Before(row.Deadline)
}

// expire ends the window of a row, unless it came to something meanwhile, and returns the row as it then is.
func (g *Gateway) expire(row record.Row) record.Row {
	expiredRow, err := g.change(row.ID, tries, func(now *record.Row) error {
		if !expired(*now, g.config.Clock.Now()) {
			return errUnchanged
		}
		ready := phase.Status{Conditions: now.Conditions}.Find("Ready")
		now.State = record.State{
			Phase: phase.Error, Cause: phase.ProvisioningTimedOut, Conditions: now.Conditions, Backend: now.Backend,
			Message: fmt.Sprintf("not ready within %s; last heard: %s %s", g.config.Timing.Provisioning, ready.Reason, ready.Message),
		}
		now.Before = nil
		return nil
	})
	if err != nil {
		return row // somebody changed it: the next tick looks again
	}
	return expiredRow
}

// reclaim begins to stop what a timed out sandbox left, once.
func (g *Gateway) reclaim(l *life, row record.Row) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reclaims[row.ID] {
		return
	}
	g.reclaims[row.ID] = true
	l.tasks.Go(func() {
		defer func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			delete(g.reclaims, row.ID)
		}()
		for g.reclaimOnce(l, row) && clock.Sleep(l.ctx, g.config.Clock, g.config.Timing.ReclaimRetry) == nil {
			now, err := g.records.Get(row.ID)
			if err != nil || now.Phase != phase.Error || now.Cause != phase.ProvisioningTimedOut {
				return
			}
		}
	})
}

// reclaimOnce reports whether it has to be tried again.
func (g *Gateway) reclaimOnce(l *life, row record.Row) (again bool) {
	ctx, cancel := clock.Limit(l.ctx, g.config.Clock, g.config.Timing.ReclaimTimeout)
	defer cancel()
	_, err := l.driver.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: row.ID, Name: row.Name})
	if err != nil && status.Code(err) != codes.NotFound {
		if l.ctx.Err() == nil {
			g.emit(about(row, ReclaimFailed, status.Code(err).String(), status.Convert(err).Message()))
		}
		return true
	}
	_, err = g.change(row.ID, tries, func(now *record.Row) error {
		if now.Phase != phase.Error || now.Cause != phase.ProvisioningTimedOut {
			return errUnchanged
		}
		now.Reclaimed = true
		return nil
	})
	switch {
	case errors.Is(err, record.ErrNotFound):
		return false
	case err != nil:
		g.emit(about(row, ReclaimFailed, "", err.Error()))
		return true
	}
	g.side.Drop(row.ID)
	g.emit(about(row, Reclaimed, "", ""))
	return false
}
