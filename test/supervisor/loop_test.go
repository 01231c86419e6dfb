package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/poddriver"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// awaitStatus waits until the status is of the phase and the readiness.
func awaitStatus(t *testing.T, client *supervisor.Client, b *supervisor.Box, phase supervisorv1.Phase, readiness supervisorv1.Readiness) {
	t.Helper()
	cluster.Eventually(t, fmt.Sprintf("%s/%s is %s and %s", b.Namespace, b.Name, phase, readiness), func(ctx context.Context) error {
		status, err := client.Status(ctx, b)
		if err == nil && (status.GetPhase() != phase || status.GetReadiness() != readiness) {
			err = fmt.Errorf("it is %v", status)
		}
		return err
	})
}

// The reconcile loop completes a create when all is ready, publishes that a supervisor is not ready any more and is again, and leaves
// alone what is settled. A create that is complete can be started anew.
func TestReadiness(t *testing.T) {
	t.Parallel()
	s, client := started(t)
	b := s.Box(namespace(t, s))
	_, err := client.Provision(t.Context(), b, b.Run)
	must(t, err)
	awaitStatus(t, client, b, supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_READY)
	got := record(t, b)
	for _, key := range []string{"bootstrapping", "bootstrap-phase", "bootstrap-operation", "bootstrap-started-at-ms", "bootstrap-attempt"} {
		if got[key] != "" {
			t.Errorf("a complete run still records %s %q", key, got[key])
		}
	}
	status, err := client.Status(t.Context(), b)
	must(t, err)
	for _, c := range status.GetConditions() {
		if c.GetAvailability() != supervisorv1.Availability_AVAILABILITY_AVAILABLE {
			t.Errorf("of a run that is ready: %v", c)
		}
	}

	s.Pods.Override(b.Namespace, b.SupervisorName(), poddriver.Behaviour{NeverReady: true})
	awaitStatus(t, client, b, supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_UNAVAILABLE)
	s.Pods.Override(b.Namespace, b.SupervisorName(), poddriver.Behaviour{})
	awaitStatus(t, client, b, supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_READY)

	run := second(b)
	_, err = client.Restart(t.Context(), b, run)
	must(t, err)
	demandSet(t, s, b, run)
	awaitStatus(t, client, b, supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_READY)
	_, err = client.Release(t.Context(), b, run)
	must(t, err)
	awaitStatus(t, client, b, supervisorv1.Phase_PHASE_SUSPENDED, supervisorv1.Readiness_READINESS_UNAVAILABLE)
}

// harms take a part of a run away that is up.
var harms = map[string]func(t *testing.T, s *supervisor.Site, b *supervisor.Box) error{
	"the fence": func(t *testing.T, s *supervisor.Site, b *supervisor.Box) error {
		return s.Cluster.Client().NetworkingV1().NetworkPolicies(b.Namespace).Delete(t.Context(), "openshell-sandbox-workloads", metav1.DeleteOptions{})
	},
	"the Service": func(t *testing.T, s *supervisor.Site, b *supervisor.Box) error {
		return s.Cluster.Client().CoreV1().Services(b.Namespace).Delete(t.Context(), b.ServiceName(), metav1.DeleteOptions{})
	},
	"the supervisor Pod": func(t *testing.T, s *supervisor.Site, b *supervisor.Box) error {
		return s.Cluster.Client().CoreV1().Pods(b.Namespace).Delete(t.Context(), b.SupervisorName(), metav1.DeleteOptions{})
	},
	// Without its role the workload is behind no fence, and without its selector the Service leads nowhere. A controller that works puts the
	// role back.
	"the workload's role": func(t *testing.T, s *supervisor.Site, b *supervisor.Box) error {
		s.Faults.Fail(reconcile.PatchPod, errors.New("the controller may not write to Pods"))
		t.Cleanup(func() { s.Faults.Fail(reconcile.PatchPod, nil) })
		_, err := s.Cluster.Client().CoreV1().Pods(b.Namespace).Patch(t.Context(), b.Name, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"openshell.ai/boundary-role":null}}}`), metav1.PatchOptions{})
		return err
	},
	"the Service's selector": func(t *testing.T, s *supervisor.Site, b *supervisor.Box) error {
		_, err := s.Cluster.Client().CoreV1().Services(b.Namespace).Patch(t.Context(), b.ServiceName(), types.MergePatchType,
			[]byte(`{"spec":{"selector":{"openshell.ai/boundary-role":"other"}}}`), metav1.PatchOptions{})
		return err
	},
	"the workload Pod": func(t *testing.T, s *supervisor.Site, b *supervisor.Box) error {
		return s.Cluster.Client().CoreV1().Pods(b.Namespace).Delete(t.Context(), b.Name, metav1.DeleteOptions{})
	},
}

// Somebody takes a part of a run away, or makes another of it: the loop stops the run, and nothing of it is left.
func TestRunLosesAPart(t *testing.T) {
	t.Parallel()
	s, client := started(t)
	boxes := map[string]*supervisor.Box{} // each step at all of them, because most of the time is waited
	for name := range harms {
		b := s.Box(namespace(t, s))
		s.History.Disordered(b.Namespace) // a part that is gone drags others with it
		s.History.Excuse(b.Namespace, supervisor.Policies+"/openshell-sandbox-workloads")
		_, err := client.Provision(t.Context(), b, b.Run)
		must(t, err)
		boxes[name] = b
	}
	for name, harm := range harms {
		awaitStatus(t, client, boxes[name], supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_READY)
		must(t, harm(t, s, boxes[name]))
	}
	for name, b := range boxes {
		t.Run(name, func(t *testing.T) {
			cluster.Eventually(t, "the run is stopped", func(ctx context.Context) error { return stopped(ctx, s, b) })
		})
	}
}

// The Sandbox itself is deleted while its run is up: the set goes with it, and a removal by name finds nothing to do.
func TestSandboxIsDeleted(t *testing.T) {
	t.Parallel()
	s, client := started(t)
	b := s.Box(namespace(t, s))
	s.History.Disordered(b.Namespace) // the garbage collector keeps no order
	_, err := client.Provision(t.Context(), b, b.Run)
	must(t, err)
	b.Delete()
	cluster.Eventually(t, "the set goes with its Sandbox", func(ctx context.Context) error {
		now, err := s.History.Look(ctx, b.Namespace)
		if err == nil && len(now.Companions()) > 0 {
			err = errors.New("there is " + fmt.Sprint(now.Companions()))
		}
		return err
	})
	gone := *b
	gone.UID = ""
	resp, err := client.Remove(t.Context(), &gone, b.Run)
	must(t, err)
	if resp.GetStatus().GetPhase() != supervisorv1.Phase_PHASE_ABSENT {
		t.Errorf("of what is gone: %v", resp)
	}
}
