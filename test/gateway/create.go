package gateway

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/gateway/record"
)

// errSuperseded is why an identity is not stored: somebody else changed what the row is about.
var errSuperseded = errors.New("the sandbox was deleted, or its run ended, while the driver worked on it")

// Create makes a sandbox and returns when the driver has answered and its runtime identity is stored; Ready comes later
// (contract 2.6). The errors are those of the contract's table.
func (g *Gateway) Create(ctx context.Context, w Wish) (Sandbox, error) {
	l, leave, err := g.enter()
	if err != nil {
		return Sandbox{}, err
	}
	defer leave()
	ctx, done := during(ctx, l)
	defer done()
	row, err := g.admit(ctx, l, w)
	if err != nil {
		return Sandbox{}, err
	}
	if row, err = g.insert(row); err != nil {
		return Sandbox{}, rejected(err)
	}
	identity, err := g.createAtDriver(ctx, l, row, w.AwaitAttachment)
	if err != nil {
		if failed := g.remove(row, "the create failed"); failed != nil {
			return Sandbox{}, rejected(errors.Join(err, failed))
		}
		return Sandbox{}, err
	}
	bound, err := g.bind(row, identity, l, false)
	if err != nil {
		g.compensateCreate(l, row)
		return Sandbox{}, err
	}
	return view(bound), nil
}

// admit judges a wish as far as it goes without a row, and makes the row.
func (g *Gateway) admit(ctx context.Context, l *life, w Wish) (record.Row, error) {
	spec, err := g.spec(w)
	if err != nil {
		return record.Row{}, err
	}
	if err := g.useWorkspace(ctx, l, w.Workspace); err != nil {
		return record.Row{}, err
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(spec)
	if err != nil {
		return record.Row{}, status.Errorf(codes.InvalidArgument, "spec: %v", err)
	}
	if w.ID == "" {
		w.ID = newUUID()
	}
	now := g.config.Clock.Now()
	row := record.Row{
		ID: w.ID, Name: w.Name, Workspace: w.Workspace, Spec: encoded, CreatedAt: now.UTC(),
		Run: record.Run{SessionID: newUUID(), Rotation: 1, AuthEpoch: 1},
	}
	row.Phase, row.Deadline = phase.Provisioning, now.Add(g.config.Timing.Provisioning).UTC()
	sandbox, err := described(row)
	if err != nil {
		return record.Row{}, rejected(err)
	}
	if err := l.driver.Acknowledged(ctx); err != nil {
		return record.Row{}, err
	}
	// Its errors go to the caller as they are (contract 2.6).
	_, err = l.driver.ValidateSandboxCreate(ctx, &computev1.ValidateSandboxCreateRequest{Sandbox: sandbox})
	return row, err
}

// createAtDriver asks the driver and translates its error (contract 2.6).
func (g *Gateway) createAtDriver(ctx context.Context, l *life, row record.Row, await bool) (identity string, err error) {
	sandbox, err := g.launchable(row, await)
	if err != nil {
		return "", status.Error(codes.Internal, err.Error())
	}
	defer clear(sandbox.Spec.LaunchAuthentication)
	if err = l.driver.Acknowledged(ctx); err == nil {
		var answer *computev1.CreateSandboxResponse
		answer, err = l.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: sandbox})
		identity = answer.GetRuntimeIdentity()
	}
	switch status.Code(err) {
	case codes.OK:
		return identity, nil
	case codes.AlreadyExists:
		return "", status.Error(codes.AlreadyExists, "sandbox already exists")
	case codes.FailedPrecondition:
		return "", err
	default:
		return "", status.Errorf(codes.Internal, "create sandbox failed: %s", status.Convert(err).Message())
	}
}

// bind stores the runtime identity (contract 2.13), if the row is still about this run.
func (g *Gateway) bind(row record.Row, identity string, l *life, starting bool) (record.Row, error) {
	if identity == "" && l.driver.Capabilities().GetSupportsSandboxAuthentication() {
		return row, status.Error(codes.Internal, "driver did not return a runtime identity")
	}
	bound, err := g.change(row.ID, tries, func(now *record.Row) error {
		if now.Run != row.Run || !phase.Bindable(now.Phase, starting) {
			return errSuperseded
		}
		if now.Annotations == nil {
			now.Annotations = map[string]string{}
		}
		now.Annotations[record.AnnotationDriver], now.Annotations[record.AnnotationIdentity] = g.config.DriverName, identity
		now.Before = nil
		return nil
	})
	switch {
	case errors.Is(err, errSuperseded), errors.Is(err, record.ErrNotFound):
		return row, status.Error(codes.Aborted, errSuperseded.Error())
	case err != nil:
		return row, rejected(err)
	}
	return bound, nil
}

// compensateCreate takes back what the driver made and the gateway cannot use (contract 2.6), whether the row is still there or
// not. Nobody waits for more than this: what fails here is told and leaks.
func (g *Gateway) compensateCreate(l *life, row record.Row) {
	mark := func(now *record.Row) error {
		if now.Run.Generation != row.Run.Generation {
			return errUnchanged // another took the id
		}
		return markDeleting(now)
	}
	if _, err := g.change(row.ID, tries, mark); err != nil && !errors.Is(err, record.ErrNotFound) {
		g.emit(about(row, CompensationFailed, "", err.Error()))
		return
	}
	answer, err := l.driver.DeleteSandbox(l.ctx, &computev1.DeleteSandboxRequest{SandboxId: row.ID, Name: row.Name})
	switch {
	case err != nil:
		g.emit(about(row, CompensationFailed, status.Code(err).String(), status.Convert(err).Message()))
	case !answer.GetDeleted():
		if err := g.remove(row, "the create was taken back"); err != nil {
			g.emit(about(row, CompensationFailed, "", err.Error()))
		}
	}
}
