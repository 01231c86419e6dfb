//go:build portcullis_long

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/gateway"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// entries are a daemon's lines that are meant, of all its Pods that are there, the oldest first.
func (i *installation) entries(daemon string, meant func(map[string]any) bool) (found []map[string]any) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	core := i.c.Client().CoreV1().Pods(installed)
	pods, err := core.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil // who waits for a line asks again
	}
	for _, pod := range pods.Items {
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			if c.Name != daemon && c.Name != "portcullis-"+daemon {
				continue
			}
			log, err := core.GetLogs(pod.Name, &corev1.PodLogOptions{Container: c.Name}).DoRaw(ctx)
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(log)) {
				var entry map[string]any
				if json.Unmarshal([]byte(line), &entry) == nil && meant(entry) {
					found = append(found, entry)
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b map[string]any) int { return strings.Compare(fmt.Sprint(a["time"]), fmt.Sprint(b["time"])) })
	return found
}

// fencedRun: in a workspace that may be used a command runs in a Pod that reaches nothing that an ordinary Pod beside it reaches, whose token is
// nobody's, and whose files outlive a run.
func fencedRun(t *testing.T, i *installation, workspace string) {
	ns, object := i.place(workspace, "box")
	i.c.Apply(t, ns, fmt.Appendf(nil, probePod, "other", cluster.ProbeImage))
	s, err := i.create(t, i.wish(t, workspace, "box"))
	noError(t, err)
	if got := i.does(t, s.ID, "echo", "hello from inside"); got != "hello from inside" {
		t.Errorf("the command says %q", got)
	}
	other := i.c.AwaitPod(t, ns, "other")
	targets := []string{"10.96.0.1:443", net.JoinHostPort(other.Status.PodIP, "8080"), net.JoinHostPort(cluster.DNSAddress, "53")}
	const own = "tcp:127.0.0.1:5500" // its own end of the boundary: that a look can succeed
	look := []string{"reach", own}
	for _, target := range targets {
		dials(t, other, target, true)
		look = append(look, "tcp:"+target)
	}
	said := i.does(t, s.ID, look...)
	if found := open(said); !found[own] || len(found) != 1 {
		t.Errorf("from inside the fence: %s", said)
	}
	if err := i.exchangeOf(t.Context(), s, object); !slices.Contains([]codes.Code{codes.PermissionDenied, codes.Unauthenticated}, status.Code(err)) {
		t.Errorf("the workload's Pod, with a token of its own, is answered %v", err)
	}
	i.does(t, s.ID, "write", "/sandbox/note", "kept")
	noError(t, i.restart(t, s))
	s, err = i.gateway.Get(s.ID)
	noError(t, err)
	if got := i.does(t, s.ID, "cat", "/sandbox/note"); got != "kept" {
		t.Errorf("after a new start the workspace has %q", got)
	}
	i.replaceGateway(t, s)
	i.remove(t, s)
}

// replaceGateway ends the gateway's Pod. The next one, with what is beside it, goes on with a sandbox that nobody has touched.
func (i *installation) replaceGateway(t *testing.T, s gateway.Sandbox) {
	t.Helper()
	before := i.traces(t, s)
	pods := i.c.Client().CoreV1().Pods(installed)
	former, err := pods.Get(t.Context(), gatewayPod, metav1.GetOptions{})
	noError(t, err)
	noError(t, pods.Delete(t.Context(), gatewayPod, metav1.DeleteOptions{}))
	cluster.Eventually(t, "the gateway has another Pod", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, gatewayPod, metav1.GetOptions{})
		if err == nil && pod.UID == former.UID {
			err = errors.New("it is the former")
		}
		return err
	})
	i.c.AwaitPod(t, installed, gatewayPod)
	cluster.Eventually(t, "the gateway can be asked", func(context.Context) error {
		_, err := i.gateway.Get(s.ID)
		return err
	})
	i.demandToken(t, s) // of its supervisor, which dials the new one
	i.demandListed(t, s)
	i.demandTraces(t, s, before)
}

// unprepared: in a namespace with the label, where the daemons have no rights, nothing is made, and whoever looks is told what is missing.
func unprepared(t *testing.T, i *installation) {
	prepare := i.prepare
	i.prepare = nil
	ns := i.workspace(t, "unprepared")
	i.prepare = prepare
	if _, err := i.gateway.Create(t.Context(), i.wish(t, ns, "box")); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("where the daemons may make nothing a create answers %v", err)
	}
	cluster.Eventually(t, "lifecycle logs why", func(context.Context) error {
		lines := i.log(mesh.Lifecycle, func(entry map[string]any) bool {
			return entry["message"] == "refused" && entry["reason"] == "sandbox_refused" && strings.Contains(fmt.Sprint(entry["error"]), "is forbidden")
		})
		if len(lines) == 0 {
			return errors.New("it has not")
		}
		return nil
	})
	i.awaitNothing(t, ns, "box", "box")
}

// absence is of a workload's replicas, all but the first left, without which nobody knows whether the list is current. The reasons are those for
// which what asks the list is refused then.
type absence struct {
	kind, name string
	left       int32
	reasons    []string
}

// outage: while nobody knows whether the list is current all that asks it is refused, with another answer than a no; what does not ask it goes
// on. When who was away is back the gate opens by itself.
func outage(t *testing.T, i *installation, ns string, away absence) {
	s, err := i.create(t, i.wish(t, ns, "box"))
	noError(t, err)
	noError(t, i.exchange(t.Context(), s))
	replicas := i.scale(t, away.kind, away.name, away.left)
	former := i.log(mesh.Lifecycle, refusal(ns))
	cluster.Eventually(t, "the gate closes", func(ctx context.Context) error {
		if err := i.gateway.EnsureWorkspace(ctx, ns); status.Code(err) != codes.Unavailable {
			return fmt.Errorf("the answer is %w", errors.Join(err, errors.New("not UNAVAILABLE")))
		}
		return nil
	})
	cluster.Eventually(t, "lifecycle logs why", func(context.Context) error {
		lines := i.log(mesh.Lifecycle, refusal(ns))
		if len(lines) <= len(former) {
			return errors.New("it has not")
		}
		if reason := lines[len(lines)-1]["reason"]; !slices.Contains(away.reasons, fmt.Sprint(reason)) {
			t.Errorf("the reason is %v", lines[len(lines)-1])
		}
		return nil
	})
	if made, err := i.gateway.Create(t.Context(), i.wish(t, ns, "late")); err == nil {
		t.Errorf("while nobody knows %s was made", made.ID)
	}
	if err := i.exchange(t.Context(), s); status.Code(err) != codes.Unavailable {
		t.Errorf("while nobody knows the exchange of a token answers %v", err)
	}
	if got := i.does(t, s.ID, "echo", "still here"); got != "still here" {
		t.Errorf("the command says %q", got)
	}
	i.demandListed(t, s)
	noError(t, i.stop(t, s))
	i.scale(t, away.kind, away.name, replicas)
	i.awaitAllowed(t, ns)
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	_, err = i.gateway.Start(ctx, s.ID)
	noError(t, err)
	_, err = i.await(ctx, s.ID, phase.Ready)
	noError(t, err)
	i.remove(t, s)
}

func refusal(namespace string) func(map[string]any) bool {
	return func(entry map[string]any) bool {
		return entry["message"] == "refused" && strings.Contains(fmt.Sprint(entry["error"]), fmt.Sprintf("namespace %q", namespace))
	}
}

// scale sets how many replicas a workload has, waits until those that are too many are gone, or those that were missing available, and returns
// how many it had.
func (i *installation) scale(t *testing.T, kind, name string, replicas int32) (former int32) {
	t.Helper()
	w, err := i.workloads(kind).Get(t.Context(), name, metav1.GetOptions{})
	noError(t, err)
	number := func(w *unstructured.Unstructured, path ...string) int32 {
		n, _, err := unstructured.NestedInt64(w.Object, path...)
		noError(t, err)
		return int32(n)
	}
	former = number(w, "spec", "replicas")
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err = i.workloads(kind).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	noError(t, err)
	i.eventually(t, fmt.Sprintf("%s has %d replicas", name, replicas), func(ctx context.Context) error {
		w, err := i.workloads(kind).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if there, available := number(w, "status", "replicas"), number(w, "status", "availableReplicas"); there != replicas || replicas > former && available != replicas {
			return fmt.Errorf("%d are there and %d available: %s", there, available, unready(ctx, i.c))
		}
		return nil
	})
	return former
}
