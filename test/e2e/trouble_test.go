package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/companions/gatewayside"
	"github.com/portcullis-mesh/portcullis/test/supervisor"
)

// awaitLeft is demandLeft where the garbage collector has a share in it.
func (g *ground) awaitLeft(t testing.TB, b *supervisor.Box, want ...string) {
	t.Helper()
	cluster.Eventually(t, "what has no owner any more goes", func(ctx context.Context) error {
		now, err := g.History.Look(ctx, b.Namespace)
		if err == nil && !slices.Equal(now.Companions(), want) {
			err = fmt.Errorf("left are %q, want %q", now.Companions(), want)
		}
		return err
	})
}

// demandStopped waits until a run that lost a part is stopped by itself, and nothing of it is left.
func (g *ground) demandStopped(t testing.TB, b *supervisor.Box) {
	t.Helper()
	g.awaitStatus(t, b, supervisorv1.Phase_PHASE_SUSPENDED, supervisorv1.Readiness_READINESS_UNAVAILABLE)
	g.awaitLeft(t, b, supervisor.Services+"/"+b.ServiceName())
	if got := readiness(t, b); got != "unavailable" {
		t.Errorf("the Sandbox publishes %s", got)
	}
}

// lost: the workload Pod is deleted by somebody, as by a drain of its node. What the controller puts in its place never runs: the run
// is stopped (contract 7.13), and can be started anew. Then somebody deletes the Sandbox while a command runs in it, and all goes with it.
func lost(t *testing.T, g *ground) {
	ns := g.namespace(t)
	g.History.Lawless(ns) // the workload goes before its supervisor, and we did it
	b := g.box(t, ns)
	s := g.provision(t, b)
	g.awaitStatus(t, b, supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_READY)
	noError(t, g.Cluster.Client().CoreV1().Pods(ns).Delete(t.Context(), b.Name, metav1.DeleteOptions{}))
	g.demandStopped(t, b)
	demandOver(t, s)
	s = g.restart(t, 2, b)[0]
	if got := does(t, s, "echo", "alive"); got != "alive" {
		t.Errorf("the next run says %q", got)
	}
	sessions := []*gatewayside.Session{s}
	busy := g.occupy(t, sessions)
	noError(t, g.delete(t.Context(), b))
	demandEnded(t, busy, sessions)
	g.awaitLeft(t, b)
}

// A workload Pod that is replaced cannot be confirmed by the supervisor that runs, not even if somebody lifts its gate and gives it the
// Secret of the Pod before it, while supervisorctl is out of order.
func TestReplacedWorkloadIsNotConfirmed(t *testing.T) {
	t.Parallel()
	g := newGround(t, supervisor.Operator)
	ns := g.namespace(t)
	g.History.Lawless(ns) // we do it
	b := g.box(t, ns)
	s := g.provision(t, b)
	g.awaitStatus(t, b, supervisorv1.Phase_PHASE_RUNNING, supervisorv1.Readiness_READINESS_READY)
	g.process.Pause()
	resumed := false
	defer func() {
		if !resumed {
			g.process.Resume()
		}
	}()

	successor := g.replace(t, b)
	client := g.Cluster.Client().CoreV1().Pods(ns)
	cluster.Eventually(t, "the supervisor is refused", func(ctx context.Context) error {
		said, err := client.GetLogs(b.SupervisorName(), &corev1.PodLogOptions{}).DoRaw(ctx)
		if pod, got := client.Get(ctx, b.SupervisorName(), metav1.GetOptions{}); got == nil && len(pod.Status.ContainerStatuses) > 0 {
			if pod.Status.ContainerStatuses[0].RestartCount > 0 {
				said, err = client.GetLogs(b.SupervisorName(), &corev1.PodLogOptions{Previous: true}).DoRaw(ctx)
			}
		}
		if err == nil && !strings.Contains(string(said), "claim kubernetes.workload_pod_uid") {
			err = fmt.Errorf("it says %s", said)
		}
		return err
	})
	demandOver(t, s)
	now, err := client.Get(t.Context(), b.Name, metav1.GetOptions{})
	noError(t, err)
	if now.UID != successor || now.Status.Phase != corev1.PodRunning {
		t.Errorf("the Pod that replaced the workload is %s, %s", now.UID, now.Status.Phase)
	}
	g.process.Resume()
	resumed = true
	g.demandStopped(t, b)
}

// replace has the workload's Pod deleted and made again by its controller, and makes the new one run with the Secret of the old one. It
// returns the uid of the new one.
func (g *ground) replace(t *testing.T, b *supervisor.Box) types.UID {
	t.Helper()
	client := g.Cluster.Client().CoreV1()
	old, err := client.Pods(b.Namespace).Get(t.Context(), b.Name, metav1.GetOptions{})
	noError(t, err)
	name := b.SecretName("sandbox", b.Run.Generation)
	kept, err := client.Secrets(b.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	noError(t, err)
	noError(t, client.Pods(b.Namespace).Delete(t.Context(), b.Name, metav1.DeleteOptions{}))
	cluster.Eventually(t, "the Secret goes with its Pod", func(ctx context.Context) error {
		_, err := client.Secrets(b.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
	successor := &corev1.Pod{}
	cluster.Eventually(t, "the controller makes the Pod again", func(ctx context.Context) error {
		successor, err = client.Pods(b.Namespace).Get(ctx, b.Name, metav1.GetOptions{})
		if err == nil && successor.UID == old.UID {
			err = errors.New("it is the old one")
		}
		return err
	})
	if len(successor.Spec.SchedulingGates) == 0 {
		t.Error("the new Pod comes without the gate")
	}
	kept.ObjectMeta = metav1.ObjectMeta{Name: name, Labels: kept.Labels, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: successor.Name, UID: successor.UID},
	}}
	_, err = client.Secrets(b.Namespace).Create(t.Context(), kept, metav1.CreateOptions{})
	noError(t, err)
	lift := []byte(`[{"op":"remove","path":"/spec/schedulingGates"}]`)
	_, err = client.Pods(b.Namespace).Patch(t.Context(), b.Name, types.JSONPatchType, lift, metav1.PatchOptions{})
	noError(t, err)
	g.Cluster.AwaitPod(t, b.Namespace, b.Name)
	return successor.UID
}

// hindrances keep a run from getting ready, and the Status says how at once.
var hindrances = map[string]struct {
	box   func(*supervisor.Draft)
	spoil func(object) // of the launch credentials
	part  supervisorv1.Part
	want  string
}{
	"an image that is nowhere": {box: func(d *supervisor.Draft) {
		for _, c := range []*corev1.Container{&d.Pod.InitContainers[1], &d.Pod.Containers[0]} {
			c.Image, c.ImagePullPolicy = absent, corev1.PullNever
		}
	}, part: supervisorv1.Part_PART_WORKLOAD_POD, want: "container workspace-init waits: ErrImageNeverPull"},
	"more than the node has": {box: func(d *supervisor.Draft) {
		d.Pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000")}
	}, part: supervisorv1.Part_PART_WORKLOAD_POD, want: "Insufficient cpu"},
	"a claim that nobody binds": {box: func(d *supervisor.Draft) {
		d.Sandbox.Spec.VolumeClaimTemplates[0].Spec["storageClassName"] = "portcullis.test-none"
	}, part: supervisorv1.Part_PART_WORKLOAD_POD, want: "unbound immediate PersistentVolumeClaims"},
	"a token that the gateway's key did not sign": {spoil: func(bundle object) {
		signing, _, _ := cutLast(bundle["supervisor"].(object)["sandbox_token"].(string), ".")
		bundle["supervisor"].(object)["sandbox_token"] = signing + "." + strings.Repeat("A", 86)
	}, part: supervisorv1.Part_PART_SUPERVISOR_POD, want: "container supervisor ended with code 1"},
}

// absent is an image that no registry and no node has.
const absent = "portcullis.test/absent:1"

// What a node cannot do is in the Status as soon as it says so, the Sandbox never publishes that it is ready, and the run can be
// removed.
func TestNeverReady(t *testing.T) {
	t.Parallel()
	g := newGround(t, supervisor.Operator)
	for name, h := range hindrances {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var changes []func(*supervisor.Draft)
			if h.box != nil {
				changes = append(changes, h.box)
			}
			b := g.box(t, g.namespace(t), changes...)
			request := &supervisorv1.ProvisionRequest{Sandbox: b.Ref(), Run: b.Run.Proto(), RequestId: "test"}
			request.LaunchAuthentication = g.Bundle(b, b.Run, func(o object) {
				if h.spoil != nil {
					h.spoil(o)
				}
			})
			noError(t, insist(t, func(ctx context.Context) error {
				_, err := g.client.Calls.Provision(ctx, request)
				return err
			}))
			g.demandHindered(t, b, h.part, h.want)
		})
	}
}

// demandHindered waits until the Status says why a part is not ready, and removes the run.
func (g *ground) demandHindered(t *testing.T, b *supervisor.Box, part supervisorv1.Part, want string) {
	t.Helper()
	cluster.Eventually(t, "the Status says why", func(ctx context.Context) error {
		status, err := g.client.Status(ctx, b)
		if err == nil && !slices.ContainsFunc(status.GetConditions(), func(c *supervisorv1.Condition) bool {
			return c.GetPart() == part && c.GetAvailability() != supervisorv1.Availability_AVAILABILITY_AVAILABLE && strings.Contains(c.GetMessage(), want)
		}) {
			err = fmt.Errorf("it is %v", status)
		}
		return err
	})
	if got := readiness(t, b); got == "ready" {
		t.Error("the Sandbox publishes that it is ready")
	}
	g.remove(t, b)
	demandLeft(t, g, b)
}

// The supervisor's image is nowhere.
func TestSupervisorImageIsNowhere(t *testing.T) {
	t.Parallel()
	g := newGround(t, supervisor.Operator, func(s *supervisor.Site) {
		s.Images.Supervisor = absent
		s.Stock = append(s.Stock, `supervisor_image_pull_policy = "Never"`)
	})
	b := g.box(t, g.namespace(t))
	noError(t, insist(t, func(ctx context.Context) error {
		_, err := g.client.Provision(ctx, b, b.Run)
		return err
	}))
	g.demandHindered(t, b, supervisorv1.Part_PART_SUPERVISOR_POD, "container supervisor waits: ErrImageNeverPull")
}
