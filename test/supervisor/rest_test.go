//go:build portcullis_long

package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// readyLimit is how long a released run may take until it is ready (contract 7.15).
const readyLimit = 5 * time.Minute

// limit ends the wait for a case's end.
func (d *damage) limit() time.Duration {
	if d.starves() {
		return recovery + readyLimit
	}
	return recovery
}

// starves reports whether a Pod may have been let go without the Secret that it mounts. Nobody who raises runs may look for a Secret, so such a
// run has all the time that a run has.
func (d *damage) starves() bool {
	return d.victimOf.kind == supervisor.Secrets && d.how != edited && d.when == beforeGates
}

// contested reports whether a stranger's Pod has the workload's name. As long as it is there the controller does not say of the Sandbox that
// it is suspended, and no stop is complete (contract 7.10 step 6).
func (d *damage) contested() bool { return d.victim == "workload Pod" && d.how == replaced }

// giveWay looks at a sandbox whose stop a stranger's Pod holds up, and takes the Pod away: nothing of the run is left that could run, the stop
// says at once what is in its way, and so does Status.
func (d *damage) giveWay(ctx context.Context, s *supervisor.Site, client *supervisor.Client) error {
	if err := until(ctx, func(ctx context.Context) error { return d.heldUp(ctx, s) }); err != nil {
		return err
	}
	if decision, _ := verdict.FromError(d.call); d.call != nil && decision.Reason != verdict.CompanionCollision {
		return fmt.Errorf("the call is refused with %s", reasonOf(d.call))
	}
	err := supervisor.Insist(ctx, func(ctx context.Context) error { return released(ctx, client, d.box) })
	if decision, _ := verdict.FromError(err); decision.Reason != verdict.CompanionCollision {
		return fmt.Errorf("a stop is answered with %s", reasonOf(err))
	}
	status, err := client.Status(ctx, d.box)
	if err != nil {
		return fmt.Errorf("ask for the status: %w", err)
	}
	if err := tellsStranger(status); err != nil {
		return err
	}
	if err := d.untouched(ctx, s); err != nil {
		return err
	}
	objects := s.History.Objects(d.victimOf.kind, d.box.Namespace)
	if err := objects.Delete(ctx, d.stranger.GetName(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		return fmt.Errorf("take the stranger's Pod away: %w", err)
	}
	d.stranger = nil
	return nil
}

// heldUp says what is wrong with a sandbox that waits for a stranger's Pod to go.
func (d *damage) heldUp(ctx context.Context, s *supervisor.Site) error {
	now, err := s.History.Look(ctx, d.box.Namespace)
	if err != nil {
		return err
	}
	for _, key := range now.Companions() {
		if now[key].GetKind() == "Pod" && now[key].GetUID() != d.stranger.GetUID() {
			return fmt.Errorf("there is %s with uid %s", key, now[key].GetUID())
		}
	}
	object, err := d.box.Object(ctx)
	if err != nil {
		return err
	}
	if r := recordOf(object); r["bootstrap-phase"] != "suspending" || r["readiness"] != "unavailable" {
		return fmt.Errorf("the record is %v", r)
	}
	return nil
}

// tellsStranger says what of a status does not name a stranger's Pod as what is in the way.
func tellsStranger(status *supervisorv1.CompanionStatus) error {
	i := slices.IndexFunc(status.GetConditions(), func(c *supervisorv1.Condition) bool {
		return c.GetPart() == supervisorv1.Part_PART_WORKLOAD_POD
	})
	if status.GetPhase() != supervisorv1.Phase_PHASE_SUSPENDING || status.GetReadiness() != supervisorv1.Readiness_READINESS_UNAVAILABLE || i < 0 {
		return fmt.Errorf("the status is %v", status)
	}
	c := status.GetConditions()[i]
	if c.GetAvailability() != supervisorv1.Availability_AVAILABILITY_UNAVAILABLE || c.GetReason() != "Foreign" || c.GetMessage() == "" {
		return fmt.Errorf("the workload Pod's condition is %v", c)
	}
	return nil
}

// rest says why the sandbox has not come to rest.
func (d *damage) rest(ctx context.Context, s *supervisor.Site) error {
	now, err := s.History.Look(ctx, d.box.Namespace)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(now.Companions(), func(key string) bool { return d.stranger != nil && now[key].GetUID() == d.stranger.GetUID() })
	box := now[supervisor.Sandboxes+"/"+d.box.Name]
	if box == nil || string(box.GetUID()) != d.box.UID {
		if len(left) > 0 {
			return fmt.Errorf("the Sandbox is gone, and there is %v", left)
		}
		d.outcome = "gone"
		return nil
	}
	object, err := d.box.Object(ctx)
	if err != nil {
		return err
	}
	record := recordOf(object)
	if !object.Suspended() {
		d.outcome = "up"
		if d.ends() {
			return fmt.Errorf("the run goes on, its record is %v", record)
		}
		return quiet(ctx, s, d.box, d.taken()...)
	}
	if len(left) > 1 || len(left) == 1 && left[0] != supervisor.Services+"/"+d.box.ServiceName() {
		return fmt.Errorf("it is suspended, and there is %v; the record is %v", left, record)
	}
	d.outcome = "stopped: " + record["stop-reason"] + " " + record["stop-explanation"]
	if unasked := d.starves() || d.when == running; unasked && (record["stop-reason"] == "" || record["stop-explanation"] == "") {
		return errors.New("nothing says why the run was stopped")
	}
	return settled(ctx, s, d.box)
}

// taken are the parts that a run that is up may be without: a Secret that its Pod has read.
func (d *damage) taken() []string {
	if d.victimOf.kind != supervisor.Secrets || d.how == edited {
		return nil
	}
	return []string{d.victimOf.kind + "/" + d.victimOf.name(d.box)}
}

// ends reports whether the run cannot go on. Before it is released a part that is gone may be made again; what is in a Secret has been
// read; and the controller puts the workload's labels back.
func (d *damage) ends() bool {
	begun := d.when == running || d.when == stopping
	return begun && d.victimOf.kind != supervisor.Secrets && (d.victim != "workload Pod" || d.how != edited || d.when == stopping)
}

// untouched demands that the stranger's object is as it was made.
func (d *damage) untouched(ctx context.Context, s *supervisor.Site) error {
	if d.stranger == nil {
		return nil
	}
	now, err := s.History.Objects(d.victimOf.kind, d.box.Namespace).Get(ctx, d.stranger.GetName(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("the stranger's object: %w", err)
	}
	if now.GetUID() != d.stranger.GetUID() || now.GetDeletionTimestamp() != nil {
		return errors.New("the stranger's object was replaced or deleted")
	}
	return nil
}
