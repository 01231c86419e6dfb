package gateway

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// EnsureWorkspace makes a workspace usable. The driver's errors come through as they are; UNIMPLEMENTED is success (contract 2.6).
func (g *Gateway) EnsureWorkspace(ctx context.Context, name string) error {
	l, leave, err := g.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, done := during(ctx, l)
	defer done()
	return g.ensure(ctx, l, name)
}

func (g *Gateway) ensure(ctx context.Context, l *life, name string) error {
	if w, known, err := g.workspace(name); err != nil {
		return err
	} else if known && w.Terminating {
		return status.Errorf(codes.FailedPrecondition, "workspace %q is being deleted", name)
	}
	_, err := l.driver.EnsureWorkspace(ctx, &computev1.EnsureWorkspaceRequest{Workspace: name})
	if err != nil && status.Code(err) != codes.Unimplemented {
		return err
	}
	if err := g.records.PutWorkspace(record.Workspace{Name: name}); err != nil {
		return rejected(err)
	}
	g.emit(Event{Kind: WorkspaceEnsured, Workspace: name})
	return nil
}

// useWorkspace ensures a workspace that the gateway has no record of.
func (g *Gateway) useWorkspace(ctx context.Context, l *life, name string) error {
	if w, known, err := g.workspace(name); err != nil || known && !w.Terminating {
		return err
	}
	return g.ensure(ctx, l, name)
}

func (g *Gateway) workspace(name string) (w record.Workspace, known bool, err error) {
	all, err := g.records.Workspaces()
	for _, one := range all {
		if one.Name == name {
			return one, true, nil
		}
	}
	return record.Workspace{}, false, rejected(err)
}

// Workspaces returns all workspaces that the gateway knows, by name.
func (g *Gateway) Workspaces() ([]record.Workspace, error) {
	all, err := g.records.Workspaces()
	return all, rejected(err)
}

// DeleteWorkspace deletes a workspace without sandboxes. When the driver fails, its error comes through and the workspace stays
// Terminating; every sweep tries again (contract 2.6).
func (g *Gateway) DeleteWorkspace(ctx context.Context, name string) error {
	l, leave, err := g.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, done := during(ctx, l)
	defer done()
	rows, err := g.records.List()
	if err != nil {
		return rejected(err)
	}
	for _, row := range rows {
		if row.Workspace == name {
			return status.Errorf(codes.FailedPrecondition, "workspace %q still has sandbox %q", name, row.Name)
		}
	}
	if err := g.records.PutWorkspace(record.Workspace{Name: name, Terminating: true}); err != nil {
		return rejected(err)
	}
	return g.finishWorkspace(ctx, l, name)
}

func (g *Gateway) finishWorkspace(ctx context.Context, l *life, name string) error {
	_, err := l.driver.DeleteWorkspace(ctx, &computev1.DeleteWorkspaceRequest{Workspace: name})
	if err != nil && status.Code(err) != codes.Unimplemented {
		return err
	}
	if err := g.records.RemoveWorkspace(name); err != nil {
		return rejected(err)
	}
	g.emit(Event{Kind: WorkspaceDeleted, Workspace: name})
	return nil
}

// finishWorkspaces goes on with what is Terminating.
func (g *Gateway) finishWorkspaces(ctx context.Context, l *life) error {
	all, err := g.records.Workspaces()
	problems := []error{err}
	for _, w := range all {
		if w.Terminating {
			problems = append(problems, g.finishWorkspace(ctx, l, w.Name))
		}
	}
	return errors.Join(problems...)
}
