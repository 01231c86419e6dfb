package snapshot

import (
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// random is any sandbox that a cluster may show, also one that makes no sense.
func random(r *rand.Rand) *scene {
	s := healthy()
	s.record = pick(r, running, starting, stopping, func() runstate.Record { return running().Stopped() }, func() runstate.Record { return runstate.Record{} })()
	if s.record.Operation == "" {
		s.record.Readiness = pick(r, runstate.Ready, runstate.Unavailable, "")
	}
	s.box.Mode, s.box.Version = pick(r, sandboxapi.Running, sandboxapi.Suspended), pick(r, sandboxapi.Versions()...)
	s.box.Deleting, s.unknown = r.IntN(10) == 0, r.IntN(5) == 0
	s.box.Conditions = nil
	for range r.IntN(5) {
		s.box.Conditions = append(s.box.Conditions, sandboxapi.Condition{
			Type: pick(r, "Ready", "Ready", "Suspended", "Suspended", "Finished", "ready", "Bootstrapping"), Status: pick(r, "True", "False", "Unknown", "true", "FALSE"),
			Reason: pick(r, "", "DependenciesReady", "DependenciesNotReady", "SandboxSuspended", "PodFailed", "PodSucceeded", "MultiplePods", "ReconcilerError",
				"SandboxExpired", "PodTerminated", "PodTerminating", "PodNotOwned", "Unschedulable", "Novel", "starting"),
			ObservedGeneration: pick(r, int64(0), 3, 4, 4, 4),
		})
	}
	for _, p := range []**corev1.Pod{&s.workload, &s.supervisor} {
		switch r.IntN(6) {
		case 0:
			*p = nil
		case 1:
			unready(*p, pick(r, corev1.PodPending, corev1.PodRunning, corev1.PodFailed, corev1.PodSucceeded))
		case 2:
			(*p).DeletionTimestamp = &metav1.Time{Time: epoch}
		case 3:
			(*p).UID = types.UID("other" + (*p).Name)
		}
	}
	return s
}

// of finds a condition of the present generation that is said of s, the first one of the exact type.
func (s *scene) of(kind string) (status, reason string) {
	for _, c := range s.box.Conditions {
		if c.Type == kind && (c.ObservedGeneration == 0 || c.ObservedGeneration == s.box.Generation) {
			return strings.ToLower(c.Status), c.Reason
		}
	}
	return "", ""
}

// TestPhaseOfAnySandbox judges by what the cluster shows, not by how the conditions are made.
func TestPhaseOfAnySandbox(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := random(r)
		d := s.render(t)
		phase := phaseOf(d)
		seen[phase]++
		ready, why := s.of("Ready")
		suspended, whySuspended := s.of("Suspended")
		fail := func(rule string) {
			t.Errorf("seed %d: %s, but %s: %+v mode %s record %+v unknown %t: %v", seed, phase, rule, s.box.Conditions, s.box.Mode, s.record, s.unknown, d.GetStatus().GetConditions())
		}
		alive := s.workload != nil && s.workload.Status.Phase != corev1.PodFailed && s.workload.Status.Phase != corev1.PodSucceeded
		switch {
		case s.box.Deleting && phase != "Deleting":
			fail("it is being deleted")
		case s.box.Deleting:
		case s.record.Bootstrapping && phase != "Provisioning":
			fail("it is starting")
		case s.record.Bootstrapping != (find(d, "Bootstrapping").GetStatus() == "True"):
			fail("Bootstrapping is not what the record says")
		case s.record.Bootstrapping:
		case phase == "Ready" && (ready != "true" || s.record.Readiness != runstate.Ready || s.box.Mode != sandboxapi.Running):
			fail("the controller or the record does not say ready")
		case phase == "Ready" && !s.unknown && (s.workload == nil || s.supervisor == nil || s.workload.UID != "w" || s.supervisor.UID != "s" ||
			s.workload.DeletionTimestamp != nil || s.supervisor.DeletionTimestamp != nil || len(s.workload.Status.Conditions) == 0 || len(s.supervisor.Status.Conditions) == 0):
			fail("its Pods are not ready")
		case phase == "Stopped" && (s.box.Mode != sandboxapi.Suspended || !s.unknown && s.workload != nil):
			fail("it runs, or its Pod is there")
		case phase == "Error" && why != "PodFailed" && why != "PodSucceeded" && why != "SandboxExpired" && whySuspended != "PodNotOwned":
			fail("nothing has come to an end")
		case phase == "Error" && strings.HasPrefix(why, "Pod") && whySuspended != "PodNotOwned" && (s.record.Stopping() || alive || s.box.Mode != sandboxapi.Running):
			fail("the end is that of a Pod that is being stopped, or is not the last one")
		case suspended == "true" && s.box.Mode == sandboxapi.Suspended && (s.workload == nil || s.unknown) && why != "SandboxExpired" && phase != "Stopped":
			fail("it is suspended")
		case ready == "false" && why == "SandboxExpired" && suspended != "true" && phase != "Error" && !(s.box.Version == sandboxapi.V1alpha1 && phase == "Stopped"):
			fail("it has expired")
		case s.record.Stopping() && phase != "Provisioning" && phase != "Stopped" && why != "SandboxExpired" && whySuspended != "PodNotOwned":
			fail("it is being stopped")
		}
		// The same facts give the same bytes, whatever order the Pods were found in.
		s.workload, s.supervisor = s.supervisor, s.workload
		if again := s.render(t); !proto.Equal(d, again) {
			t.Fatalf("seed %d: the order of Pods changes the snapshot", seed)
		}
		if t.Failed() && seed > 100 {
			t.FailNow()
		}
	}
	for _, phase := range []string{"Deleting", "Provisioning", "Ready", "Stopped", "Error"} {
		if seen[phase] < 5 {
			t.Errorf("only %d sandboxes are %s", seen[phase], phase)
		}
	}
}
