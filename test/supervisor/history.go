package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// Kinds of objects that a History holds.
const (
	Pods      = "pods"
	Services  = "services"
	Secrets   = "secrets"
	Policies  = "networkpolicies"
	Sandboxes = "sandboxes"
)

func resources(dialect reconcile.Dialect) map[string]schema.GroupVersionResource {
	return map[string]schema.GroupVersionResource{
		Pods: {Version: "v1", Resource: Pods}, Services: {Version: "v1", Resource: Services}, Secrets: {Version: "v1", Resource: Secrets},
		Policies: {Group: "networking.k8s.io", Version: "v1", Resource: Policies}, Sandboxes: dialect.Version.Resource(),
	}
}

// Event is one change of one object, and the object after it; before it when it was removed.
type Event struct {
	Kind    string
	Removed bool
	// Revision orders the events of all kinds: the API server keeps them in one store.
	Revision uint64
	Object   *unstructured.Unstructured
}

// String is for failed tests.
func (e Event) String() string {
	how := "is"
	if e.Removed {
		how = "is gone"
	}
	return fmt.Sprintf("%d: %s/%s (%s) %s", e.Revision, e.Kind, e.Object.GetName(), e.Object.GetUID(), how)
}

func (e Event) key() string { return e.Kind + "/" + e.Object.GetName() }

// History holds the events of all namespaces with a prefix. Safe for concurrent use.
type History struct {
	t         testing.TB
	cluster   *cluster.Cluster
	resources map[string]schema.GroupVersionResource
	prefix    string

	mu      sync.Mutex
	events  map[string][]Event // by namespace
	lawless map[string]bool
	excused map[string]bool // namespace/kind/name
	// disordered are the namespaces in which the order of a stop is not judged.
	disordered map[string]bool
	incomplete map[string]bool // namespace/kind/name
	failed     error
}

// newHistory begins one, which ends with the test and judges every namespace then.
func newHistory(t testing.TB, c *cluster.Cluster, dialect reconcile.Dialect, prefix string) *History {
	t.Helper()
	h := &History{
		t: t, cluster: c, resources: resources(dialect), prefix: prefix, events: map[string][]Event{}, lawless: map[string]bool{}, excused: map[string]bool{},
		disordered: map[string]bool{}, incomplete: map[string]bool{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
		h.judged()
	})
	for kind, resource := range h.resources {
		client := c.Dynamic().Resource(resource)
		start, err := client.List(t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			t.Fatalf("begin the history of %s: %v", kind, err)
		}
		source := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, o)
		}}
		watcher, err := watchtools.NewRetryWatcherWithContext(ctx, start.GetResourceVersion(), source)
		if err != nil {
			t.Fatalf("begin the history of %s: %v", kind, err)
		}
		running.Go(func() { h.follow(ctx, kind, watcher) })
	}
	return h
}

// judged fails the test for every breach. A history with a gap is one failure and is not judged: what it lacks would look as if it had
// never been.
func (h *History) judged() {
	h.t.Helper()
	if h.failed != nil {
		h.t.Errorf("the history has a gap, and is not judged: %v", h.failed)
		return
	}
	for namespace := range h.events {
		if !h.lawless[namespace] {
			judge(h.t, namespace, ordered(h.events[namespace]), func(e Event, breach error) bool {
				key := namespace + "/" + e.key()
				never := errors.Is(breach, errUnfenced) || errors.Is(breach, errEarly)
				return h.excused[key] || h.incomplete[key] && !never || h.disordered[namespace] && errors.Is(breach, errOrder)
			})
		}
	}
}

func (h *History) follow(ctx context.Context, kind string, watcher *watchtools.RetryWatcher) {
	defer func() { <-watcher.Done() }()
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		switch {
		case !ok || event.Type == watch.Error:
			h.lacks(fmt.Errorf("the watch of %s failed: %w", kind, apierrors.FromObject(event.Object)))
			continue
		case event.Type == watch.Bookmark, !strings.HasPrefix(object.GetNamespace(), h.prefix):
			continue
		}
		revision, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
		if err != nil {
			h.lacks(fmt.Errorf("%s %s: %w", kind, event.Type, err))
			continue
		}
		h.mu.Lock()
		at := object.GetNamespace()
		h.events[at] = append(h.events[at], Event{Kind: kind, Removed: event.Type == watch.Deleted, Revision: revision, Object: object})
		h.mu.Unlock()
	}
	if ctx.Err() == nil {
		h.lacks(fmt.Errorf("the watch of %s ended", kind))
	}
}

// lacks notes the first cause of a gap. A watch that the API server has lost track of, as it may when it has too much to do, cannot be taken
// up where it ended, and nobody can say what happened meanwhile.
func (h *History) lacks(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed == nil {
		h.failed = err
	}
}

// Lawless leaves a namespace unjudged, because the test itself breaks the rules in it.
func (h *History) Lawless(namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lawless[namespace] = true
}

// Disordered leaves the order in which a stop ends the Pods of a namespace unjudged, because the test itself takes a part away that drags
// others with it. All else counts.
func (h *History) Disordered(namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.disordered[namespace] = true
}

// Incomplete allows that a part of the set is not there or another one when a Pod, such as "pods/name", is let go, because the test itself
// damages the part. That it is fenced, and let go after its supervisor, still counts.
func (h *History) Incomplete(namespace, key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.incomplete[namespace+"/"+key] = true
}

// Excuse takes what becomes of one object, such as "pods/name", out of the judgement, because the test itself breaks the rules with it.
// What is done to others while it is so still counts.
func (h *History) Excuse(namespace, key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.excused[namespace+"/"+key] = true
}

// Events are those of a namespace up to now, in order.
func (h *History) Events(namespace string) []Event {
	h.t.Helper()
	var events []Event
	cluster.Eventually(h.t, "the history of "+namespace+" is complete", func(ctx context.Context) error {
		now, err := h.Look(ctx, namespace)
		if err != nil {
			return err
		}
		h.mu.Lock()
		events = ordered(h.events[namespace])
		h.mu.Unlock()
		state := State{}
		for _, e := range events {
			state.apply(e)
		}
		for key, object := range now {
			if seen := state[key]; seen == nil || seen.GetResourceVersion() != object.GetResourceVersion() {
				return fmt.Errorf("%s is %s and was not seen so", key, object.GetResourceVersion())
			}
		}
		if len(state) != len(now) {
			return fmt.Errorf("%d objects were seen, and there are %d", len(state), len(now))
		}
		return nil
	})
	return events
}

func ordered(events []Event) []Event {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b Event) int {
		if a.Revision < b.Revision {
			return -1
		}
		if a.Revision > b.Revision {
			return 1
		}
		return 0
	})
	return events
}

// State is the objects of a namespace by kind and name, as "pods/name".
type State map[string]*unstructured.Unstructured

func (s State) apply(e Event) {
	key := e.key()
	if e.Removed {
		delete(s, key)
		return
	}
	s[key] = e.Object
}

// Look is what is in a namespace, seen with an administrator's rights.
func (h *History) Look(ctx context.Context, namespace string) (State, error) {
	state := State{}
	for kind, resource := range h.resources {
		list, err := h.cluster.Dynamic().Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		for i := range list.Items {
			state[kind+"/"+list.Items[i].GetName()] = &list.Items[i]
		}
	}
	return state, nil
}

// Now is Look for the test's goroutine.
func (h *History) Now(namespace string) State {
	h.t.Helper()
	state, err := h.Look(h.t.Context(), namespace)
	if err != nil {
		h.t.Fatal(err)
	}
	return state
}

// Outline is what of a State only the daemon changes: which objects there are, by uid, and what the Sandboxes record and want.
func (s State) Outline() map[string]any {
	outline := map[string]any{}
	for key, object := range s {
		outline[key] = string(object.GetUID())
		if strings.HasPrefix(key, Sandboxes) {
			spec, _, _ := unstructured.NestedMap(object.Object, "spec")
			outline[key+" spec"], outline[key+" annotations"] = spec, object.GetAnnotations()
		}
	}
	return outline
}

// Companions are the keys of a State but those of the fence and of Sandboxes, sorted: what a run consists of.
func (s State) Companions() []string {
	var keys []string
	for key := range s {
		if !strings.HasPrefix(key, Sandboxes) && !strings.HasPrefix(key, Policies) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Objects is an administrator's client of a kind in a namespace.
func (h *History) Objects(kind, namespace string) dynamic.ResourceInterface {
	return h.cluster.Dynamic().Resource(h.resources[kind]).Namespace(namespace)
}
