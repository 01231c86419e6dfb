package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/poddriver"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// Status tells each phase while an operation is in it, and writes nothing. A stop is stuck in its phase while a node does not confirm
// that a Pod has ended.
func TestStatusInEveryPhase(t *testing.T) {
	t.Parallel()
	s := supervisor.New(t, sharedCluster(t), newest)
	client := s.Client(s.Start())
	for _, tc := range []struct {
		name    string
		prepare func(context.Context, *supervisor.Client, *supervisor.Box) error
		stuck   func(*supervisor.Box) string // the Pod that does not end while the run is stopped
		want    supervisorv1.Phase
	}{
		{"before a create", each(), nil, supervisorv1.Phase_PHASE_PREPARING},
		{"after a create", provisioned, nil, supervisorv1.Phase_PHASE_RELEASED},
		{"while the supervisor goes", provisioned, (*supervisor.Box).SupervisorName, supervisorv1.Phase_PHASE_RELEASING},
		{"while the workload goes", provisioned, func(b *supervisor.Box) string { return b.Name }, supervisorv1.Phase_PHASE_SUSPENDING},
		{"after a stop", each(provisioned, released), nil, supervisorv1.Phase_PHASE_SUSPENDED},
		{"after a removal", each(provisioned, func(ctx context.Context, c *supervisor.Client, b *supervisor.Box) error {
			_, err := c.Remove(ctx, b, b.Run)
			return err
		}), nil, supervisorv1.Phase_PHASE_ABSENT},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := s.Box(namespace(t, s))
			s.Pods.Override(b.Namespace, b.SupervisorName(), poddriver.Behaviour{NeverReady: true}) // so that no create is completed
			must(t, tc.prepare(t.Context(), client, b))
			if tc.stuck != nil {
				stop(t, s, client, b, tc.stuck(b))
			}
			cluster.Eventually(t, "the phase is "+tc.want.String(), func(ctx context.Context) error {
				status, err := client.Status(ctx, b)
				if err == nil && status.GetPhase() != tc.want {
					err = fmt.Errorf("it is %v", status)
				}
				return err
			})
			before := len(s.Gate.Writes(b.Namespace))
			status, err := client.Status(t.Context(), b)
			must(t, err)
			if more := s.Gate.Writes(b.Namespace)[before:]; len(more) > 0 {
				t.Errorf("a look writes %v", more)
			}
			if got := status.GetIdentity(); got.GetSandboxUid() != b.UID || got.GetNamespace() != b.Namespace {
				t.Errorf("identity %v", got)
			}
		})
	}
}

// stop begins to stop a run whose Pod of the name never ends once it runs.
func stop(t *testing.T, s *supervisor.Site, client *supervisor.Client, b *supervisor.Box, name string) {
	t.Helper()
	s.Pods.Override(b.Namespace, name, poddriver.Behaviour{NeverReady: true, IgnoreDeletion: true})
	cluster.Eventually(t, name+" runs", func(ctx context.Context) error {
		pod, err := s.Cluster.Client().CoreV1().Pods(b.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return err
	})
	ctx, cancel := context.WithCancel(t.Context())
	var call sync.WaitGroup
	call.Go(func() {
		if err := released(ctx, client, b); err == nil {
			t.Errorf("the stop is complete while %s is there", name)
		}
	})
	t.Cleanup(func() {
		cancel()
		call.Wait()
	})
	// The phase shows before the Pod is told to end, and from then on the stop only waits.
	cluster.Eventually(t, name+" is told to end", func(ctx context.Context) error {
		pod, err := s.Cluster.Client().CoreV1().Pods(b.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && pod.DeletionTimestamp == nil {
			err = errors.New("it is not")
		}
		return err
	})
}
