package workspaces

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/apistatus"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// Steps of a refusal.
const (
	stepName      = "workspace.name"
	stepList      = "namespace.list"
	stepSource    = "namespace.source"
	stepRead      = "namespace.read"
	stepMake      = "namespace.make"
	stepOwned     = "namespace.owned"
	stepEnding    = "namespace.deletion"
	stepAllocated = "namespace.allocated"
	stepAccount   = "account.make"
	stepIngress   = "ingress.apply"
	stepDelete    = "namespace.delete"
)

// Refusal is why a workspace has no place. It is an error, so that it goes where errors go; Decision has the code.
type Refusal struct{ Decision verdict.Decision }

// Error is the explanation.
func (r *Refusal) Error() string { return r.Decision.Explain() }

func refuse(reason verdict.Reason, step, format string, args ...any) error {
	return &Refusal{Decision: verdict.Refuse(reason, step, fmt.Sprintf(format, args...))}
}

// refuseSaying is refuse with the explanation as the caller's text too: for what the caller can mend, or has to wait for.
func refuseSaying(reason verdict.Reason, step, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	return &Refusal{Decision: verdict.Refuse(reason, step, text).WithMessage(text)}
}

// failed is a request that did not succeed. Whether the API server refuses it for what it says, or did not come to look at it,
// are different answers; and an API server that did not answer in the time that one request has is no call that ended, which only ctx,
// that of the call, says.
func failed(ctx context.Context, step, what string, err error) error {
	switch {
	case ctx.Err() != nil:
		return refuse(verdict.CallEnded, step, "%s: %s", what, apistatus.Logged(err))
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return refuseSaying(verdict.WorkspaceTerminating, step, "%s: the namespace is being deleted; try again when it is gone", what)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		explanation := fmt.Sprintf("%s: %s (is the quota used up, does an admission policy refuse it, or does the driver lack the right?)", what, apistatus.Logged(err))
		return &Refusal{Decision: verdict.Refuse(verdict.WorkspaceRefused, step, explanation).WithMessage(what + ": " + apistatus.Told(err))}
	default:
		return refuse(verdict.WorkspaceUnreadable, step, "%s: %s", what, apistatus.Logged(err))
	}
}
