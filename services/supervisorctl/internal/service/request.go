package service

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/launch"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runtimeid"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// Steps of the refusals that are made here.
const (
	stepRequest  = "request"
	stepLaunch   = "request.launch_authentication"
	stepTurn     = "request.turn"
	stepIdentity = "request.expected_runtime_identity"
)

// invalid is a refusal of the request that names the field.
func invalid(field, format string, args ...any) verdict.Decision {
	text := field + " " + fmt.Sprintf(format, args...)
	return verdict.Refuse(verdict.RequestInvalid, stepRequest, text).WithMessage(text)
}

// granted is the zero verdict that lets a request go on; a Decision that grants has no other use here.
func granted() verdict.Decision { return verdict.Grant(verdict.Evidence{}) }

const (
	longestUID     = 64
	longestRequest = 64

	// generationLetters are what a generation is made of (contract 7.11 step 2).
	generationLetters = "abcdefghijklmnopqrstuvwxyz0123456789-"
)

// reference checks a SandboxRef; the uid may be empty if anyUID says so.
func reference(ref *supervisorv1.SandboxRef, gatewayID string, anyUID bool) (plan.Ref, verdict.Decision) {
	if ref == nil {
		return plan.Ref{}, invalid("sandbox", "is missing")
	}
	r := plan.Ref{
		GatewayID: ref.GetGatewayId(), SandboxID: ref.GetSandboxId(), Namespace: ref.GetNamespace(), Name: ref.GetName(), UID: ref.GetUid(),
	}
	switch {
	case r.GatewayID != gatewayID:
		return r, invalid("sandbox.gateway_id", "is %.64q, and this daemon is configured for gateway %q", r.GatewayID, gatewayID)
	case len(validation.IsDNS1123Label(r.Namespace)) > 0:
		return r, invalid("sandbox.namespace", "%.64q is no DNS-1123 label", r.Namespace)
	case len(validation.IsDNS1123Label(r.Name)) > 0:
		return r, invalid("sandbox.name", "%.64q is no DNS-1123 label", r.Name)
	case r.UID == "" && !anyUID:
		return r, invalid("sandbox.uid", "is missing")
	case len(r.UID) > longestUID || !printable(r.UID):
		return r, invalid("sandbox.uid", "is not at most %d printable characters", longestUID)
	}
	if err := workspace.CheckSandboxID(r.SandboxID); err != nil {
		return r, invalid("sandbox.sandbox_id", "%v", err)
	}
	return r, granted()
}

// wantedRun checks a Run; its generation may be empty if anyRun says so.
func wantedRun(run *supervisorv1.Run, anyRun bool) (plan.Run, verdict.Decision) {
	if run == nil {
		return plan.Run{}, invalid("run", "is missing")
	}
	if generation := run.GetGenerationId(); generation != "" || !anyRun {
		if len(generation) > launch.MaxGeneration || strings.ContainsFunc(generation, func(c rune) bool { return !strings.ContainsRune(generationLetters, c) }) {
			return plan.Run{}, invalid("run.generation_id", "is not 1 to %d of a-z, 0-9 and \"-\"", launch.MaxGeneration)
		}
		if err := workspace.CheckGeneration(generation); err != nil {
			return plan.Run{}, invalid("run.generation_id", "%v", err)
		}
	}
	if id := run.GetSessionId(); id != "" {
		if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
			return plan.Run{}, invalid("run.session_id", "is no UUID in its canonical lower-case form")
		}
	}
	if run.GetAuthEpoch() > math.MaxInt64 {
		return plan.Run{}, invalid("run.auth_epoch", "is greater than any epoch can be")
	}
	return plan.Run{Generation: run.GetGenerationId(), Session: run.GetSessionId(), Epoch: int64(run.GetAuthEpoch())}, granted()
}

// requestID checks what only joins logs.
func requestID(id string) verdict.Decision {
	if len(id) > longestRequest || !printable(id) {
		return invalid("request_id", "is not at most %d printable characters", longestRequest)
	}
	return granted()
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// credentials reads the bundle of a run and completes the run by it. The caller wipes the bundle.
func credentials(raw []byte, run plan.Run) (*launch.Bundle, plan.Run, verdict.Decision) {
	bundle, err := launch.Parse(raw)
	if err != nil {
		var problem *launch.Error
		text := "launch_authentication cannot be read"
		if errors.As(err, &problem) {
			text = problem.Error()
		}
		return nil, run, verdict.Refuse(verdict.LaunchInvalid, stepLaunch, text).WithMessage("the launch credentials are missing or invalid: " + text)
	}
	refuse := func(text string) (*launch.Bundle, plan.Run, verdict.Decision) {
		bundle.Wipe()
		d := verdict.Refuse(verdict.LaunchInvalid, stepLaunch, text)
		return nil, run, d.WithMessage(d.Message() + ": " + text)
	}
	const differs = " is not that of the credential bundle"
	switch epoch := bundle.AuthEpoch(); {
	case epoch > math.MaxInt64:
		return refuse("supervisor.auth_epoch is greater than any epoch can be")
	case run.Session != "" && run.Session != bundle.SessionID():
		return refuse("run.session_id" + differs)
	case run.Epoch != 0 && uint64(run.Epoch) != epoch:
		return refuse("run.auth_epoch" + differs)
	default:
		run.Session, run.Epoch = bundle.SessionID(), int64(epoch)
	}
	return bundle, run, granted()
}

// expected checks the identity that the gateway has stored: namespace and Sandbox must be those of the request (contract 2.13, 7.11
// steps 4 and 6).
func expected(text string, ref plan.Ref) verdict.Decision {
	refuse := func(format string, args ...any) verdict.Decision {
		text := "expected_runtime_identity " + fmt.Sprintf(format, args...)
		d := verdict.Refuse(verdict.RunSandboxReplaced, stepIdentity, text)
		return d.WithMessage(d.Message() + ": " + text)
	}
	if text == "" {
		return refuse("is empty: the gateway has stored none, and what it means cannot be told")
	}
	identity, err := runtimeid.Parse(text)
	if err != nil {
		return refuse("cannot be read: %v", err)
	}
	if identity.Namespace() != ref.Namespace || identity.SandboxUID() != ref.UID {
		return refuse("is that of another Sandbox")
	}
	return granted()
}

// same reports whether the Sandbox that was found is the one that is meant: by its uid and its labels. One that is gone, or could not
// be read, is no other one.
func same(f *plan.Facts, ref plan.Ref) verdict.Decision {
	box, ok := f.Sandbox.Value()
	if !ok {
		return granted()
	}
	if box.UID != ref.UID {
		return verdict.Refuse(verdict.RunSandboxReplaced, stepRequest, fmt.Sprintf("the Sandbox has uid %q", box.UID))
	}
	for _, l := range [...]struct{ key, want string }{
		{workspace.LabelManagedBy, workspace.ManagedByOpenShell},
		{workspace.LabelGatewayID, ref.GatewayID},
		{workspace.LabelSandboxID, ref.SandboxID},
	} {
		if box.Labels[l.key] != l.want {
			return verdict.Refuse(verdict.RunSandboxForeign, stepRequest, "the Sandbox has not the label "+l.key+"="+l.want)
		}
	}
	return granted()
}
