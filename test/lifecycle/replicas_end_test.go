//go:build portcullis_long

package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/runtimeid"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
)

// rest is how a sandbox stands when nobody works on it any more.
type rest struct {
	stands, runs bool
	identity     string // of the run
}

// restOf judges on the API server, and by what each replica says, that a sandbox has come to rest: it is gone and nothing is left of it, or it
// is one Sandbox that is either suspended without a Pod and a Secret, or one run of two Pods with what belongs to them and nothing of
// any other. An error is what is still under way, or wrong for ever.
func restOf(ctx context.Context, s *lifecycle.Site, replicas []computev1.ComputeDriverClient, wish *computev1.DriverSandbox) (rest, error) {
	all, err := left(ctx, s, s.Shared, wish.GetId(), wish.GetName())
	if err != nil {
		return rest{}, err
	}
	of := map[string][]object{}
	for _, o := range all {
		of[o.kind.Resource] = append(of[o.kind.Resource], o)
	}
	switch len(of["sandboxes"]) {
	case 0:
		return rest{}, errors.Join(describe(all), absent(ctx, replicas, wish.GetId()))
	case 1:
	default:
		return rest{}, fmt.Errorf("the id has several objects: %w", describe(of["sandboxes"]))
	}
	if o := of["sandboxes"][0]; o.DeletionTimestamp != nil || o.Labels[workspace.LabelCreate] != "" {
		return rest{}, fmt.Errorf("the Sandbox is %v, going since %v", o.Labels, o.DeletionTimestamp)
	}
	u, err := s.Cluster.Dynamic().Resource(boxes).Namespace(s.Shared).Get(ctx, of["sandboxes"][0].Name, metav1.GetOptions{})
	if err != nil {
		return rest{}, err
	}
	box, err := api.Decode(u)
	if err != nil {
		return rest{}, err
	}
	if box.Suspended() {
		return rest{stands: true}, errors.Join(suspendedBreach(box, of), reported(ctx, replicas, wish.GetId(), phase.Stopped))
	}
	identity, err := runtimeid.New(box.Namespace, string(box.UID), box.Annotations[workspace.AnnotationSupervisorUID])
	return rest{stands: true, runs: true, identity: identity.String()},
		errors.Join(err, runBreach(box, of), reported(ctx, replicas, wish.GetId(), phase.Ready))
}

// suspendedBreach: nothing of a run is left but the Service, which is the sandbox's (contract 7.10), and it is not said to be ready.
func suspendedBreach(box *api.Sandbox, of map[string][]object) error {
	var problem error
	if readiness := box.Annotations[workspace.AnnotationReadiness]; readiness == workspace.ReadinessReady {
		problem = errors.New("it is suspended, and its readiness says ready")
	}
	if len(of["services"]) > 1 {
		problem = errors.Join(problem, describe(of["services"]))
	}
	return errors.Join(problem, describe(slices.Concat(of["pods"], of["secrets"])))
}

// runBreach: the run is that of the record, and everything there is belongs to it.
func runBreach(box *api.Sandbox, of map[string][]object) error {
	record := box.Annotations
	if record[workspace.AnnotationReadiness] != workspace.ReadinessReady || record[workspace.AnnotationBootstrapping] == workspace.True {
		return fmt.Errorf("its record says readiness %q, bootstrapping %q", record[workspace.AnnotationReadiness], record[workspace.AnnotationBootstrapping])
	}
	pods := []types.UID{types.UID(record[workspace.AnnotationWorkloadUID]), types.UID(record[workspace.AnnotationSupervisorUID])}
	for _, pod := range of["pods"] {
		if !slices.Contains(pods, pod.UID) || pod.DeletionTimestamp != nil {
			return fmt.Errorf("the record has the Pods %v, and %s is %s, going since %v", pods, pod.Name, pod.UID, pod.DeletionTimestamp)
		}
	}
	if len(of["pods"]) != len(pods) || len(of["services"]) != 1 || len(of["secrets"]) == 0 {
		return fmt.Errorf("of a run %w", describe(slices.Concat(of["pods"], of["services"], of["secrets"])))
	}
	for _, secret := range of["secrets"] {
		for _, owner := range secret.OwnerReferences {
			if owner.Kind != "Pod" || !slices.Contains(pods, owner.UID) {
				return fmt.Errorf("the Secret %s belongs to %s %s of no run", secret.Name, owner.Kind, owner.UID)
			}
		}
		if len(secret.OwnerReferences) == 0 || secret.DeletionTimestamp != nil {
			return fmt.Errorf("the Secret %s has no owner or is going", secret.Name)
		}
	}
	return nil
}

// absent: no replica knows the sandbox, and each has looked.
func absent(ctx context.Context, replicas []computev1.ComputeDriverClient, id string) error {
	for k, replica := range replicas {
		if _, err := replica.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: id}); status.Code(err) != codes.NotFound {
			return fmt.Errorf("nothing is left, and replica %d says %w", k, err)
		}
	}
	return nil
}

// reported: each replica says what a gateway takes for the phase.
func reported(ctx context.Context, replicas []computev1.ComputeDriverClient, id string, want phase.Phase) error {
	for k, replica := range replicas {
		got, err := replica.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: id})
		if err != nil {
			return fmt.Errorf("replica %d: %w", k, err)
		}
		told, err := phase.FromDriver(got.GetSandbox().GetStatus())
		if err != nil {
			return fmt.Errorf("replica %d: %w", k, err)
		}
		if is := phase.Backend(told); is != want {
			return fmt.Errorf("replica %d says %s, and it is %s: %v", k, is, want, got.GetSandbox().GetStatus().GetConditions())
		}
	}
	return nil
}

// census looks all the time how many objects each sandbox id has.
type census struct {
	mu      sync.Mutex
	ended   bool
	there   map[string]map[types.UID]bool
	highest map[string]int
}

func newCensus(t *testing.T, s *lifecycle.Site) *census {
	t.Helper()
	w, err := s.Cluster.Dynamic().Resource(boxes).Namespace(s.Shared).Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	c := &census{there: map[string]map[types.UID]bool{}, highest: map[string]int{}}
	var running sync.WaitGroup
	running.Go(func() {
		for event := range w.ResultChan() {
			c.take(event)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended = true
	})
	t.Cleanup(func() {
		w.Stop()
		running.Wait()
	})
	return c
}

func (c *census) take(event watch.Event) {
	object, ok := event.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := object.GetLabels()[workspace.LabelSandboxID]
	if c.there[id] == nil {
		c.there[id] = map[types.UID]bool{}
	}
	c.there[id][object.GetUID()] = true
	if event.Type == watch.Deleted {
		delete(c.there[id], object.GetUID())
	}
	c.highest[id] = max(c.highest[id], len(c.there[id]))
}

// demand waits until all is seen to be gone, so that nothing was missed, and fails the test when an id had never one object, or ever more.
func (c *census) demand(t *testing.T, ids []string) {
	t.Helper()
	cluster.Eventually(t, "every Sandbox is seen to go", func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ended {
			t.Fatal("the watch of the Sandboxes has ended, so there may have been more than it saw")
		}
		for _, id := range ids {
			if len(c.there[id]) != 0 || c.highest[id] == 0 {
				return fmt.Errorf("sandbox %s has %d objects, and had at most %d", id, len(c.there[id]), c.highest[id])
			}
		}
		return nil
	})
	c.mu.Lock() // what is told late is taken still
	defer c.mu.Unlock()
	for _, id := range ids {
		if c.highest[id] != 1 {
			t.Errorf("sandbox %s had %d objects at once", id, c.highest[id])
		}
	}
}
