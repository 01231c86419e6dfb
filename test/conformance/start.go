package conformance

import (
	"bytes"
	"context"
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
			ID: "start.huge-generation", Section: "7.11", Required: true, needs: []ability{wantsBundle}, Breaks: leak,
			Says: "a start with a generation_id of a megabyte is INVALID_ARGUMENT or FAILED_PRECONDITION, and the sandbox stays stopped",
			run:  refuses(func(r *computev1.StartSandboxRequest) { r.GenerationId = strings.Repeat("g", huge) }, invalid, refused),
		},
		{
			ID: "start.huge-bundle", Section: "13.2", Required: true, needs: []ability{wantsBundle}, Breaks: leak,
			Says: "a start with a megabyte for launch credentials is FAILED_PRECONDITION or INVALID_ARGUMENT, and the sandbox stays stopped",
			run:  refuses(func(r *computev1.StartSandboxRequest) { r.LaunchAuthentication = bytes.Repeat([]byte("x"), huge) }, invalid, refused),
		},
		{
			ID: "start.huge-identity", Section: "7.11", Required: true, needs: []ability{authenticates}, Breaks: leak,
			Says: "a start that expects a megabyte for an identity is FAILED_PRECONDITION or INVALID_ARGUMENT, and the sandbox stays stopped",
			run:  refuses(func(r *computev1.StartSandboxRequest) { r.ExpectedRuntimeIdentity += strings.Repeat("/", huge) }, invalid, refused),
		},
		{
			ID: "start.fields", Section: "2.6", needs: []ability{authenticates, wantsBundle}, run: startsSayingWhere,
			Says:   "the refusal of a start names the field, and is no longer than a header may be",
			Breaks: "nobody knows from it what to mend",
		},
		{
			ID: "start.identity", Section: "2.13", Required: true, needs: []ability{authenticates}, run: rotates,
			Says:   "each start gives a new identity, and the sandbox comes to be Ready",
			Breaks: "the gateway stops the sandbox again, or lets the supervisor of the former run in",
		},
		{
			ID: "start.shown", Section: "2.8", Required: true, run: startsVisibly,
			Says:   "once StartSandbox has answered, neither GetSandbox nor the list nor a new watch shows the stop before it",
			Breaks: "a gateway that asks because a snapshot came during the start takes the sandbox for Stopped",
		},
		{
			ID: "start.running", Section: "7.11", Required: true, needs: []ability{authenticates, wantsBundle}, run: startsOver,
			Says:   "the start of a sandbox that runs, with credentials of another session and epoch, ends the run and begins a new one, with a new identity",
			Breaks: "the supervisor has credentials that the gateway has replaced, or the sandbox cannot be started again",
		},
		{
			ID: "start.generation", Section: "2.6", needs: []ability{authenticates, wantsBundle}, run: repeats(withAnotherGeneration()),
			Says:   "a start that is repeated with the same credentials and another generation_id is still the same run: session and epoch tell runs apart",
			Breaks: "a start that is repeated after the row was written ends the run that it began",
		},
		{
			ID: "start.after-failure", Section: "2.13", Required: true, needs: []ability{authenticates, wantsBundle}, run: startsAfterFailure,
			Says:   "after starts that were refused and cut short, one that expects the identity from before them succeeds: that is the one that is stored",
			Breaks: "the sandbox cannot be started any more",
		},
		{
			ID: "start.again", Section: "15.10", Required: true, needs: []ability{wantsBundle}, run: repeats(withAnyIdentity()...),
			Says:   "a start that is repeated with the same credentials gives the same identity, and the run goes on",
			Breaks: "a gateway that lost the answer restarts the sandbox, and may bind the identity of a run that is over",
		},
		{
			ID: "start.concurrent", Section: "2.6", Required: true, needs: []ability{wantsBundle}, run: startsTogether,
			Says: "many starts with the same credentials at once all give the identity of the run that there is, or say to try again (UNAVAILABLE, ABORTED), " +
				"and the next try gives it",
			Breaks: "the identity that is bound is of a run that was replaced: no token is issued; or a sandbox that runs is taken for one that failed",
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
	other, err := p.oneUp(ctx)
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

// repetition is a start that is made again, with the request as change leaves it, which is told the identity that the first one gave.
type repetition struct {
	how    string
	change func(request *computev1.StartSandboxRequest, first string)
}

// repeats starts a stopped sandbox, and then again: all starts give the same identity, and the run goes on.
func repeats(all ...repetition) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
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
		for _, one := range all {
			one.change(request, first.GetRuntimeIdentity())
			again, err := p.driver.StartSandbox(ctx, request)
			switch {
			case err != nil:
				return fmt.Errorf("StartSandbox again, with %s: %w", one.how, err)
			case again.GetRuntimeIdentity() != first.GetRuntimeIdentity():
				return fmt.Errorf("first %q, then, with %s, %q", first.GetRuntimeIdentity(), one.how, again.GetRuntimeIdentity())
			}
		}
		return p.unharmed(ctx, b)
	}
}

// withAnyIdentity: what a gateway has stored when it repeats a start may be the identity of before, or the new one.
func withAnyIdentity() []repetition {
	return []repetition{
		{"the identity of before", func(*computev1.StartSandboxRequest, string) {}},
		{"the new identity", func(r *computev1.StartSandboxRequest, first string) { r.ExpectedRuntimeIdentity = first }},
	}
}

func withAnotherGeneration() repetition {
	return repetition{"another generation_id", func(r *computev1.StartSandboxRequest, first string) {
		r.GenerationId, r.ExpectedRuntimeIdentity = laterGeneration, first
	}}
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
	err = together(callers, func(i int) error {
		answer, err := p.driver.StartSandbox(ctx, request)
		if err := expect("StartSandbox", err, codes.OK, codes.Unavailable, codes.Aborted); err != nil {
			return err
		}
		if err != nil {
			err = p.eventually(ctx, "the start can be repeated", func() (err error) {
				answer, err = p.driver.StartSandbox(ctx, request)
				return err
			})
		}
		answers[i] = answer.GetRuntimeIdentity()
		return err
	})
	if err != nil {
		return err
	}
	given := map[string]bool{}
	for _, answer := range answers {
		given[answer] = true
	}
	if len(given) != 1 {
		return fmt.Errorf("%d calls gave %d different identities", callers, len(given))
	}
	return p.reach(ctx, b.id, phase.Ready)
}
