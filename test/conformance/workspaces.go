package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// hostileWorkspaces cannot be the name of a namespace or of a part of one.
var hostileWorkspaces = map[string]string{
	"path": "../kube-system", "capitals": "Team", "long": strings.Repeat("w", 64), "huge": strings.Repeat("w", 1<<20),
	"nul": "team\x00", "newline": "team\n", "space": " team", "dash": "-team", "slash": "a/b", "unicode": "te\u0430m",
}

func workspaceChecks() []Check {
	all := []Check{
		{
			ID: "workspace.nothing", Section: "2.7", Required: true, run: ensuresNothing,
			Says:   "EnsureWorkspace and DeleteWorkspace without a workspace are INVALID_ARGUMENT",
			Breaks: "a defect of the gateway passes for success",
		},
		{
			ID: "workspace.again", Section: "2.6", Required: true, run: ensuresAgain,
			Says:   "EnsureWorkspace can be repeated, also at once",
			Breaks: "a workspace works for its first user only",
		},
		{
			ID: "workspace.forbidden", Section: "2.7", Required: true, needs: []ability{canForbid}, run: ensuresForbidden,
			Says:   "EnsureWorkspace of a workspace that may not be used is PERMISSION_DENIED, and nothing is made",
			Breaks: "credentials are written into a namespace that only has the workspace's name",
		},
		{
			ID: "workspace.delete-absent", Section: "2.6", Required: true, run: deletesNoWorkspace,
			Says:   "DeleteWorkspace of a workspace that is not there is OK, again and again",
			Breaks: "the workspace stays Terminating for ever",
		},
		{
			ID: "workspace.delete", Section: "2.6", Required: true, run: deletesWorkspace,
			Says: "DeleteWorkspace of a workspace that was made is OK, or UNAVAILABLE while what it had is still going, and OK in the end; " +
				"EnsureWorkspace meanwhile is OK or UNAVAILABLE",
			Breaks: "the workspace stays Terminating for ever, or is used while it is going",
		},
		{
			ID: "workspace.field", Section: "2.6", run: refusesWorkspaceSayingWhere,
			Says:   "the refusal of what is no name names the field workspace, and is no longer than a header may be",
			Breaks: "nobody knows from it what to mend",
		},
	}
	for name, workspace := range hostileWorkspaces {
		all = append(all, Check{
			ID: "workspace.hostile." + name, Section: "2.7", Required: true, run: ensuring(workspace),
			Says:   "EnsureWorkspace of what is no name is refused, and DeleteWorkspace of it is refused too or finds nothing; neither is INTERNAL",
			Breaks: "the gateway believes in a workspace that no sandbox can be created in, or that is another's; or it asks again for ever",
		})
	}
	return ordered(all)
}

func (p *probe) ensure(ctx context.Context, workspace string) error {
	_, err := p.driver.EnsureWorkspace(ctx, &computev1.EnsureWorkspaceRequest{Workspace: workspace})
	return err
}

func ensuresNothing(ctx context.Context, p *probe) error {
	_, err := p.driver.DeleteWorkspace(ctx, &computev1.DeleteWorkspaceRequest{})
	return errors.Join(
		expect("EnsureWorkspace", p.ensure(ctx, ""), codes.InvalidArgument, codes.Unimplemented),
		expect("DeleteWorkspace", err, codes.InvalidArgument, codes.Unimplemented),
	)
}

func ensuresAgain(ctx context.Context, p *probe) error {
	const callers = 4
	again := func(int) error {
		return expect("EnsureWorkspace", p.ensure(ctx, p.workspace), codes.OK, codes.Unimplemented)
	}
	return errors.Join(together(callers, again), again(callers))
}

func ensuresForbidden(ctx context.Context, p *probe) error {
	forbidder, ok := p.target.(Forbidder)
	if !ok {
		return errors.New("the target has no forbidden workspace")
	}
	workspace, err := forbidder.Forbidden(ctx)
	if err != nil {
		return fmt.Errorf("a forbidden workspace could not be had: %w", err)
	}
	p.workspace = workspace
	return errors.Join(expect("EnsureWorkspace", p.ensure(ctx, workspace), codes.PermissionDenied), p.nothing(ctx, ""))
}

func deletesNoWorkspace(ctx context.Context, p *probe) error {
	workspace := "c" + hexadecimal(5)
	const times = 2
	for range times {
		_, err := p.driver.DeleteWorkspace(ctx, &computev1.DeleteWorkspaceRequest{Workspace: workspace})
		if err := expect("DeleteWorkspace", err, codes.OK, codes.Unimplemented); err != nil {
			return err
		}
	}
	return nil
}

// deletesWorkspace works on a workspace that nobody uses. Where workspaces are not for the driver to make, EnsureWorkspace may refuse it; there is
// nothing to delete then, which the driver has to say.
func deletesWorkspace(ctx context.Context, p *probe) error {
	workspace := "c" + hexadecimal(5)
	err := p.ensure(ctx, workspace)
	if err := expect("EnsureWorkspace", err, codes.OK, codes.Unimplemented, codes.PermissionDenied); err != nil {
		return err
	}
	remove := func() error {
		_, err := p.driver.DeleteWorkspace(ctx, &computev1.DeleteWorkspaceRequest{Workspace: workspace})
		return err
	}
	if err := expect("DeleteWorkspace", remove(), codes.OK, codes.Unimplemented); err != nil {
		return err
	}
	err = remove()
	if err := expect("DeleteWorkspace again", err, codes.OK, codes.Unimplemented, codes.Unavailable); err != nil {
		return err
	}
	err = p.ensure(ctx, workspace)
	if err := expect("EnsureWorkspace right after the delete", err, codes.OK, codes.Unimplemented, codes.PermissionDenied, codes.Unavailable); err != nil {
		return err
	}
	return p.eventually(ctx, "DeleteWorkspace is OK", func() error { return expect("DeleteWorkspace", remove(), codes.OK, codes.Unimplemented) })
}

// ensuring leaves open which refusal it is: the original's is that of the mode it is in. INTERNAL is none: it says to try again.
func ensuring(workspace string) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		refused := []codes.Code{codes.InvalidArgument, codes.PermissionDenied, codes.FailedPrecondition, codes.Unimplemented, codes.ResourceExhausted}
		_, err := p.driver.DeleteWorkspace(ctx, &computev1.DeleteWorkspaceRequest{Workspace: workspace})
		return errors.Join(expect("EnsureWorkspace", p.ensure(ctx, workspace), refused...), expect("DeleteWorkspace", err, append(refused, codes.OK)...))
	}
}

func refusesWorkspaceSayingWhere(ctx context.Context, p *probe) error {
	var problems []error
	for _, workspace := range append(slices.Collect(maps.Values(hostileWorkspaces)), "") {
		ensured := p.ensure(ctx, workspace)
		_, deleted := p.driver.DeleteWorkspace(ctx, &computev1.DeleteWorkspaceRequest{Workspace: workspace})
		for call, err := range map[string]error{"EnsureWorkspace": ensured, "DeleteWorkspace": deleted} {
			if status.Code(err) == codes.InvalidArgument {
				problems = append(problems, saysWhere(call, err, "workspace"))
			}
		}
	}
	return errors.Join(problems...)
}
