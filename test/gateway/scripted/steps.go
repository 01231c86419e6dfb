package scripted

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// Fail answers with an error.
func Fail(code codes.Code, message string) Step {
	return func(context.Context, proto.Message) (proto.Message, error) { return nil, status.Error(code, message) }
}

// Answer answers with a message.
func Answer(m proto.Message) Step {
	return func(context.Context, proto.Message) (proto.Message, error) { return m, nil }
}

// Block is a call that a test holds.
type Block struct {
	Entered  chan struct{} // closed when the call is there
	Canceled chan struct{} // closed when its caller went away
	Release  chan struct{} // to be closed by the test
}

// Hold makes a Block and its step. Released, the call goes on to then, or to the model when that is nil; canceled, it fails.
func Hold(then Step) (*Block, Step) {
	b := &Block{Entered: make(chan struct{}), Canceled: make(chan struct{}), Release: make(chan struct{})}
	return b, func(ctx context.Context, request proto.Message) (proto.Message, error) {
		close(b.Entered)
		select {
		case <-b.Release:
		case <-ctx.Done():
			close(b.Canceled)
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		if then == nil {
			return nil, nil
		}
		return then(ctx, request)
	}
}

// Lose lets the model act and loses its answer.
func (d *Driver) Lose(method string, code codes.Code) {
	d.Script(method, func(ctx context.Context, request proto.Message) (proto.Message, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		switch r := request.(type) {
		case *computev1.CreateSandboxRequest:
			d.create(r.GetSandbox())
		case *computev1.StartSandboxRequest:
			_, _ = d.start(r.GetSandboxId())
		case *computev1.StopSandboxRequest:
			_, _ = d.stopSandbox(r.GetSandboxId())
		case *computev1.DeleteSandboxRequest:
			d.remove(r.GetSandboxId())
		}
		return nil, status.Error(code, "the answer is lost")
	})
}

// Condition makes a condition.
func Condition(kind, is, reason string) *computev1.DriverCondition {
	return &computev1.DriverCondition{Type: kind, Status: is, Reason: reason, Message: "as scripted"}
}

// Bootstrapping is what a sandbox that is coming up shows (contract 7.14).
func Bootstrapping() []*computev1.DriverCondition {
	return []*computev1.DriverCondition{
		Condition("Bootstrapping", "True", "SandboxRuntimeGenerationStarting"), Condition("Ready", "False", "DependenciesNotReady"),
	}
}

// Ready is what a sandbox that runs shows.
func Ready() []*computev1.DriverCondition {
	return []*computev1.DriverCondition{Condition("Ready", "True", "DependenciesReady")}
}

// Suspended is what a stopped one shows.
func Suspended() []*computev1.DriverCondition {
	return []*computev1.DriverCondition{Condition("Suspended", "True", "PodTerminated"), Condition("Ready", "False", "SandboxSuspended")}
}

// Failed is what one shows whose Pod ended.
func Failed() []*computev1.DriverCondition {
	return []*computev1.DriverCondition{Condition("Ready", "False", "PodFailed")}
}
