package gateway

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/clock"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// sweepLoop sweeps every so often (contract 2.9).
func (g *Gateway) sweepLoop(l *life) {
	for clock.Sleep(l.ctx, g.config.Clock, g.config.Timing.Sweep) == nil {
		_ = g.sweep(l) // told as an event
	}
}

// Sweep does at once what is otherwise done every so often. The error joins everything that could not be done.
func (g *Gateway) Sweep() error {
	l, leave, err := g.enter()
	if err != nil {
		return err
	}
	defer leave()
	return g.sweep(l)
}

func (g *Gateway) sweep(l *life) error {
	err := errors.Join(g.reconcile(l), g.finishWorkspaces(l.ctx, l))
	e := Event{Kind: Swept}
	if err != nil {
		e.Message = err.Error()
	}
	g.emit(e)
	return err
}

// reconcile lists, reads every listed sandbox, and prunes what the driver proves it does not have.
func (g *Gateway) reconcile(l *life) error {
	answer, err := l.driver.ListSandboxes(l.ctx, &computev1.ListSandboxesRequest{})
	if err != nil {
		return fmt.Errorf("list the driver's sandboxes: %w", err)
	}
	listed := map[string]bool{}
	for _, sandbox := range answer.GetSandboxes() {
		listed[sandbox.GetId()] = true
	}
	rows, err := g.records.List()
	if err != nil {
		return err
	}
	var problems []error
	for _, row := range rows {
		if listed[row.ID] {
			err = g.refresh(l, row)
		} else {
			err = g.prune(l, row)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("sandbox %s: %w", row.ID, err))
		}
	}
	return errors.Join(problems...)
}

// refresh applies what GetSandbox says. A start that is under way is left alone.
func (g *Gateway) refresh(l *life, row record.Row) error {
	if row.Phase == phase.Deleting {
		return nil
	}
	if row.Phase == phase.Starting {
		unlock, ok := g.gates.tryLock(row.ID)
		if !ok {
			return nil
		}
		defer unlock()
	}
	found, err := fetch(l.ctx, l, row.ID, row.Name)
	if err != nil {
		return err
	}
	g.apply(row.ID, found)
	return nil
}

// prune gives up a row that is old enough and whose absence GetSandbox confirms.
func (g *Gateway) prune(l *life, row record.Row) error {
	if g.config.Clock.Now().Sub(row.CreatedAt) <= g.config.Timing.OrphanGrace {
		return nil
	}
	if _, err := fetch(l.ctx, l, row.ID, row.Name); status.Code(err) != codes.NotFound {
		return err
	}
	switch phase.Missing(row.Phase, row.Cause) {
	case phase.Fail:
		_, err := g.change(row.ID, 1, func(now *record.Row) error {
			if now.Version != row.Version {
				return errUnchanged // something happened meanwhile
			}
			now.State = record.State{
				Phase: phase.Error, Cause: phase.ComputeResourceMissing, Message: "the driver does not have it any more", Conditions: row.Conditions,
			}
			now.Before = nil
			return nil
		})
		if errors.Is(err, record.ErrConflict) {
			return nil // as above
		}
		return err
	case phase.Remove:
		removed, err := g.removeAt(row, "the driver does not have it")
		if removed {
			g.release(l, row)
		}
		return err
	default:
		return nil
	}
}
