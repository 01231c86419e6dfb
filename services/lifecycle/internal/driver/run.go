package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/inventory"
	"github.com/portcullis-mesh/portcullis/shared/runtimeid"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// undoLimit bounds what is done for a caller that is gone.
const undoLimit = 30 * time.Second

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
	object, err := d.one(ctx, in.GetSandboxId())
	if err != nil {
		return "", err
	}
	if object.Namespace != expected.Namespace() || object.UID != expected.SandboxUID() {
		return "", refuse(verdict.ExpectedIdentity, "identity.same", "it names Sandbox %s in namespace %s, and the one with the id is %s in %s",
			expected.SandboxUID(), expected.Namespace(), object.UID, object.Namespace)
	}
	place, err := d.deps.Workspaces.Enter(ctx, object.Namespace)
	if err != nil {
		return "", err
	}
	if err := d.readmit(ctx, object, in.GetSandboxId()); err != nil {
		return "", err
	}
	if err := d.deps.Workspaces.Still(place); err != nil {
		return "", err
	}
	defer d.step(callStart, "restart")()
	answered, err := d.deps.Companions.Restart(ctx, &supervisorv1.RestartRequest{
		Sandbox:                 d.reference(object.Namespace, object.Name, object.UID, in.GetSandboxId()),
		Run:                     &supervisorv1.Run{GenerationId: in.GetGenerationId()},
		LaunchAuthentication:    in.GetLaunchAuthentication(),
		ExpectedRuntimeIdentity: in.GetExpectedRuntimeIdentity(),
		RequestId:               requestID(ctx),
	})
	if err != nil {
		return "", remote(err, verdict.SupervisorctlUnreachable, "companions.restart")
	}
	return identityOf(answered.GetIdentity(), object.Namespace, object.UID)
}

// startable judges a start by its fields. Gateways recover a start with an empty bundle, and it must be refused before anything is
// touched (contract 2.6).
func startable(in *computev1.StartSandboxRequest) (runtimeid.Identity, error) {
	if err := named(in.GetSandboxId()); err != nil {
		return runtimeid.Identity{}, err
	}
	if len(in.GetLaunchAuthentication()) == 0 {
		return runtimeid.Identity{}, refuseSaying(verdict.LaunchInvalid, "launch_authentication", "launch_authentication is missing; start the sandbox again")
	}
	if in.GetGenerationId() == "" {
		return runtimeid.Identity{}, refuseSaying(verdict.RequestInvalid, "generation_id", "generation_id is missing")
	}
	if in.GetExpectedRuntimeIdentity() == "" {
		return runtimeid.Identity{}, refuseSaying(verdict.ExpectedIdentity, "expected_runtime_identity",
			"expected_runtime_identity is missing: the sandbox was created before identities were kept, and has to be created again")
	}
	expected, err := runtimeid.Parse(in.GetExpectedRuntimeIdentity())
	if err != nil {
		return runtimeid.Identity{}, refuse(verdict.ExpectedIdentity, "expected_runtime_identity", "%v", err)
	}
	return expected, nil
}

// readmit judges what the stored sandbox is attached to, against today's labels and against what it was made with (contract 7.11
// step 7, 11.5).
func (d *Driver) readmit(ctx context.Context, object *sandboxapi.Object, id string) error {
	defer d.step(callStart, "admit")()
	generation := generationOf(&object.Template, id)
	attached, err := d.inventory(&object.Template, inventory.Own{
		Namespace: object.Namespace, ObjectName: object.Name, SandboxID: id, Generation: generation,
		PullSecrets: d.deps.Templates.PullSecretNames(id, generation),
	})
	if err != nil {
		return err
	}
	before, decision := inventory.Decode(object.Annotations[workspace.AnnotationAdmissionIdentities])
	if err := granted(decision); err != nil {
		return err
	}
	now, err := d.admit(ctx, attached, object.Labels[workspace.LabelSandboxWorkspace])
	if err != nil {
		return err
	}
	return granted(before.Same(now))
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
	defer d.step(callStop, "release")()
	_, err = d.deps.Companions.Release(ctx, &supervisorv1.ReleaseRequest{
		Sandbox: d.reference(object.Namespace, object.Name, object.UID, id), Run: &supervisorv1.Run{}, RequestId: requestID(ctx),
	})
	if err != nil {
		return remote(err, verdict.SupervisorctlUnreachable, "companions.release")
	}
	return nil
}

// DeleteSandbox deletes a sandbox and all that belongs to it (contract 7.12). An absent one is no error, and what is left of it is
// removed.
func (d *Driver) DeleteSandbox(ctx context.Context, in *computev1.DeleteSandboxRequest) (*computev1.DeleteSandboxResponse, error) {
	ctx, cancel := limit(ctx, d.settings.StopTimeout.Std())
	defer cancel()
	deleted, err := d.delete(ctx, in.GetSandboxId())
	if err != nil {
		return nil, d.conclude(ctx, callDelete, in.GetSandboxId(), err)
	}
	return &computev1.DeleteSandboxResponse{Deleted: deleted}, nil
}

func (d *Driver) delete(ctx context.Context, id string) (bool, error) {
	if err := named(id); err != nil {
		return false, err
	}
	leave, err := d.gates.enter(ctx, id)
	if err != nil {
		return false, err
	}
	defer leave()
	found, err := d.deps.Finder.Find(ctx, id)
	if err != nil {
		return false, fmt.Errorf("look for sandbox %s: %w", id, err)
	}
	if len(found) == 0 {
		return false, d.removeLeftovers(ctx, id)
	}
	// Two objects with one id: the gateway wants neither.
	deleted := false
	for i := range found {
		going, err := d.deleteOne(ctx, &found[i], id)
		if err != nil {
			return false, err
		}
		deleted = deleted || going
	}
	return deleted, nil
}

// deleteOne has the companions removed in their order, then deletes the Sandbox. A companion set that cannot be removed, or a
// supervisorctl that is away, keeps nothing from being deleted: what is left goes with its owner.
func (d *Driver) deleteOne(ctx context.Context, object *sandboxapi.Object, id string) (bool, error) {
	done := d.step(callDelete, "remove")
	_, err := d.deps.Companions.Remove(ctx, &supervisorv1.RemoveRequest{
		Sandbox: d.reference(object.Namespace, object.Name, object.UID, id), Run: &supervisorv1.Run{}, RequestId: requestID(ctx),
	})
	done()
	if err != nil {
		if ctx.Err() != nil {
			return false, remote(err, verdict.SupervisorctlUnreachable, "companions.remove")
		}
		d.log.Warn().Str(keySandboxID, id).Str(keyNamespace, object.Namespace).Str(keyName, object.Name).
			AnErr("cause", remote(err, verdict.SupervisorctlUnreachable, "companions.remove")).
			Msg("the companions were not removed in their order; the Sandbox is deleted, and they go with it")
	}
	done = d.step(callDelete, "delete")
	deleted, err := d.deps.Cluster.Delete(ctx, object.Version, object.Namespace, object.Name, types.UID(object.UID))
	done()
	if err != nil || !deleted {
		return false, err
	}
	defer d.step(callDelete, "pod")()
	if !d.deps.Cluster.PodGone(ctx, object.Namespace, object.PodName(), types.UID(object.UID), podLimit) {
		d.log.Warn().Str(keySandboxID, id).Str(keyNamespace, object.Namespace).Str(keyName, object.Name).
			Msg("the sandbox is deleted, and its workload Pod was still there when the wait for it ended")
	}
	return true, nil
}

// podLimit is how long a delete waits for the workload Pod (contract 7.12).
const podLimit = time.Minute

// removeLeftovers removes what is left of a sandbox whose object is gone. Most of it the garbage collector has taken.
func (d *Driver) removeLeftovers(ctx context.Context, id string) error {
	left, err := d.deps.Cluster.Leftovers(ctx, d.kubernetes.GatewayID, id)
	if err != nil {
		return err
	}
	for _, l := range left {
		_, err := d.deps.Companions.Remove(ctx, &supervisorv1.RemoveRequest{
			Sandbox: d.reference(l.Namespace, l.Sandbox, "", id), Run: &supervisorv1.Run{}, RequestId: requestID(ctx),
		})
		if err != nil {
			return remote(err, verdict.SupervisorctlUnreachable, "companions.remove")
		}
	}
	return nil
}

// one is the Sandbox with the id, from a consistent read.
func (d *Driver) one(ctx context.Context, id string) (*sandboxapi.Object, error) {
	found, err := d.deps.Finder.Find(ctx, id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look for sandbox %s: %w", id, err)
	case len(found) == 0:
		return nil, refuse(verdict.SandboxAbsent, "sandbox.find", "no Sandbox of gateway %s has the id %s", d.kubernetes.GatewayID, bounded(id))
	case len(found) > 1:
		return nil, refuse(verdict.SandboxAmbiguous, "sandbox.find", "Sandboxes %s/%s and %s/%s have the id %s",
			found[0].Namespace, found[0].Name, found[1].Namespace, found[1].Name, id)
	}
	return &found[0], nil
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

// reap deletes what abandoned creates left behind, of whichever process.
func (d *Driver) reap(ctx context.Context) {
	ctx, cancel := limit(ctx, undoLimit)
	defer cancel()
	found, err := d.deps.Cluster.Abandoned(ctx, d.settings.AbandonedAfter.Std())
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			d.log.Warn().Err(err).Msg("could not look for what abandoned creates left behind")
		}
		return
	}
	for _, made := range found {
		log := d.log.With().Str(keyNamespace, made.Namespace).Str(keyName, made.Name).Str(keyUID, string(made.UID)).Logger()
		if _, err := d.deps.Cluster.Delete(ctx, made.Version, made.Namespace, made.Name, made.UID); err != nil {
			d.metrics.abandoned.WithLabelValues("failed").Inc()
			log.Warn().Err(err).Msg("what an abandoned create left behind could not be deleted yet")
			continue
		}
		d.metrics.abandoned.WithLabelValues("deleted").Inc()
		log.Warn().Msg("a create was never answered; what it made is deleted")
	}
}
