package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// trouble is a cause that keeps a sandbox from being Ready, or ends it.
type trouble struct {
	// wish and place prepare it, befall happens to the sandbox once it is Ready.
	wish   func(*gateway.Wish)
	place  func(t testing.TB, h *house, namespace string)
	befall func(t testing.TB, h *house, s gateway.Sandbox)
	// cluster is in the status of a Pod or Sandbox, or in an event, when the cluster says so, told what must then be in the message of the condition Ready.
	cluster string
	told    []string
	// ends says that the sandbox is then in Error: else the gateway goes on waiting. refused says that the create is answered with it.
	ends, refused bool
}

// nobody listens there.
const unreachable = "127.0.0.1:1/absent:1"

var troubles = map[string]trouble{
	"image pull": {
		wish:    func(w *gateway.Wish) { w.Spec.Template.Image = unreachable },
		cluster: "Failed to pull image", told: []string{"image pull: ", unreachable},
	},
	"quota": { // the supervisor's Pod takes what there is
		place: func(t testing.TB, h *house, namespace string) {
			_, err := h.c.Client().CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Name: "one"},
				Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
			}, metav1.CreateOptions{})
			noError(t, err)
		},
		cluster: "exceeded quota: one", told: []string{"refused by quota: ", "exceeded quota: one", "limited: pods=1"}, refused: true,
	},
	"unschedulable": {
		wish: func(w *gateway.Wish) {
			w.Spec.Template.Resources = &computev1.DriverResourceRequirements{CpuRequest: "1000"}
		},
		cluster: "Insufficient cpu", told: []string{"unschedulable: Unschedulable: ", "Insufficient cpu"},
	},
	"no such node": {
		wish:    func(w *gateway.Wish) { configure(w, `{"pod": {"node_selector": {"portcullis.test/disk": "none"}}}`) },
		cluster: "node affinity/selector", told: []string{"unschedulable: Unschedulable: ", "node affinity/selector"},
	},
	"unbound claim": {
		wish:    func(w *gateway.Wish) { withData(w) },
		place:   func(t testing.TB, h *house, namespace string) { claimData(t, h, namespace, "portcullis.test-none") },
		cluster: "unbound immediate PersistentVolumeClaims", told: []string{"unbound claim: ", "unbound immediate PersistentVolumeClaims"},
	},
	"volume": { // no status says it, an event does
		wish: func(w *gateway.Wish) { withData(w) },
		place: func(t testing.TB, h *house, namespace string) {
			gone := volume(t, h.c, namespace, "data")
			noError(t, os.Remove(gone))
			claimData(t, h, namespace, "")
		},
		cluster: `"reason":"FailedMount"`, told: []string{"volume: FailedMount: ", "does not exist"},
	},
	"crash": {
		befall:  func(t testing.TB, h *house, s gateway.Sandbox) { h.kill(t, s) },
		cluster: `"exitCode":137`, told: []string{"crash: container agent ended with exit code 137"}, ends: true,
	},
}

// withData mounts the claim data.
func withData(w *gateway.Wish) {
	configure(w, `{"volumes": [{"name": "data", "persistent_volume_claim": {"claim_name": "data"}}],
		"containers": {"agent": {"volume_mounts": [{"name": "data", "mount_path": "/data"}]}}}`)
}

// claimData makes that claim, which sandboxes of the workspace may attach.
func claimData(t testing.TB, h *house, namespace, class string) {
	t.Helper()
	_, err := h.c.Client().CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{
			"openshell.ai/sandbox-attachable": "true", "openshell.ai/sandbox-attachable-workspace": namespace,
		}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(class), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	noError(t, err)
}

// configure gives the wish a caller's driver_config.
func configure(w *gateway.Wish, text string) {
	w.DriverConfig = new(structpb.Struct)
	if err := w.DriverConfig.UnmarshalJSON([]byte(`{"kubernetes": ` + text + `}`)); err != nil {
		panic(err)
	}
}

// occurrence is what became of one that happened.
type occurrence struct {
	wish   gateway.Wish
	made   <-chan error // what the create answers
	events subscription
	said   news          // what the stream of the driver told
	after  time.Duration // how long after the cluster
}

// occur lets it happen to a sandbox of the workspace, and waits until the stream of the driver says why.
func (c trouble) occur(t testing.TB, h *house, ns string) occurrence {
	t.Helper()
	if c.place != nil {
		c.place(t, h, ns)
	}
	w := h.wish(t, ns, "box")
	w.ID = boundary.NewUUID()
	if c.wish != nil {
		c.wish(&w)
	}
	events := h.gateway.Subscribe()
	t.Cleanup(events.Close)
	known, told := h.notice(t, ns, c.cluster), h.follow(t, w.ID, c.told)

	made := make(chan error, 1)
	go func() { // while it is under way the driver tells already
		ctx, cancel := context.WithTimeout(t.Context(), upLimit)
		defer cancel()
		_, err := h.gateway.Create(ctx, w)
		made <- err
	}()
	if c.befall != nil {
		ctx, cancel := context.WithTimeout(t.Context(), upLimit)
		defer cancel()
		noError(t, <-made)
		made <- nil
		s, err := h.await(ctx, w.ID, phase.Ready)
		noError(t, err)
		c.befall(t, h, s)
	}
	said := receive(t, "the driver tells why", told)
	if said.err != nil {
		t.Fatalf("the stream of the driver ended: %v", said.err)
	}
	return occurrence{wish: w, made: made, events: events, said: said, after: said.at.Sub(receive(t, "the cluster says why", known))}
}

// demand lets it happen, and demands that the driver's stream and the gateway say why, and that the sandbox can be deleted all the same.
// How long after the cluster the driver said it is logged; BenchmarkCauses measures it.
func (c trouble) demand(t *testing.T, h *house) {
	ns := h.workspace(t, strings.ReplaceAll(t.Name()[strings.LastIndex(t.Name(), "/")+1:], "_", "-"))
	o := c.occur(t, h, ns)
	t.Logf("told %s after the cluster said it: %s: %s", o.after.Round(time.Millisecond), o.said.reason, o.said.message)
	if !phase.Transient(o.said.reason) { // whether a workload has ended for good is the controller's to say, which comes later
		t.Errorf("the reason is %s", o.said.reason)
	}
	switch {
	case c.refused:
		if err := <-o.made; status.Code(err) != codes.FailedPrecondition {
			t.Errorf("create answers %v", err)
		}
		cluster.Eventually(t, "lifecycle logs why", func(context.Context) error {
			lines := h.mesh.Process(mesh.Lifecycle).Entries(func(entry map[string]any) bool {
				return entry["message"] == "refused" && hasAll(fmt.Sprint(entry), c.told[1:])
			})
			if len(lines) == 0 {
				return errors.New("it has not")
			}
			return nil
		})
	default:
		c.demandShown(t, o.events, o.wish.ID)
		if err := <-o.made; err != nil {
			t.Errorf("create answers %v", err)
		}
	}
	if s, err := h.gateway.Get(o.wish.ID); err == nil {
		h.remove(t, s)
	}
	h.awaitNothing(t, ns, o.wish.ID, o.wish.Name)
}

// demandShown demands that the gateway shows the cause to its user.
func (c trouble) demandShown(t *testing.T, events subscription, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	var shown []string
	_, err := events.Await(ctx, func(e gateway.Event) bool {
		if e.SandboxID != id || e.Kind != gateway.StatusChanged && e.Kind != gateway.PhaseChanged {
			return false
		}
		shown = append(shown, e.String())
		return hasAll(e.Message, c.told) && (e.To == phase.Error) == c.ends
	})
	if err != nil {
		t.Fatalf("the gateway does not show why: %v; it has shown\n%s", err, strings.Join(shown, "\n"))
	}
}

func hasAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// news is what a stream told, or that it ended.
type news struct {
	at              time.Time
	reason, message string
	err             error
}

// follow opens a stream of the driver, and sends the first Ready=False of the sandbox whose message has all parts.
func (h *house) follow(t testing.TB, id string, parts []string) <-chan news {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := h.driver.WatchSandboxes(ctx, &computev1.WatchSandboxesRequest{})
	noError(t, err)
	found := make(chan news, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			event, err := stream.Recv()
			if err != nil {
				found <- news{err: err}
				return
			}
			box := event.GetSandbox().GetSandbox()
			if box.GetId() != id {
				continue
			}
			for _, c := range box.GetStatus().GetConditions() {
				if c.GetType() == "Ready" && c.GetStatus() == "False" && hasAll(c.GetMessage(), parts) {
					found <- news{at: time.Now(), reason: c.GetReason(), message: c.GetMessage()}
					return
				}
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
	})
	return found
}

// notice watches the Pods, Sandboxes and events of a namespace, and sends when one has the text.
func (h *house) notice(t testing.TB, namespace, text string) <-chan time.Time {
	t.Helper()
	pods, err1 := h.c.Client().CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{})
	boxes, err2 := h.c.Dynamic().Resource(api.V1beta1.Resource()).Namespace(namespace).Watch(t.Context(), metav1.ListOptions{})
	events, err3 := h.c.Client().CoreV1().Events(namespace).Watch(t.Context(), metav1.ListOptions{})
	noError(t, errors.Join(err1, err2, err3))
	found := make(chan time.Time, 1)
	var reading sync.WaitGroup
	for _, one := range []watch.Interface{pods, boxes, events} {
		reading.Go(func() {
			for e := range one.ResultChan() {
				body, err := json.Marshal(e.Object)
				if err == nil && bytes.Contains(body, []byte(text)) {
					select {
					case found <- time.Now():
					default: // another was first
					}
					return
				}
			}
		})
	}
	t.Cleanup(func() {
		pods.Stop()
		boxes.Stop()
		events.Stop()
		reading.Wait()
	})
	return found
}

func receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(upLimit):
		t.Fatalf("%s: it never came", what)
		panic("not reached")
	}
}

// kill ends the runtime in the workload's Pod as the kernel does when memory is short. The node is this machine. A gateway takes a sandbox
// for Ready as soon as its supervisor is there; a run that ends before the driver does, too, has never come up and is stopped.
func (h *house) kill(t testing.TB, s gateway.Sandbox) {
	t.Helper()
	cluster.Eventually(t, "the driver takes it for ready", func(ctx context.Context) error {
		answer, err := h.driver.GetSandbox(ctx, &computev1.GetSandboxRequest{SandboxId: s.ID})
		if err != nil {
			return err
		}
		for _, c := range answer.GetSandbox().GetStatus().GetConditions() {
			if c.GetType() == "Ready" && c.GetStatus() == "True" {
				return nil
			}
		}
		return fmt.Errorf("it says %v", answer.GetSandbox().GetStatus().GetConditions())
	})
	pod, err := h.c.Client().CoreV1().Pods(s.Workspace).Get(t.Context(), s.Name, metav1.GetOptions{})
	noError(t, err)
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	noError(t, err)
	killed := 0
	for _, path := range groups {
		of, err1 := os.ReadFile(path)
		line, err2 := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		pid, err3 := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if errors.Join(err1, err2, err3) != nil { // it has ended
			continue
		}
		if bytes.Contains(of, []byte(pod.UID)) && bytes.Contains(line, []byte("\x00--bootstrap\x00")) {
			noError(t, syscall.Kill(pid, syscall.SIGKILL))
			killed++
		}
	}
	if killed != 1 {
		t.Fatalf("%d processes are the runtime of Pod %s", killed, pod.UID)
	}
}
