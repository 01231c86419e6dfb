package lifecycle_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/poddriver"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
)

// stream is one watch, as a gateway has it. Safe for concurrent use.
type stream struct {
	mu      sync.Mutex
	ended   error
	ready   map[string]bool
	deleted map[string]int
	// said are the messages of the condition Ready, with when they were told first.
	said map[string]map[string]time.Time
}

// follow opens a stream, which ends with the test.
func follow(t *testing.T, s *lifecycle.Site) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	in, err := s.Driver.WatchSandboxes(ctx, &computev1.WatchSandboxesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	f := &stream{ready: map[string]bool{}, deleted: map[string]int{}, said: map[string]map[string]time.Time{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			event, err := in.Recv()
			f.mu.Lock()
			if err != nil {
				f.ended = err
				f.mu.Unlock()
				return
			}
			f.take(event)
			f.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return f
}

func (f *stream) take(event *computev1.WatchSandboxesEvent) {
	if gone := event.GetDeleted(); gone != nil {
		f.deleted[gone.GetSandboxId()]++
		delete(f.ready, gone.GetSandboxId())
	}
	box := event.GetSandbox().GetSandbox()
	for _, c := range box.GetStatus().GetConditions() {
		if c.GetType() != "Ready" {
			continue
		}
		f.ready[box.GetId()] = c.GetStatus() == "True"
		if f.said[box.GetId()] == nil {
			f.said[box.GetId()] = map[string]time.Time{}
		}
		if _, before := f.said[box.GetId()][c.GetMessage()]; !before {
			f.said[box.GetId()][c.GetMessage()] = time.Now()
		}
	}
}

// demand waits until the stream, which must not have ended, has told something.
func (f *stream) demand(t *testing.T, what string, told func() bool) {
	t.Helper()
	cluster.Eventually(t, what, func(context.Context) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.ended != nil {
			t.Fatalf("the stream ended: %v", f.ended)
		}
		if !told() {
			return fmt.Errorf("the stream has told: ready %v, deleted %v", f.ready, f.deleted)
		}
		return nil
	})
}

// watchGap: a sandbox that goes, and one that comes, while lifecycle has no watch of the API server are told of on the same stream
// when it has one again, and the deletion once.
func watchGap(t *testing.T, g *gated) {
	f := follow(t, g.Site)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	goes, stays := g.attempt("goes", nil), g.attempt("stays", nil)
	for _, a := range []*attempt{goes, stays} {
		must(t, a.create(ctx))
	}
	f.demand(t, "both are ready", func() bool { return f.ready[goes.wish.GetId()] && f.ready[stays.wish.GetId()] })

	trap := g.gate.Set(lifecycle.Refused, 1, true, func(r lifecycle.Request) bool { return r.Verb == "watch" })
	g.gate.Cut()
	<-trap.Reached()
	sandboxes := g.Cluster.Dynamic().Resource(boxes).Namespace(goes.namespace)
	must(t, sandboxes.Delete(ctx, "ws-goes--goes", metav1.DeleteOptions{}))
	g.Eventually("it is gone", func() error {
		return nothingLeft(ctx, g.Site, goes.namespace, goes.wish.GetId(), goes.wish.GetName())
	})
	comes := g.attempt("comes", nil)
	must(t, comes.create(ctx))
	trap.Release()
	f.demand(t, "the deletion is told, and the new one is ready", func() bool {
		return f.deleted[goes.wish.GetId()] == 1 && f.ready[comes.wish.GetId()]
	})
	must(t, stays.remove(ctx))
	f.demand(t, "each deletion is told once", func() bool {
		return f.deleted[goes.wish.GetId()] == 1 && f.deleted[stays.wish.GetId()] == 1
	})
}

// podFailures: why a Pod does not come up stands in the message of the condition Ready. How soon is logged.
func podFailures(t *testing.T, s *lifecycle.Site) {
	f := follow(t, s)
	for name, c := range map[string]struct {
		pod   poddriver.Behaviour
		quota bool
		says  string
	}{
		"pull":  {pod: poddriver.Behaviour{Waiting: "ImagePullBackOff"}, says: "image pull"},
		"crash": {pod: poddriver.Behaviour{CrashLoop: true}, says: "crash"},
		"quota": {quota: true, says: "quota"},
	} {
		ns := s.Workspace(name)
		s.Eventually("the workspace may be used", func() error {
			_, err := s.Driver.EnsureWorkspace(s.Context(), &computev1.EnsureWorkspaceRequest{Workspace: ns})
			return err
		})
		wish := s.Wish(ns, name)
		s.Pods.Override(ns, name, c.pod)
		if c.quota {
			_, err := s.Cluster.Client().CoreV1().ResourceQuotas(ns).Create(t.Context(), &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Name: "one"},
				Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
			}, metav1.CreateOptions{})
			must(t, err)
		}
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answered := make(chan error, 1)
			go func() {
				_, err := s.Driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
				answered <- err
			}()
			var seen time.Time
			f.demand(t, "the condition says "+c.says, func() bool {
				for message, at := range maps.All(f.said[wish.GetId()]) {
					if strings.Contains(message, c.says) {
						seen = at
						return true
					}
				}
				return false
			})
			t.Logf("%s stands in the condition %s after the create began", c.says, seen.Sub(began).Round(time.Millisecond))
			cancel()
			<-answered
		})
	}
}
