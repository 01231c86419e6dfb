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

func authenticateChecks() []Check {
	refused := []codes.Code{codes.Unauthenticated, codes.PermissionDenied}
	return []Check{
		{
			ID: "authenticate.absent", Section: "6", Required: true, needs: []ability{unauthenticated},
			Says:   "a driver that does not authenticate sandboxes answers UNIMPLEMENTED",
			Breaks: "a token exchange ends with an error that means something else",
			run:    presenting("x", codes.Unimplemented),
		},
		{
			ID: "authenticate.empty", Section: "6.1", Required: true, needs: []ability{authenticates},
			Says:   "an empty credential is INVALID_ARGUMENT",
			Breaks: "whoever presents nothing is told to try again, or worse, is let in",
			run:    presenting("", codes.InvalidArgument),
		},
		{
			ID: "authenticate.garbage", Section: "6.1", Required: true, needs: []ability{authenticates},
			Says:   "a credential that the platform did not issue is UNAUTHENTICATED",
			Breaks: "anybody can exchange it for a token of a sandbox",
			run:    presenting("eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6YTpiIn0.AAAA", codes.Unauthenticated),
		},
		{
			ID: "authenticate.huge", Section: "6.1", Required: true, needs: []ability{authenticates},
			Says:   "a credential of a megabyte is refused as what it is, and not as a failure of the driver",
			Breaks: "supervisors can load the platform with what they make up",
			run:    presenting(strings.Repeat("a", 1<<20), append(refused, codes.InvalidArgument, codes.ResourceExhausted)...),
		},
		{
			ID: "authenticate.identity", Section: "2.13", Required: true, needs: []ability{authenticates, canPresent}, run: identifies,
			Says:   "AuthenticateSandbox names the sandbox, and the identity that CreateSandbox and StartSandbox answered for its run",
			Breaks: "no supervisor gets a token: the identity does not match the sandbox",
		},
		{
			ID: "authenticate.former-run", Section: "2.13", Required: true, needs: []ability{authenticates, canPresent}, run: forgets,
			Says:   "the credential of a run that is over is UNAUTHENTICATED or PERMISSION_DENIED, or gives an identity that is not the present run's",
			Breaks: "a supervisor of a former run gets tokens for the new one, or is told to try again for ever",
		},
	}
}

func presenting(credential string, want ...codes.Code) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		_, err := p.driver.AuthenticateSandbox(ctx, &computev1.AuthenticateSandboxRequest{Credential: credential})
		return expect("AuthenticateSandbox", err, want...)
	}
}

// present authenticates the sandbox's present supervisor. The platform may learn of a run after the driver has answered for it.
func (p *probe) present(ctx context.Context, b *box) (string, error) {
	from, ok := p.target.(Presenter)
	if !ok {
		return "", errors.New("the target cannot present a credential")
	}
	credential, err := from.Credential(ctx, p.workspace, b.id)
	if err != nil {
		return "", fmt.Errorf("the supervisor's credential could not be had: %w", err)
	}
	defer credential.Wipe()
	text := string(credential.Expose()) // for the request
	return text, p.judge(ctx, b, text)
}

func (p *probe) judge(ctx context.Context, b *box, credential string) error {
	answer, err := p.driver.AuthenticateSandbox(ctx, &computev1.AuthenticateSandboxRequest{Credential: credential})
	switch {
	case err != nil:
		return fmt.Errorf("AuthenticateSandbox: %w", err)
	case answer.GetSandboxId() != b.id:
		return fmt.Errorf("it is sandbox %q, and should be %q", answer.GetSandboxId(), b.id)
	case answer.GetRuntimeIdentity() != b.identity:
		return fmt.Errorf("it has identity %q, and the run was answered with %q", answer.GetRuntimeIdentity(), b.identity)
	}
	return nil
}

func identifies(ctx context.Context, p *probe) error {
	b, err := p.up(ctx)
	if err != nil {
		return err
	}
	if _, err := p.present(ctx, b); err != nil {
		return fmt.Errorf("after the create: %w", err)
	}
	if err := errors.Join(p.stop(ctx, b.id), p.start(ctx, b), p.reach(ctx, b.id, phase.Ready)); err != nil {
		return err
	}
	if _, err := p.present(ctx, b); err != nil {
		return fmt.Errorf("after the start: %w", err)
	}
	return nil
}

func forgets(ctx context.Context, p *probe) error {
	b, err := p.up(ctx)
	if err != nil {
		return err
	}
	former, err := p.present(ctx, b)
	if err != nil {
		return err
	}
	if err := errors.Join(p.stop(ctx, b.id), p.start(ctx, b)); err != nil {
		return err
	}
	answer, err := p.driver.AuthenticateSandbox(ctx, &computev1.AuthenticateSandboxRequest{Credential: former})
	if err == nil && answer.GetRuntimeIdentity() == b.identity {
		return errors.New("it was accepted for the new run")
	}
	return expect("AuthenticateSandbox with the former run's credential", err, codes.OK, codes.Unauthenticated, codes.PermissionDenied)
}
