package observe

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// told is what a caller heard: the message of a sandbox's condition Ready, and when.
type told struct {
	message string
	at      time.Time
}

// listens opens a stream; heard gives what it was told since the last time, when nobody has anything to do any more.
func (s *stage) listens(t *testing.T) (heard func() []told) {
	var mu sync.Mutex
	var all []told
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Watch(ctx, func(e *computev1.WatchSandboxesEvent) error {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range e.GetSandbox().GetSandbox().GetStatus().GetConditions() {
				if c.GetType() == "Ready" {
					all = append(all, told{c.GetMessage(), time.Now()})
				}
			}
			return nil
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return func() []told {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		got := all
		all = nil
		return got
	}
}

// podSaying is the workload or the supervisor Pod of the stage's sandbox as the API server has it, with a status.
func podSaying(t *testing.T, version uint64, supervisor bool, status corev1.PodStatus) Item[snapshot.Pod] {
	t.Helper()
	item := podItem("u1", version, supervisor, false)
	role := workspace.RoleWorkload
	if supervisor {
		role = workspace.RoleSupervisor
	}
	var err error
	item.Value, err = snapshot.ReadPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "openshell", Name: item.UID, UID: "u1-w", Labels: map[string]string{workspace.LabelBoundaryRole: role},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: sandboxapi.V1beta1.APIVersion(), Kind: sandboxapi.Kind, Name: "team--u1", UID: "u1", Controller: new(!supervisor),
			}},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "agent"}}},
		Status: status,
	}, scheme)
	must(t, err)
	item.Value.UID = item.UID
	return item
}

func waits(reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}}
}

func unscheduled(message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
	}}}
}

// TestACauseIsToldWithWhatHasIt: why a Pod does not come up is in the very next thing that a caller is told, and no time goes by in between:
// time here goes by only when nobody has anything to do, so whatever waited for a timer, or for another round of a loop, would be later. How long
// it takes therefore depends on the work alone, and on nothing that is periodic.
func TestACauseIsToldWithWhatHasIt(t *testing.T) {
	last := uint64(20)
	version := func() uint64 { last++; return last }
	warning := func(reason, message string) func(*testing.T, *stage) {
		return func(_ *testing.T, s *stage) {
			e := eventItem("e1", "u1-w", version(), 1)
			e.Value.Type, e.Value.Reason, e.Value.Message = corev1.EventTypeWarning, reason, message
			s.events.feed <- put(e)
		}
	}
	pod := func(supervisor bool, status corev1.PodStatus) func(*testing.T, *stage) {
		return func(t *testing.T, s *stage) { s.pods.feed <- put(podSaying(t, version(), supervisor, status)) }
	}
	crashed := waits("CrashLoopBackOff", "back-off 10s")
	crashed.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}
	begun := func(version uint64) Item[snapshot.Sandbox] { // of which no Pod is recorded yet
		box := boxItem("u1", "a", version, 21)
		box.Value.Record = runstate.Record{Bootstrapping: true, Operation: runstate.Create, Phase: runstate.Preparing, Generation: "g1", Readiness: runstate.Unavailable}
		return box
	}
	pending := pod(false, corev1.PodStatus{Phase: corev1.PodPending})
	for name, tc := range map[string]struct {
		happens func(*testing.T, *stage)
		says    string
	}{
		"image pull, status":        {pod(false, waits("ErrImagePull", "no such image")), "image pull: container agent waits: ErrImagePull: no such image"},
		"image pull, event":         {warning("Failed", `Failed to pull image "i": refused`), `image pull: Failed to pull image "i": refused`},
		"image pull, of supervisor": {pod(true, waits("ImagePullBackOff", "back-off")), "image pull: container agent waits: ImagePullBackOff"},
		"crash":                     {pod(false, crashed), "crash: container agent ended with exit code 3"},
		"unschedulable":             {pod(false, unscheduled("0/1 nodes are available: 1 Insufficient cpu.")), "unschedulable: Unschedulable: 0/1 nodes"},
		"unbound claim":             {pod(false, unscheduled(`persistentvolumeclaim "c" not found`)), "unbound claim: Unschedulable: persistentvolumeclaim"},
		"volume":                    {warning("FailedMount", "no such secret"), "volume: FailedMount: no such secret"},
		"evicted":                   {pod(false, corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}), "ended: Evicted: low on memory"},
		"quota": {func(_ *testing.T, s *stage) {
			box := begun(version())
			box.Value.Conditions = []sandboxapi.Condition{{Type: sandboxapi.ConditionReady, Status: "False", Reason: "ReconcilerError", Message: `pods "n-a" is forbidden: exceeded quota: q`}}
			s.boxes.feed <- put(box)
		}, "refused by quota: pods"},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(t *testing.T, s *stage) {
				heard := s.listens(t)
				switch {
				case strings.Contains(name, "supervisor"): // its workload is ready
				case name == "quota":
					s.pods.feed <- dropped[snapshot.Pod]("u1-w", version())
					s.boxes.feed <- put(begun(version()))
				default:
					pending(t, s)
				}
				for _, before := range heard() {
					if strings.Contains(before.message, tc.says) {
						t.Fatalf("it is told before it happens: %s", before.message)
					}
				}
				began := time.Now()
				tc.happens(t, s)
				after := heard()
				if len(after) == 0 || !strings.Contains(after[0].message, tc.says) || !after[0].at.Equal(began) {
					t.Errorf("heard since %s: %v; want %q first, and at once", began, after, tc.says)
				}
			})
		})
	}
}
