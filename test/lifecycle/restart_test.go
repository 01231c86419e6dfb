package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
)

// turn is the condition whose message counts the changes that a test makes of a sandbox; the driver passes it on as it is. It is the
// reason of the events with the same numbers, too.
const turn = "PortcullisTestTurn"

// diary is all that a stream has told of turns, in order. Safe for concurrent use.
type diary struct {
	mu       sync.Mutex
	ended    error
	turns    []int          // those of the sandbox that turns
	happened map[int]int    // how often each numbered event was told
	ready    map[string]int // how often a sandbox was told to be ready
	deleted  map[string]int
}

// keep opens a stream and writes down what it tells until the test ends.
func keep(t *testing.T, s *lifecycle.Site) *diary {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	in, err := s.Driver.WatchSandboxes(ctx, &computev1.WatchSandboxesRequest{})
	must(t, err)
	d := &diary{happened: map[int]int{}, ready: map[string]int{}, deleted: map[string]int{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			event, err := in.Recv()
			d.mu.Lock()
			if d.ended = err; err == nil {
				d.take(event)
			}
			d.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return d
}

func (d *diary) take(event *computev1.WatchSandboxesEvent) {
	if gone := event.GetDeleted(); gone != nil {
		d.deleted[gone.GetSandboxId()]++
	}
	if e := event.GetPlatformEvent().GetEvent(); e.GetReason() == turn {
		n, _ := strconv.Atoi(e.GetMessage())
		d.happened[n]++
	}
	box := event.GetSandbox().GetSandbox()
	if n, turns := turnOf(box); turns {
		d.turns = append(d.turns, n)
	}
	if isReady(box) {
		d.ready[box.GetId()]++
	}
}

func turnOf(box *computev1.DriverSandbox) (n int, turns bool) {
	for _, c := range box.GetStatus().GetConditions() {
		if c.GetType() == turn {
			n, _ = strconv.Atoi(c.GetMessage())
			return n, true
		}
	}
	return 0, false
}

func isReady(box *computev1.DriverSandbox) bool {
	return slices.ContainsFunc(box.GetStatus().GetConditions(), func(c *computev1.DriverCondition) bool {
		return c.GetType() == "Ready" && c.GetStatus() == "True"
	})
}

// demand waits until the stream, which must not have ended, has told something.
func (d *diary) demand(t *testing.T, what string, told func() error) {
	t.Helper()
	cluster.Eventually(t, what, func(context.Context) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.ended != nil {
			t.Fatalf("the stream ended: %v", d.ended)
		}
		return told()
	})
}

// last is the last turn that was told; zero before the first.
func (d *diary) last() int {
	if len(d.turns) == 0 {
		return 0
	}
	return d.turns[len(d.turns)-1]
}

// past is nil when a later turn was told.
func (d *diary) past(turn int) error {
	if d.last() <= turn {
		return fmt.Errorf("the last turn was %d, want one after %d", d.last(), turn)
	}
	return nil
}

// turner changes a sandbox without a pause, each time with a number and an event of that number, whether the API server is there or not.
type turner struct {
	site    *lifecycle.Site
	name    string
	uid     types.UID
	stop    context.CancelFunc
	running sync.WaitGroup
	made    atomic.Int64
	failure error // valid when it has ended
}

func turning(t *testing.T, s *lifecycle.Site, name string) *turner {
	t.Helper()
	box, err := s.Cluster.Dynamic().Resource(boxes).Namespace(s.Shared).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	stopping, stop := context.WithCancel(t.Context())
	r := &turner{site: s, name: name, uid: box.GetUID(), stop: stop}
	ctx := t.Context()
	r.running.Go(func() {
		for stopping.Err() == nil && r.failure == nil {
			if r.failure = r.turn(ctx, int(r.made.Load())+1); r.failure == nil {
				r.made.Add(1)
			}
		}
	})
	t.Cleanup(r.end)
	return r
}

func (r *turner) end() {
	r.stop()
	r.running.Wait()
}

// turn tries until it is done. What the API server has done, though its answer was lost, is not done again.
func (r *turner) turn(ctx context.Context, n int) error {
	try := func(once func() error) error {
		for {
			err := once()
			if err == nil || ctx.Err() != nil {
				return err
			}
			if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
				return err
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond): // it is down, or another has written
			}
		}
	}
	sandboxes := r.site.Cluster.Dynamic().Resource(boxes).Namespace(r.site.Shared)
	now := metav1.Now()
	return errors.Join(try(func() error {
		box, err := sandboxes.Get(ctx, r.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(box.Object, "status", "conditions")
		if err != nil {
			return err
		}
		conditions = slices.DeleteFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == turn })
		conditions = append(conditions, map[string]any{
			"type": turn, "status": "True", "reason": turn, "message": strconv.Itoa(n), "lastTransitionTime": now.UTC().Format(time.RFC3339),
		})
		if err := unstructured.SetNestedSlice(box.Object, conditions, "status", "conditions"); err != nil {
			return err
		}
		_, err = sandboxes.UpdateStatus(ctx, box, metav1.UpdateOptions{})
		return err
	}), try(func() error {
		_, err := r.site.Cluster.Client().CoreV1().Events(r.site.Shared).Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("turn-%d", n), Namespace: r.site.Shared},
			InvolvedObject: corev1.ObjectReference{APIVersion: boxes.GroupVersion().String(), Kind: "Sandbox", Namespace: r.site.Shared, Name: r.name, UID: r.uid},
			Type:           corev1.EventTypeNormal, Reason: turn, Message: strconv.Itoa(n), FirstTimestamp: now, LastTimestamp: now, Count: 1,
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}))
}

// truthful asks all the time what there is: no answer may say that a sandbox is not there that is.
type truthful struct {
	stop    context.CancelFunc
	running sync.WaitGroup
	answers int
	lies    []error
}

func asking(t *testing.T, s *lifecycle.Site, id string) *truthful {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	a := &truthful{stop: stop}
	a.running.Go(func() {
		for ctx.Err() == nil {
			_, err := s.Driver.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: id})
			if status.Code(err) == codes.NotFound {
				a.lies = append(a.lies, fmt.Errorf("a get says %w", err))
			}
			list, err := s.Driver.ListSandboxes(ctx, &computev1.ListSandboxesRequest{})
			if err != nil {
				continue
			}
			a.answers++
			if !slices.ContainsFunc(list.GetSandboxes(), func(box *computev1.DriverSandbox) bool { return box.GetId() == id }) {
				a.lies = append(a.lies, fmt.Errorf("a list of %d lacks it", len(list.GetSandboxes())))
			}
		}
	})
	t.Cleanup(a.end)
	return a
}

func (a *truthful) end() {
	a.stop()
	a.running.Wait()
}

// TestAPIServerRestarts: the API server is killed twice while a sandbox changes all the time, and comes back with nothing in its watch
// cache. The stream that was open goes on; every change's number is higher than the one before, the last one comes, each event is told
// once, the sandbox that went is told of once, and no answer in all that time says that what is there is not. A stream that is opened
// then begins with what there is.
func TestAPIServerRestarts(t *testing.T) {
	t.Parallel()
	private := cluster.StartPrivate(t)
	s := lifecycle.Raise(t, private.Cluster, reconcile.Newest(), "shared")
	d := keep(t, s)
	stays, goes, comes := s.Wish("team", "stays"), s.Wish("team", "goes"), s.Wish("team", "comes")
	for _, wish := range []*computev1.DriverSandbox{stays, goes} {
		_, err := s.Driver.CreateSandbox(s.Context(), &computev1.CreateSandboxRequest{Sandbox: wish})
		must(t, err)
	}
	d.demand(t, "both are ready", func() error { return allReady(d, stays, goes) })
	turner := turning(t, s, "team--stays")
	asked := asking(t, s, stays.GetId())

	const kills, between = 2, 10
	for kill := range kills {
		before := int(turner.made.Load())
		d.demand(t, "some turns are told", func() error { return d.past(before + between) })
		private.APIServer().Kill()
		private.RestartAPIServer(t)
		if kill == 0 { // before lifecycle has a watch again
			must(t, s.Cluster.Dynamic().Resource(boxes).Namespace(s.Shared).Delete(t.Context(), "team--goes", metav1.DeleteOptions{}))
		}
		since := int(turner.made.Load())
		d.demand(t, "the stream goes on", func() error { return d.past(since) })
	}
	s.Eventually("a sandbox can be created again", func() error {
		_, err := s.Driver.CreateSandbox(s.Context(), &computev1.CreateSandboxRequest{Sandbox: comes})
		return err
	})
	turner.end()
	asked.end()
	must(t, turner.failure)
	turns := int(turner.made.Load())
	d.demand(t, "everything is told", func() error { return d.whole(turns, goes, comes) })
	d.judge(t, turns, goes)
	for _, lie := range asked.lies {
		t.Errorf("the sandbox is there, and %v", lie)
	}
	if asked.answers == 0 {
		t.Error("no list was answered")
	}
	demandSnapshot(t, s, turns, stays, comes)
}

func allReady(d *diary, wishes ...*computev1.DriverSandbox) error {
	for _, wish := range wishes {
		if d.ready[wish.GetId()] == 0 {
			return fmt.Errorf("sandbox %s was not told to be ready", wish.GetName())
		}
	}
	return nil
}

// whole is nil when the stream has told everything.
func (d *diary) whole(turns int, goes, comes *computev1.DriverSandbox) error {
	switch {
	case d.last() != turns:
		return fmt.Errorf("the last turn was %d, and that which was told last %d", turns, d.last())
	case len(d.happened) < turns:
		return fmt.Errorf("%d of %d events were told", len(d.happened), turns)
	case d.deleted[goes.GetId()] == 0:
		return errors.New("the deletion was not told")
	}
	return allReady(d, comes)
}

// judge demands that nothing was told twice, and no older state after a newer one.
func (d *diary) judge(t *testing.T, turns int, goes *computev1.DriverSandbox) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	t.Logf("%d turns, of which %d snapshots told", turns, len(d.turns))
	if !slices.IsSorted(d.turns) {
		t.Errorf("an older state was told after a newer one: %v", d.turns)
	}
	for n := 1; n <= turns; n++ {
		if d.happened[n] != 1 {
			t.Errorf("event %d was told %d times", n, d.happened[n])
		}
	}
	if len(d.deleted) != 1 || d.deleted[goes.GetId()] != 1 {
		t.Errorf("deletions: %v", d.deleted)
	}
}

// demandSnapshot opens a stream: before anything else it tells each sandbox that there is, as the list has it. The first has turned.
func demandSnapshot(t *testing.T, s *lifecycle.Site, turns int, there ...*computev1.DriverSandbox) {
	t.Helper()
	list, err := s.Driver.ListSandboxes(s.Context(), &computev1.ListSandboxesRequest{})
	must(t, err)
	in, err := s.Driver.WatchSandboxes(s.Context(), &computev1.WatchSandboxesRequest{})
	must(t, err)
	told := map[string]*computev1.DriverSandbox{}
	for range there {
		event, err := in.Recv()
		must(t, err)
		box := event.GetSandbox().GetSandbox()
		told[box.GetId()] = box
	}
	for i, wish := range there {
		box := told[wish.GetId()]
		if n, _ := turnOf(box); !isReady(box) || i == 0 && n != turns {
			t.Errorf("a new stream begins with sandbox %s at turn %d, want %d: %v", wish.GetName(), n, turns, box)
		}
		if !slices.ContainsFunc(list.GetSandboxes(), func(listed *computev1.DriverSandbox) bool { return proto.Equal(listed, box) }) {
			t.Errorf("a new stream begins with %v, and the list has %v", box, list.GetSandboxes())
		}
	}
	if len(list.GetSandboxes()) != len(there) {
		t.Errorf("the list has %d sandboxes, want %d", len(list.GetSandboxes()), len(there))
	}
}
