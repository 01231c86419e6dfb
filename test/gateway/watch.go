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

// watch keeps a stream open, for ever (contract 2.8).
func (g *Gateway) watch(l *life) {
	for l.ctx.Err() == nil {
		g.emit(Event{Kind: WatchOpened})
		err := g.follow(l)
		if l.ctx.Err() != nil {
			return
		}
		g.emit(Event{Kind: WatchEnded, Reason: status.Code(err).String(), Message: status.Convert(err).Message()})
		if clock.Sleep(l.ctx, g.config.Clock, g.config.Timing.WatchReopen) != nil {
			return
		}
	}
}

// follow takes events one after the other until the stream ends. Who is slow here slows the driver down, as a gateway does.
func (g *Gateway) follow(l *life) error {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	stream, err := l.driver.WatchSandboxes(ctx, &computev1.WatchSandboxesRequest{})
	if err != nil {
		return err
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		switch payload := event.GetPayload().(type) {
		case *computev1.WatchSandboxesEvent_Sandbox:
			g.snapshot(ctx, l, payload.Sandbox.GetSandbox())
		case *computev1.WatchSandboxesEvent_Deleted:
			g.deleted(l, payload.Deleted.GetSandboxId())
		case *computev1.WatchSandboxesEvent_PlatformEvent:
			g.platform(payload.PlatformEvent)
		default: // of a newer driver
		}
	}
}

// snapshot applies what the watch tells of a sandbox, with one try: a lost race is repaired by the next one.
func (g *Gateway) snapshot(ctx context.Context, l *life, found *computev1.DriverSandbox) {
	id := found.GetId()
	row, err := g.records.Get(id)
	if err != nil {
		g.emit(Event{Kind: Ignored, SandboxID: id, Name: found.GetName(), Reason: "Unknown", Message: err.Error()})
		return
	}
	switch row.Phase {
	case phase.Deleting:
		g.emit(about(row, Ignored, "Deleting", "a snapshot of what is being deleted"))
		return
	case phase.Starting:
		// It may be of the former run, and the start may be under way: what is true behind it counts.
		unlock, err := g.gates.lock(ctx, id)
		if err != nil {
			return
		}
		defer unlock()
		if found, err = fetch(ctx, l, id, row.Name); err != nil {
			g.emit(about(row, Ignored, status.Code(err).String(), "a snapshot of what is starting, which could not be read again"))
			return
		}
	default:
	}
	g.apply(id, found)
}

// apply applies a snapshot once.
func (g *Gateway) apply(id string, found *computev1.DriverSandbox) {
	row, err := g.change(id, 1, func(row *record.Row) error { return g.see(row, found) })
	if err == nil || errors.Is(err, record.ErrNotFound) {
		return
	}
	reason := "Unreadable"
	if errors.Is(err, record.ErrConflict) {
		reason = "LostRace"
	}
	g.emit(Event{Kind: Ignored, SandboxID: id, Workspace: row.Workspace, Name: found.GetName(), Reason: reason, Message: err.Error()})
}

// deleted removes the row and releases what the sandbox may have left, unless a request is at it (contract 2.8).
func (g *Gateway) deleted(l *life, id string) {
	row, err := g.records.Get(id)
	if err != nil {
		g.emit(Event{Kind: Ignored, SandboxID: id, Reason: "Unknown", Message: err.Error()})
		return
	}
	if row.Phase == phase.Error && row.Cause == phase.ProvisioningTimedOut {
		g.emit(about(row, Ignored, string(row.Cause), "the end of what timed out: it may be started again"))
		return
	}
	if err := g.remove(row, "the driver deleted it"); err != nil {
		g.emit(about(row, Ignored, "Unwritable", err.Error()))
		return
	}
	g.release(l, row)
}

// release calls DeleteSandbox for what is gone, in the background.
func (g *Gateway) release(l *life, row record.Row) {
	unlock, ok := g.gates.tryLock(row.ID)
	if !ok {
		return
	}
	l.tasks.Go(func() {
		defer unlock()
		_, err := l.driver.DeleteSandbox(l.ctx, &computev1.DeleteSandboxRequest{SandboxId: row.ID, Name: row.Name})
		if err != nil && status.Code(err) != codes.Canceled {
			g.emit(about(row, ReleaseFailed, status.Code(err).String(), status.Convert(err).Message()))
		}
	})
}

func (g *Gateway) platform(told *computev1.WatchSandboxesPlatformEvent) {
	e := Event{Kind: Platform, SandboxID: told.GetSandboxId(), Reason: told.GetEvent().GetReason(), Message: told.GetEvent().GetMessage(), Platform: told.GetEvent()}
	if row, err := g.records.Get(e.SandboxID); err == nil {
		e.Workspace, e.Name = row.Workspace, row.Name
	}
	g.emit(e)
}
