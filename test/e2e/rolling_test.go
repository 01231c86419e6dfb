//go:build portcullis_long

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/portcullis-mesh/portcullis/test/images"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// Each daemon and NATS are restarted as an operator does it, one after the other, while a gateway asks for all that it can ask for. What
// may be answered then package traffic says. The sandboxes that run notice nothing. In the same way the key that signs the list is another one,
// by the words of the documents, and so are identities in NATS, which the server takes up without a restart.
func TestOperatorLabelOverlayRolls(t *testing.T) {
	w := &town{installation: install(t, operatorLabel, relayBeside), whole: t, lanes: severalLanes}
	settle(t, w)
	w.under(t, "nothing is restarted", func(t *testing.T) { w.awaitVisitors(t) })
	for _, daemon := range []string{mesh.Nswatch, mesh.Tokenauth, mesh.Supervisorctl, mesh.Lifecycle} {
		w.under(t, daemon, func(t *testing.T) { w.roll(t, "deployments", daemon) })
	}
	w.settleOperator(t)
	w.under(t, "another signing key", w.anotherSigningKey)
	w.under(t, "another identity of the operator", func(t *testing.T) {
		w.anotherIdentity(t, "operator")
		w.demandGoodList(t)
		w.awaitVisitors(t)
	})
	// The kubelet may bring the server its half sooner than lifecycle's Pods theirs: then these are closed (docs/nats.md).
	w.under(t, "another identity of lifecycle", func(t *testing.T) {
		w.excuse(unproven)
		former := w.connected(mesh.Lifecycle)
		w.anotherIdentity(t, mesh.Lifecycle)
		w.eventually(t, "each lifecycle comes with the new one", func(context.Context) error {
			if now, want := w.connected(mesh.Lifecycle), former+len(w.podsOf(t, mesh.Lifecycle)); now < want {
				return fmt.Errorf("NATS let one in %d times, want %d", now, want)
			}
			return nil
		})
		w.workspace(t, "follows")
		w.awaitVisitors(t)
	})
	w.under(t, "NATS", func(t *testing.T) {
		if away := w.roll(t, "statefulsets", images.NATS); away > bearable {
			w.excuse(unproven)
		}
	})
	w.demandNoRestart(t)
	w.remove(t, w.stays)
	w.remove(t, w.closed)
}

// awaitVisitors waits until some sandboxes have been made and deleted since it was called.
func (w *town) awaitVisitors(t *testing.T) {
	t.Helper()
	const some = 3
	enough := w.visits.Load() + some
	w.eventually(t, "sandboxes come and go", func(context.Context) error {
		if n := w.visits.Load(); n < enough {
			return fmt.Errorf("%d did, want %d", n, enough)
		}
		return nil
	})
}

// roll is restart while sandboxes come and go.
func (w *town) roll(t *testing.T, kind, name string) (took time.Duration) {
	t.Helper()
	took = w.restarted(t, kind, name)
	w.awaitVisitors(t)
	return took
}

// restarted is `kubectl rollout restart` and `kubectl rollout status`, and then waits until no Pod of before is there, which took the time that
// it returns.
func (i *installation) restarted(t *testing.T, kind, name string) (took time.Duration) {
	t.Helper()
	former := i.podsOf(t, name)
	patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, time.Now().Format(time.RFC3339))
	_, err := i.workloads(kind).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	noError(t, err)
	began := time.Now()
	i.awaitReplaced(t, name, former)
	took = time.Since(began)
	t.Logf("the Pods of %s were replaced in %s", name, took.Round(time.Second))
	return took
}

// workloads are the Deployments or StatefulSets of the mesh.
func (i *installation) workloads(kind string) dynamic.ResourceInterface {
	return i.c.Dynamic().Resource(appsv1.SchemeGroupVersion.WithResource(kind)).Namespace(installed)
}

// podsOf are the uids of a workload's Pods.
func (i *installation) podsOf(t *testing.T, name string) map[types.UID]bool {
	t.Helper()
	pods, err := i.c.Client().CoreV1().Pods(installed).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})
	noError(t, err)
	uids := map[types.UID]bool{}
	for _, pod := range pods.Items {
		uids[pod.UID] = true
	}
	if len(uids) == 0 {
		t.Fatalf("%s has no Pods", name)
	}
	return uids
}

// awaitReplaced waits until a workload has as many Pods as before, all of them others, and all ready.
func (i *installation) awaitReplaced(t *testing.T, name string, former map[types.UID]bool) {
	t.Helper()
	i.eventually(t, "the Pods of "+name+" are replaced", func(ctx context.Context) error {
		pods, err := i.c.Client().CoreV1().Pods(installed).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})
		if err != nil {
			return err
		}
		if len(pods.Items) != len(former) {
			return fmt.Errorf("there are %d, want %d: %s", len(pods.Items), len(former), unready(ctx, i.c))
		}
		for n := range pods.Items {
			if pod := &pods.Items[n]; former[pod.UID] || !readyPod(pod) {
				return fmt.Errorf("%s is of before or not ready: %s", pod.Name, unready(ctx, i.c))
			}
		}
		return nil
	})
}

func readyPod(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// lookAgain is how often a condition of an installation is looked at: most of them are programs, or read what every Pod has logged, and take from those
// that they wait for.
const lookAgain = 2 * time.Second

// eventually is cluster.Eventually for what takes longer: on a machine that is busy with traffic, or since the kubelet brings it.
func (i *installation) eventually(t *testing.T, what string, condition func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), lookAgain, rollLimit, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v (last: %v)", what, err, last)
	}
}
