package conduct

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const (
	// goingLimit is for how long Secrets may be in the way of an attempt, all together, whose sandbox had others before: they are the
	// garbage collector's, which takes a moment when it does well. The attempt has its Secrets and two gates to go after that.
	goingLimit = 10 * time.Second
	// seldom is the longest pause between two tries of a Secret that is in the way: each is a write.
	seldom = time.Second
)

// place makes one Secret. One that is in the way cannot be looked at, and is not deleted, since it may be anybody's: if it is ours it goes
// with its Pod. If afresh says that its Pod may just have gone, it is waited for. ErrExists says that it stays.
func (r *round) place(ctx context.Context, s *corev1.Secret, afresh bool) error {
	pauses := pauses(shortest, seldom)
	for {
		uid, err := r.cluster.CreateSecret(ctx, s)
		switch {
		case err == nil:
			if r.made == nil {
				r.made = map[string]string{}
			}
			r.made[s.Name] = uid
			delete(r.unheard, s.Name)
			return nil
		case errors.Is(err, cluster.ErrUnsettled):
			if r.unheard == nil {
				r.unheard = map[string]bool{}
			}
			r.unheard[s.Name] = true
			return err
		case !errors.Is(err, cluster.ErrExists):
			return err
		case !afresh || r.unheard[s.Name]:
			return err
		case r.blocked.IsZero():
			r.blocked = time.Now()
		case time.Since(r.blocked) > goingLimit:
			return err
		}
		if !sleep(ctx, pauses.NextBackOff()) {
			return context.Cause(ctx)
		}
	}
}

// inTheWay is the refusal of a start whose Secret is in the way of itself, or another one's is. Nothing tells which.
func (r *round) inTheWay(s *corev1.Secret) plan.Step {
	refused := refusal(plan.Collision, "a Secret %s exists, which this attempt did not make", s.Name)
	if r.unheard[s.Name] {
		refused = refusal(plan.Broke, "a Secret %s exists, and the answer to the request that may have made it was lost, so that it may be anybody's", s.Name)
	}
	refused.Undo = true
	return refused
}

// deleteMade deletes the Secrets that this round made, and heard that it did.
func (r *round) deleteMade(ctx context.Context) error {
	r.attempt.MadeFor, r.attempt.Secrets, r.attempt.Evidence = plan.Bound{}, "", ""
	return r.deleteKnown(ctx, r.made)
}

// deleteSecrets deletes those of the recorded run, and those that this round made.
func (r *round) deleteSecrets(ctx context.Context) error {
	if box := r.seen.box.value; box != nil && box.UID == r.goal.Ref.UID {
		if record, err := runstate.Of(box.Annotations); err == nil {
			if err := r.deleteKnown(ctx, secretsOf(record.Secrets, r.goal.Ref.SandboxID, record.Generation)); err != nil {
				return err
			}
		}
	}
	if err := r.deleteMade(ctx); err != nil {
		return err
	}
	r.attempt.SecretsGone = true
	return nil
}

// deleteKnown deletes Secrets by their names and uids, and takes them out of what this round made.
func (r *round) deleteKnown(ctx context.Context, known map[string]string) error {
	// The supervisor's goes first, as it came last.
	names := slices.SortedFunc(maps.Keys(known), func(a, b string) int { return strings.Compare(b, a) })
	for _, name := range names {
		if uid := known[name]; uid != "" {
			if err := r.cluster.DeleteSecret(ctx, r.goal.Ref.Namespace, name, uid); err != nil {
				return err
			}
			if r.made[name] == uid {
				delete(r.made, name)
			}
		}
	}
	return nil
}

// secretsRecord is what the record says of Secrets: names and uids, in the order of the names.
func secretsRecord(made map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(made)) {
		all = append(all, name+"="+made[name])
	}
	return strings.Join(all, ",")
}

// secretsOf reads it. Whoever can write to the record can name any Secret in it, so only those that have the names of the run's are
// taken from it.
func secretsOf(record, sandboxID, generation string) map[string]string {
	known := map[string]string{}
	if record == "" || generation == "" {
		return known
	}
	names := map[string]bool{workspace.SandboxSecret(sandboxID, generation): true, workspace.SupervisorSecret(sandboxID, generation): true}
	for i := range mostSecrets {
		names[workspace.PullSecret(sandboxID, generation, i)] = true
	}
	for one := range strings.SplitSeq(record, ",") {
		if name, uid, ok := strings.Cut(one, "="); ok && names[name] {
			known[name] = uid
		}
	}
	return known
}

// mostSecrets is how many copies of pull Secrets a run may have that are known by their uids.
const mostSecrets = 64
