package driver

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"k8s.io/apimachinery/pkg/types"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/cluster"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

const (
	// undoLimit bounds what is done for a caller that is gone.
	undoLimit = 30 * time.Second
	// debtLimit bounds one try of Run at what is owed.
	debtLimit = 10 * time.Second
)

// left is what a create made that was answered with an error.
type left struct {
	made cluster.Made
	id   string
	// marked says that it bears the mark of an unanswered create for certain, so that any process finds it.
	marked bool
}

// debts are what is left of creates and could not be deleted in their time, by uid. Each is an object in the cluster, so there are no more of
// them than the cluster has room for. Safe for concurrent use.
type debts struct {
	mu   sync.Mutex
	owed map[types.UID]left
}

func newDebts() *debts { return &debts{owed: map[types.UID]left{}} }

func (d *debts) add(l left) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owed[l.made.UID] = l
}

func (d *debts) paid(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.owed, uid)
}

// all are those of now, in the order of their uids.
func (d *debts) all() []left {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]left, 0, len(d.owed))
	for _, uid := range slices.Sorted(maps.Keys(d.owed)) {
		all = append(all, d.owed[uid])
	}
	return all
}

// repeatedly does something until it succeeds, ctx ends, or it says that it never will. The error is the last one.
func repeatedly(ctx context.Context, do func() error) error {
	var last error
	pauses := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0),
	)
	err := backoff.Retry(func() error { last = do(); return last }, backoff.WithContext(pauses, ctx))
	if never := new(backoff.PermanentError); errors.As(last, &never) {
		return never.Err
	}
	if err != nil && last != nil { // it tells more than that the time was up
		return last
	}
	return err
}

// undo deletes what a create made, whatever has become of its caller. What cannot be deleted in time is left to Run: no gateway is going to
// ask for it.
func (d *Driver) undo(ctx context.Context, l left, cause error) {
	defer d.step(callCreate, "undo")()
	ctx, cancel := limit(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	log := d.log.With().Str(keySandboxID, l.id).Str(keyNamespace, l.made.Namespace).Str(keyName, l.made.Name).Str(keyUID, string(l.made.UID)).Logger()
	if err := repeatedly(ctx, func() error { return d.end(ctx, l) }); err != nil {
		d.debts.add(l)
		log.Error().Err(err).AnErr("cause", cause).Bool("marked", l.marked).
			Msg("a create failed, and its Sandbox could not be deleted yet; this process goes on trying until it is gone")
		return
	}
	log.Info().AnErr("cause", cause).Msg("a create failed, and its Sandbox is deleted")
}

func (d *Driver) end(ctx context.Context, l left) error {
	_, err := d.deps.Cluster.Delete(ctx, l.made.Version, l.made.Namespace, l.made.Name, l.made.UID)
	return err
}

func (d *Driver) endWithin(ctx context.Context, l left, by time.Duration) error {
	ctx, cancel := limit(ctx, by)
	defer cancel()
	return d.end(ctx, l)
}

// payDebts deletes what undo could not.
func (d *Driver) payDebts(ctx context.Context) {
	for _, l := range d.debts.all() {
		log := d.log.With().Str(keySandboxID, l.id).Str(keyNamespace, l.made.Namespace).Str(keyName, l.made.Name).Str(keyUID, string(l.made.UID)).Logger()
		if err := d.endWithin(ctx, l, debtLimit); err != nil {
			d.metrics.abandoned.WithLabelValues("failed").Inc()
			log.Warn().Err(err).Bool("marked", l.marked).Msg("what a failed create had made could not be deleted yet")
			continue
		}
		d.debts.paid(l.made.UID)
		d.metrics.abandoned.WithLabelValues("deleted").Inc()
		log.Info().Msg("what a failed create had made is deleted")
	}
}

// retract ends a run that was refused after it had begun, whatever has become of its caller. Only that run: a later one is not touched.
func (d *Driver) retract(ctx context.Context, id string, run *supervisorv1.Run, object *sandboxapi.Object, cause error) {
	defer d.step(callStart, "retract")()
	ctx, cancel := limit(context.WithoutCancel(ctx), d.settings.StopTimeout.Std())
	defer cancel()
	log := d.log.With().Str(keySandboxID, id).Str(keyNamespace, object.Namespace).Str(keyName, object.Name).Logger()
	err := repeatedly(ctx, func() error {
		_, err := d.deps.Companions.Release(ctx, &supervisorv1.ReleaseRequest{
			Sandbox: d.reference(object.Namespace, object.Name, object.UID, id), Run: run, RequestId: requestID(ctx),
		})
		if err == nil {
			return nil
		}
		err = remote(ctx, err, verdict.SupervisorctlUnreachable, "companions.release")
		if decisionOf(err, "companions.release").Outcome() == verdict.Denied {
			return backoff.Permanent(err)
		}
		return err
	})
	if err != nil {
		log.Error().Err(err).AnErr("cause", cause).Msg("a start was refused when its run had begun, and the run could not be ended; stop the sandbox")
		return
	}
	log.Warn().AnErr("cause", cause).Msg("a start was refused when its run had begun, and the run is ended")
}

// reap deletes what abandoned creates left behind, of whichever process.
func (d *Driver) reap(ctx context.Context) {
	ctx, cancel := limit(ctx, undoLimit)
	defer cancel()
	d.payDebts(ctx)
	found, err := d.deps.Cluster.Abandoned(ctx, d.settings.AbandonedAfter.Std())
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			d.log.Warn().Err(err).Msg("could not look for what abandoned creates left behind")
		}
		return
	}
	for _, made := range found {
		log := d.log.With().Str(keyNamespace, made.Namespace).Str(keyName, made.Name).Str(keyUID, string(made.UID)).Logger()
		switch err := d.deps.Cluster.Reap(ctx, made); {
		case errors.Is(err, cluster.ErrChanged): // perhaps it is answered for by now; the next look says
		case err != nil:
			d.metrics.abandoned.WithLabelValues("failed").Inc()
			log.Warn().Err(err).Msg("what an abandoned create left behind could not be deleted yet")
		default:
			d.metrics.abandoned.WithLabelValues("deleted").Inc()
			log.Warn().Msg("a create was never answered; what it made is deleted")
		}
	}
}
