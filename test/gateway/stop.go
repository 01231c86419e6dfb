package gateway

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// Stop stops a Ready sandbox, or goes on with a stop. The stop goes on when ctx ends; only the waiting does not (contract 2.6).
func (g *Gateway) Stop(ctx context.Context, id string) error {
	l, leave, err := g.enter()
	if err != nil {
		return err
	}
	defer leave()
	row, err := g.records.Get(id)
	if err != nil {
		return rejected(err)
	}
	if err := mayStop(row); err != nil {
		return err
	}
	unlock, err := g.gates.lock(ctx, id)
	if err != nil {
		return status.FromContextError(err).Err()
	}
	row, err = g.change(id, tries, func(row *record.Row) error {
		if row.Phase == phase.Stopped {
			return errUnchanged // somebody else's stop, which we waited for
		}
		if err := mayStop(*row); err != nil {
			return err
		}
		if row.Phase != phase.Stopping {
			enterState(row, record.State{Phase: phase.Stopping, Conditions: row.Conditions, Backend: row.Backend})
		}
		return nil
	})
	if err != nil || row.Phase == phase.Stopped {
		unlock()
		return rejected(err)
	}
	return own(ctx, l, func(ctx context.Context) error {
		defer unlock()
		return g.stopAtDriver(ctx, l, row)
	})
}

func mayStop(row record.Row) error {
	if phase.MayStop(row.Phase) {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, "sandbox is %s: only a Ready one can be stopped", row.Phase)
}

// stopAtDriver ends a stop whose row is Stopping.
func (g *Gateway) stopAtDriver(ctx context.Context, l *life, row record.Row) error {
	_, err := l.driver.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: row.ID, Name: row.Name})
	if err == nil {
		_, err := g.change(row.ID, tries, func(now *record.Row) error {
			if now.Phase != phase.Stopping {
				return errUnchanged
			}
			settleStopped(now)
			return nil
		})
		g.side.Drop(row.ID)
		return rejected(err)
	}
	now, failed := g.recoverStop(l, row)
	switch {
	case failed != nil:
		return rejected(failed)
	case now.Phase == phase.Stopped:
		return nil
	default:
		return status.Errorf(codes.Internal, "stop sandbox failed: %s", status.Convert(err).Message())
	}
}

func settleStopped(row *record.Row) {
	row.State = record.State{Phase: phase.Stopped, Conditions: row.Conditions, Backend: row.Backend}
	row.Before = nil
}

// recoverStop looks what a stop that failed has left, and does what the table of contract 2.6 says.
func (g *Gateway) recoverStop(l *life, row record.Row) (record.Row, error) {
	found, lookup := g.look(l, row)
	return g.change(row.ID, tries, func(now *record.Row) error {
		if now.Phase != phase.Stopping {
			return errUnchanged
		}
		if lookup != nil {
			return errUnchanged
		}
		read, err := phase.FromDriver(found.GetStatus())
		if err != nil || !read.Known || phase.StillStopping(read) {
			return errUnchanged // what cannot be read is not known either
		}
		switch backend := phase.Backend(read); backend {
		case phase.Stopped, phase.Error:
			return g.see(now, found)
		case phase.Unknown:
			return errUnchanged
		default:
			restore(now)
		}
		return nil
	})
}
