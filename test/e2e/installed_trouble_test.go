//go:build portcullis_long

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// takeOver: the Pod of the nswatch that leads is taken away at once. The other one leads then, and says who may; until it does nobody is told a
// wrong yes or a wrong no.
func takeOver(t *testing.T, i *installation) {
	ns, barred := i.workspace(t, "succession"), i.namespace(t, "barred")
	former := i.leader(t)
	pods := i.c.Client().CoreV1().Pods(installed)
	noError(t, pods.Delete(t.Context(), former, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	cluster.Eventually(t, "another nswatch leads", func(ctx context.Context) error {
		i.demandGate(t, ns, barred)
		if now := i.leader(t); now == former || now == "" {
			return fmt.Errorf("the Lease is held by %q", now)
		}
		return nil
	})
	cluster.Eventually(t, "the gate is open", func(ctx context.Context) error {
		i.demandGate(t, ns, barred)
		return i.gateway.EnsureWorkspace(ctx, ns)
	})
	// What the new one says is new: both change places.
	i.admit(t, barred, true)
	i.admit(t, ns, false)
	i.awaitAllowed(t, barred)
	i.awaitBarred(t, ns)
	awaitWorkloads(t, i.c, i.rendered)
}

// leader is the Pod of the nswatch that leads.
func (i *installation) leader(t *testing.T) string {
	t.Helper()
	lease, err := i.c.Client().CoordinationV1().Leases(installed).Get(t.Context(), "portcullis-nswatch-openshell", metav1.GetOptions{})
	noError(t, err)
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	// A holder is its Pod and something of the process.
	for name := range i.daemonPods(t, mesh.Nswatch) {
		if strings.Contains(*lease.Spec.HolderIdentity, name) {
			return name
		}
	}
	return ""
}

// daemonPods are a daemon's Pods, by their names.
func (i *installation) daemonPods(t *testing.T, daemon string) map[string]*corev1.Pod {
	t.Helper()
	list, err := i.c.Client().CoreV1().Pods(installed).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + daemon})
	noError(t, err)
	found := map[string]*corev1.Pod{}
	for n := range list.Items {
		found[list.Items[n].Name] = &list.Items[n]
	}
	return found
}

// demandGate: a namespace that may be used is usable or nobody knows, and one that may not is not.
func (i *installation) demandGate(t *testing.T, allowed, barred string) {
	t.Helper()
	if err := i.gateway.EnsureWorkspace(t.Context(), allowed); status.Code(err) != codes.OK && status.Code(err) != codes.Unavailable {
		t.Errorf("what may be used is answered %v", err)
	}
	if err := i.gateway.EnsureWorkspace(t.Context(), barred); err == nil {
		t.Error("what may not be used was granted")
	}
}

// awaitBarred waits for a known no.
func (i *installation) awaitBarred(t *testing.T, ns string) {
	t.Helper()
	cluster.Eventually(t, "workspace "+ns+" may not be used", func(ctx context.Context) error {
		if err := i.gateway.EnsureWorkspace(ctx, ns); status.Code(err) != codes.PermissionDenied {
			return fmt.Errorf("the answer is %w", errors.Join(err, errors.New("not PERMISSION_DENIED")))
		}
		return nil
	})
}

// wrongSelector: with a label selector that is none no new Pod of any daemon becomes ready; each says so by an Event on itself, and waits without
// a restart. Those of before go on meanwhile. When they are gone, too, the gate is closed; and it opens when the settings are right.
func wrongSelector(t *testing.T, i *installation) {
	ns, barred := i.workspace(t, "selected"), i.namespace(t, "unselected")
	i.hold(t)
	const right, wrong = `operator_namespace_label = "openshell.ai/sandboxes=allowed"`, `operator_namespace_label = "a=b=c"`
	i.amend = func(settings string) string { return strings.Replace(settings, right, wrong, 1) }
	before := map[string]map[string]*corev1.Pod{}
	for _, daemon := range mesh.Daemons() {
		before[daemon] = i.daemonPods(t, daemon)
	}
	i.again(t)
	for _, daemon := range mesh.Daemons() {
		i.awaitTold(t, daemon, before[daemon], "operator_namespace_label", "is not a label selector")
	}
	i.demandGate(t, ns, barred)
	noError(t, i.gateway.EnsureWorkspace(t.Context(), ns)) // by those of before
	i.dropFormer(t, mesh.Nswatch, before[mesh.Nswatch])
	cluster.Eventually(t, "the gate closes", func(ctx context.Context) error {
		i.demandGate(t, ns, barred)
		if err := i.gateway.EnsureWorkspace(ctx, ns); err == nil {
			return errors.New("it is open")
		}
		return nil
	})
	i.admit(t, barred, true) // which nobody is there to see
	for _, daemon := range mesh.Daemons() {
		i.awaitTold(t, daemon, before[daemon], "operator_namespace_label", "is not a label selector")
	}
	if err := i.gateway.EnsureWorkspace(t.Context(), barred); status.Code(err) != codes.Unavailable {
		t.Errorf("while nobody knows the answer is %v", err)
	}
	i.amend = nil
	i.again(t)
	i.awaitReady(t)
	i.awaitAllowed(t, ns)
	i.awaitAllowed(t, barred)
}

// awaitTold waits until a daemon has a Pod of its own besides the former ones which is not ready, was never started again, and has an Event with
// the words.
func (i *installation) awaitTold(t *testing.T, daemon string, former map[string]*corev1.Pod, words ...string) {
	t.Helper()
	cluster.Eventually(t, "an Event says what is wrong with "+daemon, func(ctx context.Context) error {
		var seen []string
		for name, pod := range i.daemonPods(t, daemon) {
			if former[name] != nil {
				continue
			}
			if readyPod(pod) {
				t.Errorf("Pod %s is ready with settings that are wrong", name)
			}
			for _, c := range pod.Status.ContainerStatuses {
				if c.RestartCount > 0 {
					t.Errorf("%s of Pod %s was started %d times again: %+v", c.Name, name, c.RestartCount, c.LastTerminationState)
				}
			}
			events, err := i.c.Client().CoreV1().Events(installed).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID)})
			if err != nil {
				return err
			}
			for _, e := range events.Items {
				if strings.HasSuffix(e.Reason, "NotReady") && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(e.Message, word) }) {
					return nil
				}
				seen = append(seen, e.Reason+": "+e.Message)
			}
		}
		return fmt.Errorf("there is no such Event, but %s", strings.Join(seen, "; "))
	})
}

// dropFormer deletes the ReplicaSet of these Pods, so that none of them is left.
func (i *installation) dropFormer(t *testing.T, daemon string, former map[string]*corev1.Pod) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	for _, pod := range former {
		set := metav1.GetControllerOf(pod)
		if set == nil {
			t.Fatalf("Pod %s is nobody's", pod.Name)
		}
		err := i.c.Client().AppsV1().ReplicaSets(installed).Delete(t.Context(), set.Name, metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	cluster.Eventually(t, "the former Pods of "+daemon+" are gone", func(context.Context) error {
		for name := range i.daemonPods(t, daemon) {
			if former[name] != nil {
				return fmt.Errorf("%s is there", name)
			}
		}
		return nil
	})
}
