package gateway

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// Start begins a new run, or goes on with a start; it returns when the driver has answered and the new runtime identity is
// stored (contract 2.6).
func (g *Gateway) Start(ctx context.Context, id string) (Sandbox, error) {
	l, leave, err := g.enter()
	if err != nil {
		return Sandbox{}, err
	}
	defer leave()
	ctx, done := during(ctx, l)
	defer done()
	unlock, err := g.gates.lock(ctx, id)
	if err != nil {
		return Sandbox{}, status.FromContextError(err).Err()
	}
	defer unlock()
	row, err := g.records.Get(id)
	if err != nil {
		return Sandbox{}, rejected(err)
	}
	if err := mayStart(row); err != nil {
		return Sandbox{}, err
	}
	// Before the row says anything: what is refused here leaves no trace (contract 2.4).
	if err := l.driver.Acknowledged(ctx); err != nil {
		return Sandbox{}, err
	}
	row, err = g.change(id, tries, g.beginRun)
	if err != nil {
		return Sandbox{}, rejected(err)
	}
	g.side.Drop(id) // of the former run
	bundle, err := g.bundle(row)
	if err != nil {
		return Sandbox{}, status.Error(codes.Internal, err.Error())
	}
	defer bundle.Wipe()
	launch := bundle.Expose() // for the driver
	defer clear(launch)
	row, err = g.startAtDriver(ctx, l, row, launch)
	return view(row), err
}

func mayStart(row record.Row) error {
	if phase.MayStart(row.Phase, row.Cause, row.Reclaimed) {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, "sandbox is %s %s: it cannot be started now", row.Phase, row.Cause)
}

// beginRun commits the identity of the new run together with the phase. A start that is under way keeps its own.
func (g *Gateway) beginRun(row *record.Row) error {
	if err := mayStart(*row); err != nil {
		return err
	}
	if row.Phase == phase.Starting {
		return errUnchanged
	}
	// What the driver said is about the former run.
	enterState(row, record.State{Phase: phase.Starting, Deadline: g.config.Clock.Now().Add(g.config.Timing.Provisioning).UTC()})
	row.Run.AuthEpoch++
	row.Run.SessionID, row.Run.Rotation = newUUID(), 1
	return nil
}

// startAtDriver ends a start whose row is Starting.
func (g *Gateway) startAtDriver(ctx context.Context, l *life, row record.Row, launch []byte) (record.Row, error) {
	answer, err := l.driver.StartSandbox(ctx, startRequest(row, launch))
	identity := answer.GetRuntimeIdentity()
	if status.Code(err) == codes.NotFound && row.Before != nil && row.Before.Cause == phase.ProvisioningTimedOut {
		identity, err = g.createAtDriver(ctx, l, row, false)
	}
	if err != nil {
		return g.recoverStart(l, row, err)
	}
	bound, err := g.bind(row, identity, l, true)
	if err != nil {
		g.compensateStart(l, row)
		return row, err
	}
	return bound, nil
}

func startRequest(row record.Row, launch []byte) *computev1.StartSandboxRequest {
	return &computev1.StartSandboxRequest{
		SandboxId: row.ID, Name: row.Name, LaunchAuthentication: launch, GenerationId: row.Run.Generation,
		ExpectedRuntimeIdentity: row.Annotations[record.AnnotationIdentity],
	}
}

// compensateStart stops what cannot be used and goes back (contract 2.6).
func (g *Gateway) compensateStart(l *life, row record.Row) {
	if _, err := l.driver.StopSandbox(l.ctx, &computev1.StopSandboxRequest{SandboxId: row.ID, Name: row.Name}); err != nil {
		g.emit(about(row, CompensationFailed, status.Code(err).String(), status.Convert(err).Message()))
	}
	if _, err := g.change(row.ID, tries, restoreRun(row)); err != nil && !errors.Is(err, record.ErrNotFound) {
		g.emit(about(row, CompensationFailed, "", err.Error()))
	}
}

// restoreRun goes back from the start of this run. The epoch is used up: the next start has a greater one.
func restoreRun(row record.Row) func(*record.Row) error {
	return func(now *record.Row) error {
		if now.Phase != phase.Starting || now.Run != row.Run {
			return errUnchanged
		}
		if now.Before == nil {
			now.Before = &record.State{Phase: phase.Stopped}
		}
		restore(now)
		return nil
	}
}

// recoverStart looks what a start that failed has left. The answer may have been lost behind a start that goes on: then the row
// stays Starting, and either a user starts again or the window ends.
func (g *Gateway) recoverStart(l *life, row record.Row, cause error) (record.Row, error) {
	found, lookup := g.look(l, row)
	restored, err := g.change(row.ID, tries, func(now *record.Row) error {
		if lookup == nil {
			read, err := phase.FromDriver(found.GetStatus())
			if backend := phase.Backend(read); err == nil && (backend == phase.Ready || backend == phase.Provisioning) {
				return errUnchanged
			}
		}
		return restoreRun(row)(now)
	})
	if err != nil {
		return row, rejected(errors.Join(cause, err))
	}
	switch status.Code(cause) {
	case codes.FailedPrecondition, codes.NotFound:
		return restored, cause
	default:
		return restored, status.Errorf(codes.Internal, "start sandbox failed: %s", status.Convert(cause).Message())
	}
}
