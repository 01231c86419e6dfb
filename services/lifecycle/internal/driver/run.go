package driver

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/inventory"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/request"
	"github.com/portcullis-mesh/portcullis/shared/runtimeid"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// StartSandbox begins a new run of a stopped sandbox (contract 7.11). A repeated call for the run that stands answers the same.
func (d *Driver) StartSandbox(ctx context.Context, in *computev1.StartSandboxRequest) (*computev1.StartSandboxResponse, error) {
	ctx, cancel := limit(ctx, d.settings.CreateTimeout.Std())
	defer cancel()
	text, err := d.start(ctx, in)
	if err != nil {
		return nil, d.conclude(ctx, callStart, in.GetSandboxId(), err)
	}
	return &computev1.StartSandboxResponse{RuntimeIdentity: text}, nil
}

func (d *Driver) start(ctx context.Context, in *computev1.StartSandboxRequest) (string, error) {
	expected, err := startable(in)
	if err != nil {
		return "", err
	}
	leave, err := d.gates.enter(ctx, in.GetSandboxId())
	if err != nil {
		return "", err
	}
	defer leave()
	object, err := d.meant(ctx, in.GetSandboxId(), expected)
	if err != nil {
		return "", err
	}
	place, err := d.deps.Workspaces.Enter(ctx, object.Namespace)
	if err != nil {
		return "", err
	}
	admitted, err := d.readmit(ctx, object, in.GetSandboxId())
	if err != nil {
		return "", err
	}
	if err := d.deps.Workspaces.Still(place); err != nil {
		return "", err
	}
	text, run, err := d.restart(ctx, in, object)
	if err != nil {
		return "", err
	}
	if err := d.stillAdmitted(ctx, callStart, place, admitted); err != nil {
		if text != in.GetExpectedRuntimeIdentity() { // else it is the run that the gateway knows already, and not this call's to end
			d.retract(ctx, in.GetSandboxId(), run, object, err)
		}
		return "", err
	}
	defer d.step(callStart, "settle")()
	// A snapshot that waited for this call has the gateway ask again (contract 2.8): it must not find the stop before it.
	if !d.settles(ctx, in.GetSandboxId(), awake) && ctx.Err() == nil {
		d.log.Warn().Str(keySandboxID, in.GetSandboxId()).Str(keyNamespace, object.Namespace).Str(keyName, object.Name).
			Msg("the sandbox is started, and the view of the cluster did not show it in time")
	}
	return text, nil
}

// restart has supervisorctl begin the run, and gives its identity and its name.
func (d *Driver) restart(ctx context.Context, in *computev1.StartSandboxRequest, object *sandboxapi.Object) (string, *supervisorv1.Run, error) {
	defer d.step(callStart, "restart")()
	answered, err := d.deps.Companions.Restart(ctx, &supervisorv1.RestartRequest{
		Sandbox:                 d.reference(object.Namespace, object.Name, object.UID, in.GetSandboxId()),
		Run:                     &supervisorv1.Run{GenerationId: in.GetGenerationId()},
		LaunchAuthentication:    in.GetLaunchAuthentication(),
		ExpectedRuntimeIdentity: in.GetExpectedRuntimeIdentity(),
		RequestId:               requestID(ctx),
	})
	if err != nil {
		return "", nil, remote(ctx, err, verdict.SupervisorctlUnreachable, "companions.restart")
	}
	text, err := identityOf(answered.GetIdentity(), object.Namespace, object.UID)
	return text, runOf(in.GetGenerationId(), answered.GetStatus().GetRun()), err
}

// runOf names the run that a start got: by the session and the epoch in its record, which only the bundle and supervisorctl know and which
// tell runs apart (contract 2.6). The generation is the call's: a call that is repeated may give the same run's another name. Where the
// record was not told, the generation is all that there is.
func runOf(generation string, recorded *supervisorv1.Run) *supervisorv1.Run {
	return &supervisorv1.Run{GenerationId: generation, SessionId: recorded.GetSessionId(), AuthEpoch: recorded.GetAuthEpoch()}
}

// startable judges a start by its fields. Gateways recover a start with an empty bundle, and it must be refused before anything is
// touched (contract 2.6).
func startable(in *computev1.StartSandboxRequest) (runtimeid.Identity, error) {
	if err := named(in.GetSandboxId()); err != nil {
		return runtimeid.Identity{}, err
	}
	if err := generationOfStart(in.GetGenerationId()); err != nil {
		return runtimeid.Identity{}, err
	}
	switch n := len(in.GetLaunchAuthentication()); {
	case n == 0:
		return runtimeid.Identity{}, refuseSaying(verdict.LaunchInvalid, "launch_authentication", "launch_authentication is missing; start the sandbox again")
	case n > request.MaxLaunch:
		return runtimeid.Identity{}, refuseSaying(verdict.LaunchInvalid, "launch_authentication", "launch_authentication is longer than %d bytes", request.MaxLaunch)
	}
	if in.GetExpectedRuntimeIdentity() == "" {
		return runtimeid.Identity{}, refuseSaying(verdict.ExpectedIdentity, fieldExpected,
			"expected_runtime_identity is missing: the sandbox was created before identities were kept, and has to be created again")
	}
	expected, err := runtimeid.Parse(in.GetExpectedRuntimeIdentity())
	if err != nil {
		return runtimeid.Identity{}, unexpected("%v", err)
	}
	return expected, nil
}

// generationOfStart is nil for a generation that a start may have: the letters and the length are contract 7.11's, and Secrets are named
// by it.
func generationOfStart(generation string) error {
	const longest, letters, field = 64, "abcdefghijklmnopqrstuvwxyz0123456789-", "generation_id"
	if generation == "" {
		return refuseSaying(verdict.RequestInvalid, field, "generation_id is missing")
	}
	if len(generation) > longest || strings.ContainsFunc(generation, func(r rune) bool { return !strings.ContainsRune(letters, r) }) {
		return refuseSaying(verdict.RequestInvalid, field, "generation_id is not 1 to %d of a-z, 0-9 and \"-\"", longest)
	}
	if err := workspace.CheckGeneration(generation); err != nil {
		return refuseSaying(verdict.RequestInvalid, field, "generation_id: %v", err)
	}
	return nil
}

const fieldExpected = "expected_runtime_identity"

// unexpected refuses the identity that a start expects. What stands there is for the log: the gateway may not know it.
func unexpected(format string, args ...any) error {
	decision := verdict.Refuse(verdict.ExpectedIdentity, fieldExpected, fmt.Sprintf(format, args...))
	return &refusal{decision: decision.WithMessage("expected_runtime_identity: " + decision.Message())}
}

// readmit judges what the stored sandbox is attached to, against today's labels and against what it was made with (contract 7.11
// step 7, 11.5).
func (d *Driver) readmit(ctx context.Context, object *sandboxapi.Object, id string) (admitted, error) {
	defer d.step(callStart, "admit")()
	a := admitted{workspace: object.Labels[workspace.LabelSandboxWorkspace]}
	own := inventory.Own{Namespace: object.Namespace, ObjectName: object.Name, SandboxID: id, Generation: generationOf(&object.Template, id)}
	for _, secret := range object.Template.Spec.ImagePullSecrets { // the settings may name others by now, and the new run has those
		own.PullSecrets = append(own.PullSecrets, secret.Name)
	}
	var err error
	if a.attached, err = d.inventory(&object.Template, own); err != nil {
		return admitted{}, err
	}
	before, decision := inventory.Decode(object.Annotations[workspace.AnnotationAdmissionIdentities])
	if err := granted(decision); err != nil {
		return admitted{}, err
	}
	a.record = before
	return a, d.same(ctx, a)
}

// generationOf is the generation that the template was last rendered for, as far as it stands in the name of its bootstrap Secret: a
// stop clears the record of the run (contract 7.10). Any name that is not one of the sandbox's own gives one that the inventory
// refuses.
func generationOf(template *corev1.PodTemplateSpec, id string) string {
	const none = "none"
	for i := range template.Spec.Volumes {
		secret := template.Spec.Volumes[i].Secret
		if secret == nil {
			continue
		}
		_, generation, ok := strings.Cut(secret.SecretName, strings.TrimSuffix(workspace.SandboxSecret(id, none), none))
		if ok && workspace.SandboxSecret(id, generation) == secret.SecretName {
			return generation
		}
	}
	return none
}

// StopSandbox ends the run of a sandbox (contract 7.10). It may be cancelled at any point and repeated; OK says that it is over.
func (d *Driver) StopSandbox(ctx context.Context, in *computev1.StopSandboxRequest) (*computev1.StopSandboxResponse, error) {
	ctx, cancel := limit(ctx, d.settings.StopTimeout.Std())
	defer cancel()
	if err := d.stop(ctx, in.GetSandboxId()); err != nil {
		return nil, d.conclude(ctx, callStop, in.GetSandboxId(), err)
	}
	return &computev1.StopSandboxResponse{}, nil
}

func (d *Driver) stop(ctx context.Context, id string) error {
	if err := named(id); err != nil {
		return err
	}
	leave, err := d.gates.enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	object, err := d.one(ctx, id)
	if err != nil {
		return err
	}
	done := d.step(callStop, "release")
	_, err = d.deps.Companions.Release(ctx, &supervisorv1.ReleaseRequest{
		Sandbox: d.reference(object.Namespace, object.Name, object.UID, id), Run: &supervisorv1.Run{}, RequestId: requestID(ctx),
	})
	done()
	if err != nil {
		return remote(ctx, err, verdict.SupervisorctlUnreachable, "companions.release")
	}
	defer d.step(callStop, "settle")()
	// No OK while a stop in progress is still reported (contract 2.6).
	switch {
	case d.settles(ctx, id, suspended):
		return nil
	case ctx.Err() != nil:
		return refuse(verdict.CallEnded, "view.settles", "the run of Sandbox %s/%s is over, and the call ended before the view of the cluster showed it", object.Namespace, object.Name)
	default:
		return refuse(verdict.ViewNotCurrent, "view.settles", "the run of Sandbox %s/%s is over, and the view of the cluster did not show it in time", object.Namespace, object.Name)
	}
}

// named is nil for an id that a sandbox can have.
func named(id string) error {
	if id == "" {
		return refuseSaying(verdict.RequestInvalid, "sandbox_id", "sandbox_id is missing")
	}
	if err := workspace.CheckSandboxID(id); err != nil {
		return refuseSaying(verdict.RequestInvalid, "sandbox_id", "sandbox_id: %v", err)
	}
	return nil
}
