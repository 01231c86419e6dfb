package platform

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

func TestEventsReachTheGateway(t *testing.T) {
	with := lifecycle.StartStandIns(t, cluster.Start(t, cluster.ControlPlane), reconcile.Newest())
	for _, mode := range []string{"shared", "managed", "operator"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := with.Raise(t, mode, nil, func(o *mesh.Options) { o.Manifests = filepath.Join("..", o.Manifests) }) // we are one deeper
			ws := s.Workspace("team")
			s.Eventually("the workspace may be used", func() error {
				_, err := s.Driver.EnsureWorkspace(s.Context(), &computev1.EnsureWorkspaceRequest{Workspace: ws})
				return err
			})
			wish := s.Wish(ws, "box")
			b := &box{t: t, site: s, id: wish.GetId(), namespace: s.NamespaceOf(ws), said: follow(t, s)}
			if _, err := s.Driver.CreateSandbox(s.Context(), &computev1.CreateSandboxRequest{Sandbox: wish}); err != nil {
				t.Fatal(err)
			}
			b.look()
			b.demandScheduled()
			b.demandTold()
		})
	}
}

// box is a sandbox with its three objects.
type box struct {
	t                             *testing.T
	site                          *lifecycle.Site
	id, namespace                 string
	said                          *stream
	sandbox, workload, supervisor corev1.ObjectReference
}

// look finds the objects.
func (b *box) look() {
	b.t.Helper()
	for role, into := range map[string]*corev1.ObjectReference{workspace.RoleWorkload: &b.workload, workspace.RoleSupervisor: &b.supervisor} {
		selector := fmt.Sprintf("%s=%s,%s=%s", workspace.LabelBoundaryRole, role, workspace.LabelBoundaryPair, strings.ToLower(b.id))
		pods, err := b.site.Cluster.Client().CoreV1().Pods(b.namespace).List(b.t.Context(), metav1.ListOptions{LabelSelector: selector})
		if err != nil || len(pods.Items) != 1 {
			b.t.Fatalf("%d Pods are %s: %v", len(pods.Items), selector, err)
		}
		*into = corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: b.namespace, Name: pods.Items[0].Name, UID: pods.Items[0].UID}
	}
	made, err := b.site.Cluster.Dynamic().Resource(api.V1beta1.Resource()).Namespace(b.namespace).Get(b.t.Context(), b.workload.Name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.sandbox = corev1.ObjectReference{APIVersion: made.GetAPIVersion(), Kind: made.GetKind(), Namespace: b.namespace, Name: made.GetName(), UID: made.GetUID()}
}

// demandScheduled demands what the scheduler says of both Pods, and that only the workload's moves the display.
func (b *box) demandScheduled() {
	b.t.Helper()
	for _, c := range []struct {
		about    corev1.ObjectReference
		progress map[string]string
	}{
		{b.workload, map[string]string{"complete_step": "requesting_sandbox", "complete_label": "Sandbox allocated", "active_step": "pulling_image"}},
		{b.supervisor, nil},
	} {
		got := b.said.await(b.t, b.id, "Scheduled", c.about.Name)
		want := &computev1.DriverPlatformEvent{Source: "kubernetes", Type: "Normal", Reason: "Scheduled", Message: got.GetMessage(), Metadata: metadata(c.about, 1, c.progress)}
		if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(&computev1.DriverPlatformEvent{}, "event_time")); diff != "" {
			b.t.Errorf("the scheduler's event about %s:\n%s", c.about.Name, diff)
		}
		if !strings.Contains(got.GetMessage(), c.about.Name) || got.GetEventTime().AsTime().Year() < 2000 {
			b.t.Errorf("the scheduler's event about %s: %v", c.about.Name, got)
		}
	}
}

// demandTold writes events as kubelet and controller do, and demands that each is told as contract 10 has it, and none but them.
func (b *box) demandTold() {
	b.t.Helper()
	pulled := `Successfully pulled image "registry.example/agent:1" in 2s. Image size: 5242880 bytes.`
	stranger := b.workload
	stranger.UID = "00000000-0000-4000-8000-000000000000" // the Pod of that name before this one
	for n, c := range []struct {
		about             corev1.ObjectReference
		kind, reason, say string
		count             int32
		progress          map[string]string
		foreign           bool
	}{
		{about: b.workload, kind: "Normal", reason: "Pulling", say: `Pulling image "registry.example/agent:1"`, count: 1, progress: map[string]string{
			"active_step": "pulling_image", "active_detail": "registry.example/agent:1",
		}},
		{about: stranger, kind: "Warning", reason: "Failed", say: "of another Pod", count: 1, foreign: true},
		{about: b.workload, kind: "Normal", reason: "Pulled", say: pulled, count: 1, progress: map[string]string{
			"complete_step": "pulling_image", "complete_label": "Image pulled (5 MB)", "active_step": "starting_sandbox",
		}},
		{about: b.supervisor, kind: "Normal", reason: "Pulled", say: pulled, count: 1},
		{about: b.supervisor, kind: "Warning", reason: "BackOff", say: "Back-off restarting failed container", count: 7},
		{about: b.sandbox, kind: "Warning", reason: "ReconcileFailed", say: "cannot make the claim", count: 2},
	} {
		at := time.Date(2026, 11, 1, 10, 0, n, 0, time.UTC)
		b.write(&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: fmt.Sprintf("%s.%d", c.about.Name, n)}, InvolvedObject: c.about,
			Type: c.kind, Reason: c.reason, Message: c.say, Count: c.count, FirstTimestamp: metav1.NewTime(at.Add(-time.Hour)), LastTimestamp: metav1.NewTime(at),
		})
		if c.foreign {
			continue
		}
		want := &computev1.DriverPlatformEvent{
			Source: "kubernetes", Type: c.kind, Reason: c.reason, Message: c.say, EventTime: timestamppb.New(at), Metadata: metadata(c.about, c.count, c.progress),
		}
		if diff := cmp.Diff(want, b.said.await(b.t, b.id, c.reason, c.about.Name), protocmp.Transform()); diff != "" {
			b.t.Errorf("%s of %s:\n%s", c.reason, c.about.Name, diff)
		}
	}
	if got := b.said.find(b.id, "Failed", b.workload.Name); got != nil { // the API server told of it before the last ones
		b.t.Errorf("an event about another Pod of the name is told: %v", got)
	}
}

func (b *box) write(e *corev1.Event) {
	b.t.Helper()
	if _, err := b.site.Cluster.Client().CoreV1().Events(e.Namespace).Create(b.t.Context(), e, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// metadata are those of an event about an object.
func metadata(about corev1.ObjectReference, count int32, progress map[string]string) map[string]string {
	m := map[string]string{"involved_kind": about.Kind, "involved_name": about.Name, "namespace": about.Namespace, "count": fmt.Sprint(count)}
	for key, value := range progress {
		m["openshell.progress."+key] = value
	}
	return m
}

// stream keeps the platform events that one stream of the driver tells. It is safe for concurrent use.
type stream struct {
	mu    sync.Mutex
	told  []*computev1.WatchSandboxesPlatformEvent
	ended error
}

// follow opens a stream, which ends with the test.
func follow(t *testing.T, s *lifecycle.Site) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	in, err := s.Driver.WatchSandboxes(ctx, &computev1.WatchSandboxesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	f := new(stream)
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			event, err := in.Recv()
			f.mu.Lock()
			if err != nil {
				f.ended = err
				f.mu.Unlock()
				return
			}
			if told := event.GetPlatformEvent(); told != nil {
				f.told = append(f.told, told)
			}
			f.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
	})
	return f
}

// find is the first event of a sandbox with the reason about an object of the name; nil when none was told.
func (f *stream) find(id, reason, about string) *computev1.DriverPlatformEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := slices.IndexFunc(f.told, func(e *computev1.WatchSandboxesPlatformEvent) bool {
		return e.GetSandboxId() == id && e.GetEvent().GetReason() == reason && e.GetEvent().GetMetadata()["involved_name"] == about
	})
	if n < 0 {
		return nil
	}
	return f.told[n].GetEvent()
}

// await waits for it.
func (f *stream) await(t *testing.T, id, reason, about string) (found *computev1.DriverPlatformEvent) {
	t.Helper()
	cluster.Eventually(t, reason+" of "+about+" is told", func(context.Context) error {
		if found = f.find(id, reason, about); found != nil {
			return nil
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		return errors.Join(fmt.Errorf("told are %v", f.told), f.ended)
	})
	return found
}
