package conformance

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

// startsVisibly looks right after the answer, in all three ways.
func startsVisibly(ctx context.Context, p *probe) error {
	b, err := p.stopped(ctx)
	if err != nil {
		return err
	}
	if err := p.start(ctx, b); err != nil {
		return err
	}
	one, err := p.get(ctx, b.id)
	if err != nil {
		return fmt.Errorf("GetSandbox: %w", err)
	}
	list, err := p.driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
	if err != nil {
		return fmt.Errorf("ListSandboxes: %w", err)
	}
	s, err := p.watch(ctx)
	if err != nil {
		return err
	}
	if _, err := s.await(ctx, p.patience, b.id, 0, "there", func(t told) bool { return t.sandbox != nil }); err != nil {
		return err
	}
	problems := []error{begun("GetSandbox", one), begun("a new watch", s.of(b.id, 0)[0].sandbox)}
	for _, other := range list.GetSandboxes() {
		if other.GetId() == b.id {
			problems = append(problems, begun("ListSandboxes", other))
		}
	}
	return errors.Join(problems...)
}

// begun is nil when the report does not mean that the sandbox is stopped.
func begun(call string, s *computev1.DriverSandbox) error {
	status, err := phase.FromDriver(s.GetStatus())
	if err == nil && phase.Backend(status) == phase.Stopped {
		err = fmt.Errorf("%s shows it Stopped after the start", call)
	}
	return err
}

func startsOver(ctx context.Context, p *probe) error {
	b, err := p.up(ctx)
	if err != nil {
		return err
	}
	former := b.identity
	if err := p.start(ctx, b); err != nil {
		return fmt.Errorf("while it runs: %w", err)
	}
	if b.identity == "" || b.identity == former {
		return fmt.Errorf("StartSandbox answered with the identity %q, and before it was %q", b.identity, former)
	}
	return p.reach(ctx, b.id, phase.Ready)
}

// startsAfterFailure starts as a gateway does that has restored what it had stored: it stops first (contract 2.6).
func startsAfterFailure(ctx context.Context, p *probe) error {
	b, err := p.stopped(ctx)
	if err != nil {
		return err
	}
	bad, err := p.starting(b)
	if err != nil {
		return err
	}
	bad.LaunchAuthentication = []byte("{}")
	if err := p.refusedStart(ctx, bad, codes.FailedPrecondition); err != nil {
		return err
	}
	short, err := p.starting(b)
	if err != nil {
		return err
	}
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	begun := make(chan error, 1)
	go func() { begun <- p.leaves(ctx, b.id, leave) }()
	_, _ = p.driver.StartSandbox(leaving, short) // whatever it says: the gateway has not heard it
	leave()
	if err := <-begun; err != nil {
		return err
	}
	err = p.eventually(ctx, "the sandbox can be stopped", func() error { return p.stop(ctx, b.id) })
	if err != nil {
		return err
	}
	stored := b.identity
	if err := p.start(ctx, b); err != nil {
		return fmt.Errorf("after a refused start and one that was cut short: %w", err)
	}
	if b.identity == stored {
		return fmt.Errorf("the start after them answered with the former identity %q", stored)
	}
	return p.reach(ctx, b.id, phase.Ready)
}

// leaves goes away as soon as the sandbox is seen to be coming up.
func (p *probe) leaves(ctx context.Context, id string, leave func()) error {
	defer leave()
	return p.eventually(ctx, "a start is seen", func() error {
		got, err := p.phase(ctx, id)
		if err == nil && got == phase.Stopped {
			err = errors.New("the sandbox is still stopped")
		}
		return err
	})
}

func startsSayingWhere(ctx context.Context, p *probe) error {
	b, err := p.oneStopped(ctx)
	if err != nil {
		return err
	}
	good, err := p.starting(b)
	if err != nil {
		return err
	}
	var problems []error
	for _, one := range []struct {
		field  string
		change func(*computev1.StartSandboxRequest)
	}{
		{"sandbox_id", func(r *computev1.StartSandboxRequest) { r.SandboxId = "" }},
		{"generation_id", func(r *computev1.StartSandboxRequest) { r.GenerationId = "../G_1" }},
		{"launch_authentication", func(r *computev1.StartSandboxRequest) { r.LaunchAuthentication = nil }},
		{"expected_runtime_identity", func(r *computev1.StartSandboxRequest) { r.ExpectedRuntimeIdentity = "../x" }},
	} {
		request := proto.CloneOf(good)
		one.change(request)
		_, err := p.driver.StartSandbox(ctx, request)
		problems = append(problems, saysWhere("StartSandbox", err, one.field))
	}
	_, err = p.get(ctx, b.id)
	return errors.Join(append(problems, expect("GetSandbox", err, codes.OK))...)
}
