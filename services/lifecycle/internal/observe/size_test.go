package observe

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// large is a Sandbox object as the cluster has it, with a long command and a template.
func large(n int) sandboxapi.Object {
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
	o := object(fmt.Sprintf("10000000-0000-4000-8000-%012d", n), id)
	o.Annotations = (runstate.Record{
		Generation: fmt.Sprintf("g%016x", n), Session: strings.Repeat("s", 36), Epoch: 3, Readiness: runstate.Ready, WorkloadUID: o.UID + "w", SupervisorUID: o.UID + "s",
		FenceUID: strings.Repeat("f", 36), FenceGeneration: 1, MainProcess: strings.Repeat("m", 8<<10), LogLevel: "debug",
	}).Annotations()
	o.Annotations[workspace.AnnotationAdmissionIdentities] = strings.Repeat("a", 4<<10)
	o.Template.Labels = map[string]string{"label": strings.Repeat("l", 60)}
	for range 3 {
		c := corev1.Container{Name: "c", Image: strings.Repeat("i", 200)}
		for e := range 4 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("NAME_", e), Value: strings.Repeat("v", 100)})
		}
		o.Template.Spec.Containers = append(o.Template.Spec.Containers, c)
	}
	for _, kind := range []string{"Ready", "Suspended", "PodScheduled"} {
		o.Conditions = append(o.Conditions, sandboxapi.Condition{Type: kind, Status: "True", Reason: strings.Repeat("r", 20), Message: fmt.Sprint(strings.Repeat("m", 80), n)})
	}
	return o
}

// TestFiveThousandSandboxesFit: what is kept of them is a part of the 160 MiB that the process may have.
func TestFiveThousandSandboxesFit(t *testing.T) {
	const sandboxes, most = 5000, 48 << 20
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, c := heap(), newCore()
	list, podList := Listing[snapshot.Sandbox]{Version: 1}, Listing[snapshot.Pod]{Version: 1}
	for n := range sandboxes {
		o := large(n)
		s, err := snapshot.Read(&o, scheme)
		must(t, err)
		list.Items = append(list.Items, Item[snapshot.Sandbox]{UID: s.UID, Version: 1, Value: s})
		for i, role := range []string{workspace.RoleWorkload, workspace.RoleSupervisor} {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: o.Namespace, Name: role + o.UID, UID: types.UID(o.UID + role[:1]), Labels: map[string]string{workspace.LabelBoundaryRole: role},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: o.Version.APIVersion(), Kind: sandboxapi.Kind, Name: o.Name, UID: types.UID(o.UID), Controller: new(i == 0)}},
			}}
			p.Status.Phase, p.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			kept, err := snapshot.ReadPod(p, scheme)
			must(t, err)
			podList.Items = append(podList.Items, Item[snapshot.Pod]{UID: kept.UID, Version: 1, Value: kept})
		}
	}
	must(t, c.replacePods(podList))
	must(t, c.replaceBoxes(list))
	to := joined(c, 64)
	list, podList = Listing[snapshot.Sandbox]{}, Listing[snapshot.Pod]{}
	kept := heap() - before
	t.Logf("%d sandboxes and a caller take %d KiB", sandboxes, kept>>10)
	if kept > most {
		t.Errorf("that is more than %d KiB", most>>10)
	}
	if got := len(drain(c, to)); got != sandboxes {
		t.Errorf("the caller is told of %d", got)
	}
	runtime.KeepAlive(list)
	runtime.KeepAlive(podList)
}

// TestForeignPodsFit: in operator mode the workload Pods of other gateways are kept, since their Sandbox may yet turn out to be ours.
// What they take, the worst of them with a cause, is little beside what our own take.
func TestForeignPodsFit(t *testing.T) {
	const foreign, most = 5000, 12 << 20
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	operator := scheme
	operator.Mode = driverconf.ModeOperator
	for name, status := range map[string]corev1.PodStatus{
		"ready": {Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		"not scheduled, for a long reason": {Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: strings.Repeat("m", 2<<10),
		}}},
	} {
		before, c := heap(), newCore()
		list := Listing[snapshot.Pod]{Version: 1}
		for n := range foreign {
			uid := fmt.Sprintf("20000000-0000-4000-8000-%012d", n)
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "another-namespace", Name: fmt.Sprintf("a-sandbox-of-another-gateway-%d", n), UID: types.UID(uid),
				Labels: map[string]string{workspace.LabelBoundaryRole: workspace.RoleWorkload},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: sandboxapi.V1beta1.APIVersion(), Kind: sandboxapi.Kind, Name: "theirs", UID: types.UID("3" + uid[1:]), Controller: new(true),
				}},
			}, Status: status}
			kept, err := snapshot.ReadPod(p, operator)
			must(t, err)
			list.Items = append(list.Items, Item[snapshot.Pod]{UID: kept.UID, Version: 1, Value: kept})
		}
		must(t, c.replacePods(list))
		list = Listing[snapshot.Pod]{}
		kept := heap() - before
		t.Logf("%d foreign Pods that are %s take %d KiB", foreign, name, kept>>10)
		if kept > most {
			t.Errorf("that is more than %d KiB", most>>10)
		}
		if got := c.unowned(); got != foreign {
			t.Errorf("%d are kept", got)
		}
		runtime.KeepAlive(list)
	}
}
