package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

func collisionChecks() []Check {
	const taken = "one sandbox takes the place of another, or ends it"
	return []Check{
		{
			ID: "collide.companion", Section: "4.2", Required: true, run: namedAsCompanion, Breaks: taken,
			Says: "a sandbox with the name of another's companion is refused or gets a name of its own, and the other is not harmed",
		},
		{
			ID: "collide.composed", Section: "4.1", Required: true, run: composedAlike, Breaks: taken,
			Says: "workspaces and names that compose into one (a with b--c, a--b with c) are two sandboxes, or the second is refused",
		},
		{
			ID: "collide.case", Section: "4.2", Required: true, run: spelledOtherwise, Breaks: taken,
			Says: "an id that differs only in its letters' case is another sandbox or is refused; its create, stop and delete do not harm the first",
		},
	}
}

// beside creates another sandbox beside one that runs: it may be refused, and must not harm the first.
func (p *probe) beside(ctx context.Context, b *box, change func(*computev1.DriverSandbox)) error {
	wish, err := p.wish()
	if err != nil {
		return err
	}
	change(wish)
	p.noted(wish.GetId())
	_, err = p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
	if err := expect("CreateSandbox", err, codes.OK, codes.AlreadyExists, codes.InvalidArgument, codes.FailedPrecondition); err != nil {
		return err
	}
	if err == nil {
		got, err := p.get(ctx, wish.GetId())
		if err != nil {
			return fmt.Errorf("GetSandbox of the second: %w", err)
		}
		if err := same(&box{wish: wish, id: wish.GetId()}, got); err != nil {
			return fmt.Errorf("the second sandbox: %w", err)
		}
	}
	return p.unharmed(ctx, b)
}

func namedAsCompanion(ctx context.Context, p *probe) error {
	b, err := p.neighbour(ctx)
	if err != nil {
		return err
	}
	for _, prefix := range []string{"os-supervisor-", "os-boundary-"} {
		if err := p.beside(ctx, b, func(s *computev1.DriverSandbox) { s.Name = prefix + b.id }); err != nil {
			return fmt.Errorf("a sandbox named %s and the id: %w", prefix, err)
		}
	}
	return nil
}

func composedAlike(ctx context.Context, p *probe) error {
	for _, separator := range []string{"-", "--"} {
		part := "c" + hexadecimal(2)
		wish, err := p.wish()
		if err != nil {
			return err
		}
		wish.Name = part + separator + "x"
		answer, err := p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
		if err != nil {
			return fmt.Errorf("CreateSandbox: %w", err)
		}
		b := &box{wish: wish, id: wish.GetId(), identity: answer.GetRuntimeIdentity()}
		if err := p.reach(ctx, b.id, phase.Ready); err != nil {
			return err
		}
		other := p.workspace + separator + part
		err = p.beside(ctx, b, func(s *computev1.DriverSandbox) { s.Workspace, s.Name = other, "x" })
		_, gone := p.driver.DeleteWorkspace(ctx, &computev1.DeleteWorkspaceRequest{Workspace: other})
		if gone != nil && status.Code(gone) != codes.Unimplemented {
			err = errors.Join(err, fmt.Errorf("DeleteWorkspace: %w", gone))
		}
		if err != nil {
			return fmt.Errorf("with %q between workspace and name: %w", separator, err)
		}
	}
	return nil
}

func spelledOtherwise(ctx context.Context, p *probe) error {
	b, err := p.neighbour(ctx)
	if err != nil {
		return err
	}
	shouted := strings.ToUpper(b.id)
	if err := p.beside(ctx, b, func(s *computev1.DriverSandbox) { s.Id = shouted }); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	_, err = p.driver.StopSandbox(ctx, &computev1.StopSandboxRequest{SandboxId: shouted})
	if err := errors.Join(expect("StopSandbox", err, codes.OK, codes.NotFound, codes.InvalidArgument), p.unharmed(ctx, b)); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	_, err = p.driver.DeleteSandbox(ctx, &computev1.DeleteSandboxRequest{SandboxId: shouted})
	if err := errors.Join(expect("DeleteSandbox", err, codes.OK, codes.InvalidArgument), p.unharmed(ctx, b)); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return nil
}
