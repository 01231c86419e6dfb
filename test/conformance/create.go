package conformance

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

func validateChecks() []Check {
	return []Check{
		{
			ID: "validate.accepts", Section: "2.6", Required: true, run: validates,
			Says:   "a good sandbox is accepted, and nothing is made",
			Breaks: "no sandbox can be created, or one is there that no record speaks of",
		},
		{
			ID: "validate.nothing", Section: "2.7", Required: true,
			Says: "a request without a sandbox is INVALID_ARGUMENT", Breaks: "the caller learns nothing of use",
			run: func(ctx context.Context, p *probe) error {
				_, err := p.driver.ValidateSandboxCreate(ctx, &computev1.ValidateSandboxCreateRequest{})
				return expect("ValidateSandboxCreate", err, codes.InvalidArgument)
			},
		},
	}
}

func createChecks() []Check {
	return []Check{
		{
			ID: "create.nothing", Section: "2.7", Required: true,
			Says: "a request without a sandbox is INVALID_ARGUMENT", Breaks: "the caller learns nothing of use",
			run: func(ctx context.Context, p *probe) error {
				_, err := p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{})
				return expect("CreateSandbox", err, codes.InvalidArgument)
			},
		},
		{
			ID: "create.identity", Section: "2.13", Required: true, needs: []ability{authenticates}, run: namesRuns,
			Says:   "CreateSandbox answers with a runtime identity, which no other sandbox has",
			Breaks: "the gateway takes the sandbox for broken and deletes it",
		},
		{
			ID: "create.ready", Section: "2.10", Required: true,
			Says: "a sandbox that was created comes to be Ready", Breaks: "the provisioning deadline ends it",
			run: func(ctx context.Context, p *probe) error { _, err := p.up(ctx); return err },
		},
		{
			ID: "create.again", Section: "2.6", Required: true, run: createsOnce,
			Says:   "a second create of the same sandbox is ALREADY_EXISTS, and the first is not harmed",
			Breaks: "the record is removed, or the sandbox that runs",
		},
		{
			ID: "create.namesake", Section: "2.6", Required: true, run: namesake,
			Says:   "another sandbox with the name of one in the same workspace is ALREADY_EXISTS, and the first is not harmed",
			Breaks: "one sandbox takes the place of another",
		},
		{
			ID: "create.concurrent", Section: "2.6", Required: true, run: createsTogether,
			Says:   "of many creates of one sandbox at once one succeeds, and the others are ALREADY_EXISTS",
			Breaks: "two gateways believe that they have made it, or none does",
		},
		{
			ID: "create.namesakes", Section: "2.6", Required: true, run: namesakesTogether,
			Says:   "of many sandboxes with one name at once one is made, the others are ALREADY_EXISTS, and nothing is left of them, however far they came",
			Breaks: "their rows are removed and what was made for them stays, or one sandbox takes the place of another",
		},
		{
			ID: "create.no-bundle", Section: "15.10", Required: true, needs: []ability{wantsBundle}, run: creating(nil),
			Says:   "a create without launch credentials is FAILED_PRECONDITION, and nothing is left of it",
			Breaks: "the row is removed and the sandbox stays: it leaks",
		},
		{
			ID: "create.rollback", Section: "2.6", Required: true, needs: []ability{wantsBundle}, run: creating([]byte(`{"supervisor":{}}`)),
			Says:   "a create with launch credentials that are none is FAILED_PRECONDITION, and nothing is left of it",
			Breaks: "the row is removed and the sandbox stays: it leaks",
		},
		{
			ID: "create.forbidden", Section: "2.7", Required: true, needs: []ability{canForbid}, run: createsForbidden,
			Says:   "a create in a workspace that may not be used is FAILED_PRECONDITION, and nothing is made",
			Breaks: "the caller is told INTERNAL, or a tenant gets into another's namespace",
		},
	}
}

func validates(ctx context.Context, p *probe) error {
	wish, err := p.wish()
	if err != nil {
		return err
	}
	wish.Spec.LaunchAuthentication = nil // sent only on create
	_, err = p.driver.ValidateSandboxCreate(ctx, &computev1.ValidateSandboxCreateRequest{Sandbox: wish})
	if err != nil {
		return fmt.Errorf("ValidateSandboxCreate: %w", err)
	}
	return p.absent(ctx, wish.GetId())
}

// absent is nil when the driver has no such sandbox now, and the platform nothing of it.
func (p *probe) absent(ctx context.Context, id string) error {
	_, err := p.get(ctx, id)
	if err := expect("GetSandbox", err, codes.NotFound); err != nil {
		return err
	}
	return p.nothing(ctx, id)
}

func namesRuns(ctx context.Context, p *probe) error {
	one, err := p.create(ctx)
	if err != nil {
		return err
	}
	other, err := p.create(ctx)
	switch {
	case err != nil:
		return err
	case one.identity == "":
		return errors.New("the identity is empty")
	case one.identity == other.identity:
		return fmt.Errorf("two sandboxes have the identity %q", one.identity)
	}
	return nil
}

func createsOnce(ctx context.Context, p *probe) error {
	b, err := p.neighbour(ctx)
	if err != nil {
		return err
	}
	_, err = p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: b.wish})
	if err := expect("the second CreateSandbox", err, codes.AlreadyExists); err != nil {
		return err
	}
	return p.unharmed(ctx, b)
}

// unharmed is nil while the sandbox runs as it did.
func (p *probe) unharmed(ctx context.Context, b *box) error {
	got, err := p.phase(ctx, b.id)
	if err == nil && got != phase.Ready {
		err = fmt.Errorf("the first sandbox is %s afterwards", got)
	}
	return err
}

func namesake(ctx context.Context, p *probe) error {
	b, err := p.neighbour(ctx)
	if err != nil {
		return err
	}
	wish, err := p.wish()
	if err != nil {
		return err
	}
	wish.Name = b.wish.GetName()
	_, err = p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
	if err := expect("CreateSandbox with a name that is taken", err, codes.AlreadyExists); err != nil {
		return err
	}
	return errors.Join(p.unharmed(ctx, b), p.absent(ctx, wish.GetId()))
}

func createsTogether(ctx context.Context, p *probe) error {
	wish, err := p.wish()
	if err != nil {
		return err
	}
	const callers = 6
	made := make([]bool, callers)
	err = together(callers, func(i int) error {
		_, err := p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: proto.CloneOf(wish)})
		made[i] = err == nil
		return expect("CreateSandbox", err, codes.OK, codes.AlreadyExists)
	})
	n := 0
	for _, ok := range made {
		if ok {
			n++
		}
	}
	if n != 1 {
		err = errors.Join(err, fmt.Errorf("%d of %d calls succeeded", n, callers))
	}
	if err != nil {
		return err
	}
	return p.reach(ctx, wish.GetId(), phase.Ready)
}

func namesakesTogether(ctx context.Context, p *probe) error {
	const callers = 4
	name := "c" + hexadecimal(5)
	made, ids := make([]bool, callers), make([]string, callers)
	err := together(callers, func(i int) error {
		wish, err := p.wish()
		if err != nil {
			return err
		}
		wish.Name, ids[i] = name, wish.GetId()
		_, err = p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
		made[i] = err == nil
		return expect("CreateSandbox", err, codes.OK, codes.AlreadyExists)
	})
	if err != nil {
		return err
	}
	n := 0
	for i, id := range ids {
		switch {
		case !made[i]:
			err = errors.Join(err, p.gone(ctx, id))
		default:
			n++
			err = errors.Join(err, p.reach(ctx, id, phase.Ready))
		}
	}
	if n != 1 {
		err = errors.Join(err, fmt.Errorf("%d of %d calls succeeded", n, callers))
	}
	return err
}

// creating creates with other launch credentials, which has to be refused.
func creating(bundle []byte) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		wish, err := p.wish()
		if err != nil {
			return err
		}
		wish.Spec.LaunchAuthentication = bundle
		_, err = p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
		if err := expect("CreateSandbox", err, codes.FailedPrecondition); err != nil {
			return err
		}
		return p.gone(ctx, wish.GetId())
	}
}

func createsForbidden(ctx context.Context, p *probe) error {
	forbidder, ok := p.target.(Forbidder)
	if !ok {
		return errors.New("the target has no forbidden workspace")
	}
	workspace, err := forbidder.Forbidden(ctx)
	if err != nil {
		return fmt.Errorf("a forbidden workspace could not be had: %w", err)
	}
	wish, err := p.wish()
	if err != nil {
		return err
	}
	p.workspace, wish.Workspace = workspace, workspace
	_, err = p.driver.ValidateSandboxCreate(ctx, &computev1.ValidateSandboxCreateRequest{Sandbox: wish})
	switch status.Code(err) {
	case codes.OK, codes.FailedPrecondition, codes.PermissionDenied: // the contract leaves open whether it looks
	default:
		return fmt.Errorf("ValidateSandboxCreate: %w", err)
	}
	_, err = p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
	if err := expect("CreateSandbox", err, codes.FailedPrecondition); err != nil {
		return err
	}
	return errors.Join(p.absent(ctx, wish.GetId()), p.nothing(ctx, ""))
}
