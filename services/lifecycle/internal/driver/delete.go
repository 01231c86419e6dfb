package driver

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

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
	found, err := d.find(ctx, id)
	if err != nil {
		return false, err
	}
	if len(found) == 0 {
		return false, d.removeLeftovers(ctx, id)
	}
	if !oneTenant(found) {
		return false, ambiguous(found, id)
	}
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

// oneTenant reports whether several Sandboxes with one id are of one workspace. Then they are of whoever may make Sandboxes there, and the
// gateway wants none of them. Otherwise one may be somebody else's who never asked for its end: nothing in the objects says which is the
// gateway's, and a person has to.
func oneTenant(found []sandboxapi.Object) bool {
	for i := range found {
		o := &found[i]
		if o.Namespace != found[0].Namespace || o.Labels[workspace.LabelSandboxWorkspace] != found[0].Labels[workspace.LabelSandboxWorkspace] {
			return false
		}
	}
	return true
}

// deleteOne has the companions removed in their order, then deletes the Sandbox. Neither a companion set that cannot be removed, or not in
// time, nor a supervisorctl that is away keeps it from being deleted: what is left goes with its owner.
func (d *Driver) deleteOne(ctx context.Context, object *sandboxapi.Object, id string) (bool, error) {
	log := d.log.With().Str(keySandboxID, id).Str(keyNamespace, object.Namespace).Str(keyName, object.Name).Logger()
	if err := d.removeFirst(ctx, object, id); err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		log.Warn().AnErr("cause", err).Msg("the companions were not removed in their order; the Sandbox is deleted, and they go with it")
	}
	done := d.step(callDelete, "delete")
	deleted, err := d.deps.Cluster.Delete(ctx, object.Version, object.Namespace, object.Name, types.UID(object.UID))
	done()
	if err != nil || !deleted {
		return false, err
	}
	defer d.step(callDelete, "pod")()
	if !d.deps.Cluster.PodGone(ctx, object.Namespace, object.PodName(), types.UID(object.UID), podLimit) {
		log.Warn().Msg("the sandbox is deleted, and its workload Pod was still there when the wait for it ended")
	}
	return true, nil
}

const (
	// podLimit is how long a delete waits for the workload Pod (contract 7.12).
	podLimit = time.Minute
	// deleteShare is what the removal of the companions leaves of a call's time for the delete itself; half, where there is less.
	deleteShare = 15 * time.Second
)

func (d *Driver) removeFirst(ctx context.Context, object *sandboxapi.Object, id string) error {
	defer d.step(callDelete, "remove")()
	if end, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-min(deleteShare, time.Until(end)/2)))
		defer cancel()
	}
	return d.remove(ctx, d.reference(object.Namespace, object.Name, object.UID, id))
}

func (d *Driver) remove(ctx context.Context, set *supervisorv1.SandboxRef) error {
	_, err := d.deps.Companions.Remove(ctx, &supervisorv1.RemoveRequest{Sandbox: set, Run: &supervisorv1.Run{}, RequestId: requestID(ctx)})
	if err != nil {
		return remote(ctx, err, verdict.SupervisorctlUnreachable, "companions.remove")
	}
	return nil
}

// removeLeftovers removes what is left of a sandbox whose object is gone. Most of it the garbage collector has taken, and it takes what
// cannot be removed here: a delete of what is not there does not fail because of it, and one that stays keeps no other from going. Only
// that nobody can say what is left is an error.
func (d *Driver) removeLeftovers(ctx context.Context, id string) error {
	defer d.step(callDelete, "leftovers")()
	left, problem := d.deps.Cluster.Leftovers(ctx, d.kubernetes.GatewayID, id)
	for _, l := range left {
		err := d.remove(ctx, d.reference(l.Namespace, l.Sandbox, l.UID, id))
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			d.log.Warn().Str(keySandboxID, id).Str(keyNamespace, l.Namespace).Str(keyName, l.Sandbox).Str(keyUID, l.UID).
				AnErr("cause", err).Msg("what is left of a sandbox that is gone was not removed; it goes with its owner")
		}
	}
	return problem
}
