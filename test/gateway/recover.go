package gateway

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// recover finishes what a former process left (contract 2.6, startup recovery).
func (g *Gateway) recover(l *life) {
	rows, err := g.records.List()
	if err != nil {
		g.config.Log.Error().Err(err).Msg("read what a former process left")
		return
	}
	for _, row := range rows {
		var finish func(record.Row)
		switch row.Phase {
		case phase.Stopping:
			finish = func(row record.Row) { _ = g.stopAtDriver(l.ctx, l, row) } // the row says what came of it
		case phase.Starting:
			finish = func(row record.Row) { g.recoverStarting(l, row) }
		case phase.Deleting:
			finish = func(row record.Row) { _ = g.deleteAtDriver(l.ctx, l, row) } // as above
		default:
			continue
		}
		l.tasks.Go(func() {
			unlock, err := g.gates.lock(l.ctx, row.ID)
			if err != nil {
				return
			}
			defer unlock()
			if now, err := g.records.Get(row.ID); err == nil && now.Phase == row.Phase {
				finish(now)
			}
		})
	}
	if err := g.finishWorkspaces(l.ctx, l); err != nil && l.ctx.Err() == nil {
		g.config.Log.Warn().Err(err).Msg("go on with deleting workspaces")
	}
}

// recoverStarting asks for a start with an empty bundle. A driver that needs the bundle refuses with FAILED_PRECONDITION, and the
// row waits for a user.
func (g *Gateway) recoverStarting(l *life, row record.Row) {
	if err := l.driver.Acknowledged(l.ctx); err != nil {
		g.emit(about(row, StartRecoveryRefused, status.Code(err).String(), status.Convert(err).Message()))
		return
	}
	answer, err := l.driver.StartSandbox(l.ctx, startRequest(row, nil))
	if err != nil {
		g.emit(about(row, StartRecoveryRefused, status.Code(err).String(), status.Convert(err).Message()))
		return
	}
	if _, err := g.bind(row, answer.GetRuntimeIdentity(), l, true); err != nil && status.Code(err) != codes.Aborted {
		g.compensateStart(l, row)
	}
}
