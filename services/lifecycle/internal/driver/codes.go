package driver

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/observe"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/workspaces"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// call is one RPC, as it stands in logs and metrics.
type call string

const (
	callCapabilities    call = "GetCapabilities"
	callAuthenticate    call = "AuthenticateSandbox"
	callValidate        call = "ValidateSandboxCreate"
	callCreate          call = "CreateSandbox"
	callStart           call = "StartSandbox"
	callStop            call = "StopSandbox"
	callDelete          call = "DeleteSandbox"
	callGet             call = "GetSandbox"
	callList            call = "ListSandboxes"
	callWatch           call = "WatchSandboxes"
	callEnsureWorkspace call = "EnsureWorkspace"
	callDeleteWorkspace call = "DeleteWorkspace"
)

// refusal is a verdict on its way through errors.
type refusal struct{ decision verdict.Decision }

func (r *refusal) Error() string { return r.decision.Explain() }

func refuse(reason verdict.Reason, step, format string, args ...any) error {
	return &refusal{decision: verdict.Refuse(reason, step, fmt.Sprintf(format, args...))}
}

// refuseSaying is refuse with the explanation for the caller too.
func refuseSaying(reason verdict.Reason, step, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	return &refusal{decision: verdict.Refuse(reason, step, text).WithMessage(text)}
}

// granted is nil for a grant, and the refusal otherwise.
func granted(decision verdict.Decision) error {
	if decision.Granted() {
		return nil
	}
	return &refusal{decision: decision}
}

// grantedIn is granted, for what a part had to ask somebody for: what could not be found out since the call has ended says so.
func grantedIn(ctx context.Context, decision verdict.Decision) error {
	if ctx.Err() != nil && decision.Outcome() == verdict.Unknown {
		return refuse(verdict.CallEnded, decision.Step, "%s: %s", decision.Reason, decision.Explanation)
	}
	return granted(decision)
}

// decisionOf makes a verdict of any error of the parts. What is not known for what it is refuses as such.
func decisionOf(err error, step string) verdict.Decision {
	if r := new(refusal); errors.As(err, &r) {
		return r.decision
	}
	if r := new(workspaces.Refusal); errors.As(err, &r) {
		return r.Decision
	}
	for _, known := range []struct {
		is     error
		reason verdict.Reason
	}{
		{observe.ErrAbsent, verdict.SandboxAbsent},
		{observe.ErrAmbiguous, verdict.SandboxAmbiguous},
		{observe.ErrUnreadable, verdict.SandboxUnreadable},
		{observe.ErrNotServed, verdict.SandboxUnserved},
		{observe.ErrBehind, verdict.WatchBehind},
		{observe.ErrStale, verdict.ViewNotCurrent},
		{observe.ErrStopped, verdict.ViewNotCurrent},
		{cluster.ErrExists, verdict.SandboxExists},
		{cluster.ErrNotServed, verdict.SandboxUnserved},
		{cluster.ErrUnsettled, verdict.SandboxUnsettled},
		{cluster.ErrRefused, verdict.SandboxRefused},
		{cluster.ErrTerminating, verdict.WorkspaceTerminating},
		{context.Canceled, verdict.CallEnded},
		{context.DeadlineExceeded, verdict.CallEnded},
	} {
		if errors.Is(err, known.is) {
			return verdict.Refuse(known.reason, step, err.Error())
		}
	}
	return verdict.Refuse(verdict.SandboxUnsettled, step, err.Error())
}

// remote makes a verdict of another daemon's answer. One without a verdict did not come from its handler.
func remote(ctx context.Context, err error, unreachable verdict.Reason, step string) error {
	if decision, ok := verdict.FromError(err); ok {
		return &refusal{decision: decision}
	}
	s := status.Convert(err)
	if ctx.Err() != nil && (s.Code() == codes.Canceled || s.Code() == codes.DeadlineExceeded) {
		return refuse(verdict.CallEnded, step, "%s", s.Message())
	}
	return refuse(unreachable, step, "%s: %s", s.Code(), s.Message())
}

// notEnded makes of a refusal that says that the call has ended, while it has not, one that says that there was no answer: the parts bound
// their own requests too.
func notEnded(ctx context.Context, in call, d verdict.Decision) verdict.Decision {
	if d.Reason != verdict.CallEnded || ctx.Err() != nil {
		return d
	}
	switch in {
	case callAuthenticate: // tokenauth's verdict is passed on as it is
		return d
	case callEnsureWorkspace, callDeleteWorkspace:
		return verdict.Refuse(verdict.WorkspaceUnreadable, d.Step, d.Explanation)
	default:
		return verdict.Refuse(verdict.SandboxUnsettled, d.Step, d.Explanation)
	}
}

// codeOf is the code that a refusal has in a call (contract 2.7; the package's documentation lists the differences). Within a class, "no"
// or "could not find out", a call may have a code of its own; the class is the verdict's and is never changed.
func codeOf(in call, d verdict.Decision) codes.Code {
	code := d.Code()
	switch in {
	case callCreate, callStart:
		// The gateway passes only FAILED_PRECONDITION on with its text, and a namespace that may not be used is one (contract 5.3).
		if code == codes.PermissionDenied || in == callCreate && code == codes.NotFound {
			return codes.FailedPrecondition
		}
	case callGet, callList, callWatch, callDelete:
		// A backend error is INTERNAL. A stream that is to be opened again says so, and so does a view that is not complete.
		if code == codes.Unavailable && d.Reason != verdict.WatchBehind && d.Reason != verdict.ViewNotCurrent {
			return codes.Internal
		}
	case callEnsureWorkspace, callDeleteWorkspace:
		if code == codes.Unavailable && d.Reason == verdict.WorkspaceUnreadable {
			return codes.Internal
		}
	case callStop:
		// It is not the gateway's user who may not: lifecycle itself is not let in somewhere, and a person has to mend that.
		if code == codes.PermissionDenied {
			return codes.FailedPrecondition
		}
	case callCapabilities, callAuthenticate, callValidate:
	}
	return code
}
