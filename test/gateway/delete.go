package gateway

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/clock"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// Delete asks the driver to delete. When it returns, the row is gone, or Deleting until the watch reports the end (contract 2.6).
// It is allowed in every phase.
func (g *Gateway) Delete(ctx context.Context, id string) error {
	l, leave, err := g.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, done := during(ctx, l)
	defer done()
	unlock, err := g.gates.lock(ctx, id)
	if err != nil {
		return status.FromContextError(err).Err()
	}
	defer unlock()
	row, err := g.change(id, tries, markDeleting)
	if err != nil {
		return rejected(err)
	}
	return g.deleteAtDriver(ctx, l, row)
}

func markDeleting(row *record.Row) error {
	if row.Phase != phase.Deleting {
		enterState(row, record.State{Phase: phase.Deleting, Conditions: row.Conditions, Backend: row.Backend})
	}
	return nil
}

func (g *Gateway) deleteAtDriver(ctx context.Context, l *life, row record.Row) error {
	answer, err := l.driver.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: row.ID, Name: row.Name})
	switch {
	case err != nil:
		g.recoverDelete(l, row)
		return status.Errorf(codes.Internal, "delete sandbox failed: %s", status.Convert(err).Message())
	case answer.GetDeleted():
		g.side.Drop(row.ID)
		return nil
	default:
		return rejected(g.remove(row, "the driver has nothing to delete"))
	}
}

// recoverDelete looks what a delete that failed has left.
func (g *Gateway) recoverDelete(l *life, row record.Row) {
	found, lookup := g.look(l, row)
	var err error
	if status.Code(lookup) == codes.NotFound {
		err = g.remove(row, "the driver does not have it")
	} else {
		_, err = g.change(row.ID, tries, func(now *record.Row) error {
			if now.Phase != phase.Deleting || now.Run.Generation != row.Run.Generation {
				return errUnchanged
			}
			restore(now)
			if lookup == nil {
				_ = g.see(now, found) // what cannot be read changes nothing
			}
			return nil
		})
	}
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		g.emit(about(row, CompensationFailed, "", err.Error()))
	}
}

// look asks the driver what became of a sandbox behind a call that failed, for as long as contract 2.12 says, also when who
// called is gone.
func (g *Gateway) look(l *life, row record.Row) (*computev1.DriverSandbox, error) {
	ctx, cancel := clock.Limit(l.ctx, g.config.Clock, g.config.Timing.Recovery)
	defer cancel()
	found, err := fetch(ctx, l, row.ID, row.Name)
	g.emit(about(row, RecoveryAsked, seen(found, err), ""))
	return found, err
}

// seen names what a look-up showed.
func seen(found *computev1.DriverSandbox, err error) string {
	if err != nil {
		return status.Code(err).String()
	}
	read, err := phase.FromDriver(found.GetStatus())
	if err != nil {
		return err.Error()
	}
	return string(phase.Backend(read))
}

// fetch is GetSandbox with the checks of contract 2.6.
func fetch(ctx context.Context, l *life, id, name string) (*computev1.DriverSandbox, error) {
	answer, err := l.driver.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: id, Name: name})
	if err != nil {
		return nil, err
	}
	if got := answer.GetSandbox().GetId(); got != id {
		return nil, status.Errorf(codes.Internal, "the driver answered with sandbox %q when it was asked for %q", got, id)
	}
	return answer.GetSandbox(), nil
}
