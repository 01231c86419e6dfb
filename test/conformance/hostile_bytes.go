package conformance

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

// bytesChecks send bytes that are no text in calls that carry no sandbox; hostileTexts are of those that do, and idChecks of those by id.
// A server may refuse such a message before a handler sees it, as INTERNAL; it may not take it.
func bytesChecks() []Check {
	refused := []codes.Code{codes.InvalidArgument, codes.Internal, codes.Unknown}
	const says, breaks = " with bytes that are no text is refused", "what the gateway has not said is taken for what it means"
	sends := func(method string, request proto.Message, more ...codes.Code) func(context.Context, *probe) error {
		return func(ctx context.Context, p *probe) error {
			return expect(method, p.invoke(ctx, method, request), append(refused, more...)...)
		}
	}
	named := handshake()
	named.Gateway.ImplementationName = broken
	return []Check{
		{
			ID: "capabilities.bytes", Section: "2.3", Required: true, Says: "GetCapabilities" + says, Breaks: breaks,
			run: sends("GetCapabilities", named, codes.FailedPrecondition),
		},
		{
			ID: "authenticate.bytes", Section: "6.1", Required: true, needs: []ability{authenticates}, Says: "AuthenticateSandbox" + says, Breaks: breaks,
			run: sends("AuthenticateSandbox", &computev1.AuthenticateSandboxRequest{Credential: broken}, codes.Unauthenticated, codes.PermissionDenied),
		},
		{
			ID: "workspace.bytes", Section: "2.7", Required: true, Says: "EnsureWorkspace" + says, Breaks: breaks,
			run: sends("EnsureWorkspace", &computev1.EnsureWorkspaceRequest{Workspace: broken}, codes.PermissionDenied, codes.FailedPrecondition, codes.Unimplemented),
		},
		{
			ID: "start.bytes", Section: "7.11", Required: true, needs: []ability{wantsBundle}, Breaks: breaks,
			Says: "StartSandbox" + says + ", and the sandbox stays stopped", run: startsWithBytes(append(refused, codes.FailedPrecondition)...),
		},
	}
}

func startsWithBytes(want ...codes.Code) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		b, err := p.oneStopped(ctx)
		if err != nil {
			return err
		}
		var problems []error
		for field, change := range map[string]func(*computev1.StartSandboxRequest){
			"generation_id":             func(r *computev1.StartSandboxRequest) { r.GenerationId = broken },
			"expected_runtime_identity": func(r *computev1.StartSandboxRequest) { r.ExpectedRuntimeIdentity = broken },
			"launch_authentication":     func(r *computev1.StartSandboxRequest) { r.LaunchAuthentication = []byte(broken) },
		} {
			request, err := p.starting(b)
			if err != nil {
				return err
			}
			change(request)
			problems = append(problems, expect("StartSandbox with such bytes for "+field, p.invoke(ctx, "StartSandbox", request), want...))
		}
		got, err := p.phase(ctx, b.id)
		if err == nil && got != phase.Stopped {
			err = errors.New("the sandbox is " + string(got) + " afterwards")
		}
		return errors.Join(append(problems, err)...)
	}
}
