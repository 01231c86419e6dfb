package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

func startChecks() []Check {
	refused, invalid := codes.FailedPrecondition, codes.InvalidArgument
	const leak = "a run without its credentials, or a sandbox that is not the one of the record"
	return []Check{
		{
			ID: "start.nothing", Section: "2.7", Required: true, run: startsNothing,
			Says: "a start without a sandbox_id is INVALID_ARGUMENT", Breaks: "the caller learns nothing of use",
		},
		{
			ID: "start.absent", Section: "2.6", Required: true, run: startsAbsent,
			Says:   "the start of a sandbox that was deleted is NOT_FOUND",
			Breaks: "the gateway does not create it again, and the row stays in Starting",
		},
		{
			ID: "start.no-bundle", Section: "15.10", Required: true, needs: []ability{wantsBundle}, Breaks: leak,
			Says: "a start without launch credentials, as a gateway recovers one, is FAILED_PRECONDITION, and the sandbox stays stopped",
			run:  refuses(func(r *computev1.StartSandboxRequest) { r.LaunchAuthentication = nil }, refused),
		},
		{
			ID: "start.bad-bundle", Section: "7.11", Required: true, needs: []ability{wantsBundle}, Breaks: leak,
			Says: "a start with launch credentials that are none is FAILED_PRECONDITION, and the sandbox stays stopped",
			run:  refuses(func(r *computev1.StartSandboxRequest) { r.LaunchAuthentication = []byte("{}") }, refused),
		},
		{
			ID: "start.no-identity", Section: "7.11", Required: true, needs: []ability{authenticates}, Breaks: leak,
			Says: "a start without expected_runtime_identity is FAILED_PRECONDITION, and the sandbox stays stopped",
			run:  refuses(func(r *computev1.StartSandboxRequest) { r.ExpectedRuntimeIdentity = "" }, refused),
		},
		{
			ID: "start.other-identity", Section: "7.11", Required: true, needs: []ability{authenticates}, Breaks: leak,
			Says: "a start that expects another sandbox's identity is FAILED_PRECONDITION, and the sandbox stays stopped",
			run:  startsStranger,
		},
		{
			ID: "start.bad-identity", Section: "7.11", Required: true, needs: []ability{authenticates}, Breaks: leak,
			Says: "a start that expects what is no identity is FAILED_PRECONDITION, and the sandbox stays stopped",
			run:  refuses(func(r *computev1.StartSandboxRequest) { r.ExpectedRuntimeIdentity = "kubernetes://../../x" }, refused),
		},
		{
			ID: "start.no-generation", Section: "7.11", Required: true, needs: []ability{wantsBundle}, Breaks: leak,
			Says: "a start without generation_id is INVALID_ARGUMENT or FAILED_PRECONDITION, and the sandbox stays stopped",
			run:  refuses(func(r *computev1.StartSandboxRequest) { r.GenerationId = "" }, invalid, refused),
		},
		{
			ID: "start.bad-generation", Section: "7.11", Required: true, needs: []ability{wantsBundle}, Breaks: leak,
			Says: "a start with a generation_id of other characters than a-z, 0-9 and '-' is INVALID_ARGUMENT or FAILED_PRECONDITION, and the sandbox stays stopped",
			run:  refuses(func(r *computev1.StartSandboxRequest) { r.GenerationId = "../G_1" }, invalid, refused),
		},
		{
			ID: "start.long-generation", Section: "7.11", Required: true, needs: []ability{wantsBundle}, Breaks: leak,
			Says: "a start with a generation_id of more than 64 characters is INVALID_ARGUMENT or FAILED_PRECONDITION, and the sandbox stays stopped",
			run:  refuses(func(r *computev1.StartSandboxRequest) { r.GenerationId = strings.Repeat("g", 65) }, invalid, refused),
		},
		{
			ID: "start.identity", Section: "2.13", Required: true, needs: []ability{authenticates}, run: rotates,
			Says:   "each start gives a new identity, and the sandbox comes to be Ready",
			Breaks: "the gateway stops the sandbox again, or lets the supervisor of the former run in",
		},
		{
			ID: "start.again", Section: "15.10", Required: true, needs: []ability{wantsBundle}, run: startsOnce,
			Says:   "a start that is repeated with the same credentials gives the same identity, and the run goes on",
			Breaks: "a gateway that lost the answer restarts the sandbox, and may bind the identity of a run that is over",
		},
		{
			ID: "start.concurrent", Section: "2.6", Required: true, needs: []ability{wantsBundle}, run: startsTogether,
			Says:   "of many starts with the same credentials at once all that succeed give the identity of the run that there is",
			Breaks: "the identity that is bound is of a run that was replaced: no token is issued",
		},
	}
}

func startsNothing(ctx context.Context, p *probe) error {
	bundle, err := p.bundle(uuid())
	if err != nil {
		return err
	}
	_, err = p.driver.StartSandbox(ctx, &computev1.StartSandboxRequest{LaunchAuthentication: bundle, GenerationId: generation})
	return expect("StartSandbox", err, codes.InvalidArgument)
}

func startsAbsent(ctx context.Context, p *probe) error {
	b, err := p.oneDeleted(ctx)
	if err != nil {
		return err
	}
	request, err := p.starting(b)
	if err != nil {
		return err
	}
	_, err = p.driver.StartSandbox(ctx, request)
	return expect("StartSandbox", err, codes.NotFound)
}

// refuses starts a stopped sandbox with a request that was changed.
func refuses(change func(*computev1.StartSandboxRequest), want ...codes.Code) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		b, err := p.oneStopped(ctx)
		if err != nil {
			return err
		}
		request, err := p.starting(b)
		if err != nil {
			return err
		}
		change(request)
		return p.refusedStart(ctx, request, want...)
	}
}

// refusedStart makes a start that has to be refused, and looks whether the sandbox is still stopped.
func (p *probe) refusedStart(ctx context.Context, request *computev1.StartSandboxRequest, want ...codes.Code) error {
	_, err := p.driver.StartSandbox(ctx, request)
	if err := expect("StartSandbox", err, want...); err != nil {
		return err
	}
	got, err := p.phase(ctx, request.GetSandboxId())
	if err == nil && got != phase.Stopped {
		err = fmt.Errorf("the sandbox is %s afterwards", got)
	}
	return err
}

func startsStranger(ctx context.Context, p *probe) error {
	b, err := p.oneStopped(ctx)
	if err != nil {
		return err
	}
	other, err := p.create(ctx)
	if err != nil {
		return err
	}
	request, err := p.starting(b)
	if err != nil {
		return err
	}
	request.ExpectedRuntimeIdentity = other.identity
	return p.refusedStart(ctx, request, codes.FailedPrecondition)
}

func rotates(ctx context.Context, p *probe) error {
	b, err := p.stopped(ctx)
	if err != nil {
		return err
	}
	seen := map[string]bool{b.identity: true}
	const runs = 2
	for range runs {
		if err := p.start(ctx, b); err != nil {
			return err
		}
		if b.identity == "" || seen[b.identity] {
			return fmt.Errorf("StartSandbox answered with the identity %q, after %d others", b.identity, len(seen))
		}
		seen[b.identity] = true
		if err := p.reach(ctx, b.id, phase.Ready); err != nil {
			return err
		}
		if len(seen) <= runs {
			if err := p.stop(ctx, b.id); err != nil {
				return err
			}
		}
	}
	return nil
}

func startsOnce(ctx context.Context, p *probe) error {
	b, err := p.stopped(ctx)
	if err != nil {
		return err
	}
	request, err := p.starting(b)
	if err != nil {
		return err
	}
	first, err := p.driver.StartSandbox(ctx, request)
	if err != nil {
		return fmt.Errorf("StartSandbox: %w", err)
	}
	if err := p.reach(ctx, b.id, phase.Ready); err != nil {
		return err
	}
	// What the gateway has stored may be the identity of before, or the new one.
	for _, expected := range []string{b.identity, first.GetRuntimeIdentity()} {
		request.ExpectedRuntimeIdentity = expected
		again, err := p.driver.StartSandbox(ctx, request)
		switch {
		case err != nil:
			return fmt.Errorf("StartSandbox again: %w", err)
		case again.GetRuntimeIdentity() != first.GetRuntimeIdentity():
			return fmt.Errorf("first %q, then %q", first.GetRuntimeIdentity(), again.GetRuntimeIdentity())
		}
	}
	return p.unharmed(ctx, b)
}

func startsTogether(ctx context.Context, p *probe) error {
	b, err := p.stopped(ctx)
	if err != nil {
		return err
	}
	request, err := p.starting(b)
	if err != nil {
		return err
	}
	const callers = 4
	answers := make([]string, callers)
	failures := together(callers, func(i int) error {
		answer, err := p.driver.StartSandbox(ctx, request)
		answers[i] = answer.GetRuntimeIdentity()
		return err
	})
	given := map[string]bool{}
	for _, answer := range answers {
		if answer != "" {
			given[answer] = true
		}
	}
	if len(given) != 1 {
		return errors.Join(fmt.Errorf("%d calls gave %d different identities", callers, len(given)), failures)
	}
	return p.reach(ctx, b.id, phase.Ready)
}
