package reconcile

import (
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const (
	gateway = "blue"
	ns      = "team"
)

// epoch is when the tests begin.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func defaultPace() pace { return (&Loop{cfg: DefaultSettings()}).pace() }

func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// running is the record of a run that is ready.
func running() runstate.Record {
	return runstate.Record{
		Generation: "g0000000000000001", Session: "s", Epoch: 1, Readiness: runstate.Ready,
		WorkloadUID: "w", SupervisorUID: "s", FenceUID: "f", FenceGeneration: 1, MainProcess: `{"a":1}`, LogLevel: "debug",
	}
}

// preparing is one of a start under way.
func preparing() runstate.Record {
	return runstate.Record{
		Bootstrapping: true, StartedAt: epoch.UnixMilli(), Operation: runstate.Create, Phase: runstate.Preparing,
		Generation: "g0000000000000001", Session: "s", Epoch: 1, Attempt: "a",
	}
}

// releasing is one of a stop under way.
func releasing() runstate.Record {
	return runstate.Record{Operation: runstate.Stop, Phase: runstate.Releasing, Generation: "g0000000000000001", Readiness: runstate.Unavailable}
}

// meta is metadata with an owner, if there is one.
func meta(kind, name, uid string, labels map[string]string, owner *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: name, UID: types.UID(uid), ResourceVersion: "1", Generation: 1, Labels: labels,
	}}
	m.Kind = kind
	if owner != nil {
		m.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: sandboxapi.V1beta1.APIVersion(), Kind: sandboxapi.Kind, Name: owner.Name, UID: owner.UID,
		}}
	}
	return m
}

func boxMeta(n int, record runstate.Record) *metav1.PartialObjectMetadata {
	m := meta(sandboxapi.Kind, fmt.Sprintf("box-%d", n), fmt.Sprintf("uid-%d", n), map[string]string{
		workspace.LabelManagedBy: workspace.ManagedByOpenShell, workspace.LabelGatewayID: gateway, workspace.LabelSandboxID: id(n),
	}, nil)
	m.APIVersion = sandboxapi.V1beta1.APIVersion()
	m.Annotations = record.Annotations()
	return m
}

func supervisorMeta(n int, owner *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	m := meta("Pod", workspace.SupervisorPod(id(n)), fmt.Sprintf("supervisor-%d", n), map[string]string{
		workspace.LabelManagedBy: workspace.ManagedByOpenShell, workspace.LabelGatewayID: gateway, workspace.LabelSandboxID: id(n),
		workspace.LabelComponent: workspace.ComponentSupervisor, workspace.LabelBoundaryPair: workspace.Pair(id(n)),
		workspace.LabelBoundaryRole: workspace.RoleSupervisor,
	}, owner)
	m.APIVersion = "v1"
	return m
}

func workloadMeta(n int, owner *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	m := meta("Pod", owner.Name, fmt.Sprintf("workload-%d", n), map[string]string{
		workspace.LabelBoundaryPair: workspace.Pair(id(n)), workspace.LabelBoundaryRole: workspace.RoleWorkload,
	}, owner)
	m.APIVersion = "v1"
	return m
}

func serviceMeta(n int, owner *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	m := meta("Service", workspace.BoundaryService(id(n)), fmt.Sprintf("service-%d", n), map[string]string{
		workspace.LabelManagedBy: workspace.ManagedByOpenShell, workspace.LabelSandboxID: id(n),
		workspace.LabelComponent: workspace.ComponentBoundaryService,
	}, owner)
	m.APIVersion = "v1"
	return m
}

func policyMeta(name, uid, component string) *metav1.PartialObjectMetadata {
	m := meta("NetworkPolicy", name, uid, map[string]string{
		workspace.LabelManagedBy: workspace.ManagedByOpenShell, workspace.LabelComponent: component,
	}, nil)
	m.APIVersion = "networking.k8s.io/v1"
	return m
}

func fenceMeta() *metav1.PartialObjectMetadata {
	return policyMeta(workspace.WorkloadFence, "fence", workspace.ComponentWorkloadFence)
}

func egressMeta() *metav1.PartialObjectMetadata {
	return policyMeta(workspace.SupervisorEgress, "egress", workspace.ComponentSupervisorEgress)
}

// ready is a record that fits the companions of sandbox n.
func ready(n int) runstate.Record {
	r := running()
	r.WorkloadUID, r.SupervisorUID, r.FenceUID = fmt.Sprintf("workload-%d", n), fmt.Sprintf("supervisor-%d", n), "fence"
	return r
}

// of is what is kept of an object. A Pod is whole, as watches report it, with the status that the annotation says.
func of(k kind, m *metav1.PartialObjectMetadata) object {
	if k == pods {
		return podOf(wholePod(m))
	}
	return objectOf(k, &m.ObjectMeta)
}

// sign is an annotation that no Pod has: what the kubelet says of it.
const sign = "test/says"

// wholePod is the Pod of which only the metadata are given.
func wholePod(m *metav1.PartialObjectMetadata) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: *m.ObjectMeta.DeepCopy()}
	switch p.Annotations[sign] {
	case "ready":
		p.Status = readyStatus()
	case "crashed":
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: 1, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1},
		}}}
	}
	if delete(p.Annotations, sign); len(p.Annotations) == 0 {
		p.Annotations = nil
	}
	return p
}

func readyStatus() corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
}

// says is an edit after which the kubelet says so of a Pod.
func says(what string) func(m *metav1.PartialObjectMetadata) {
	return func(m *metav1.PartialObjectMetadata) {
		m.Annotations = maps.Clone(m.Annotations)
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[sign] = what
	}
}

// next is the object after a change.
func next(m *metav1.PartialObjectMetadata, edit func(m *metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	c := m.DeepCopy()
	c.Labels = maps.Clone(c.Labels)
	c.ResourceVersion += "1"
	edit(c)
	return c
}

// bench is a ledger with a clock.
type bench struct {
	*ledger
	t   *testing.T
	now time.Time
}

// newBench has listed everything that it is given, and the fence.
func newBench(t *testing.T, all map[kind][]*metav1.PartialObjectMetadata) *bench {
	b := &bench{ledger: newLedger(gateway, defaultPace(), func() float64 { return 0 }), t: t, now: epoch}
	if all[policies] == nil {
		all[policies] = []*metav1.PartialObjectMetadata{fenceMeta(), egressMeta()}
	}
	for k := range kinds {
		var list []object
		for _, m := range all[k] {
			list = append(list, of(k, m))
		}
		b.replace(k, list, b.now)
	}
	return b
}

// healthy is a bench with one sandbox that runs, and its objects.
func healthy(t *testing.T) (b *bench, box, supervisor, workload, service *metav1.PartialObjectMetadata) {
	box = boxMeta(1, ready(1))
	supervisor, workload, service = supervisorMeta(1, box), workloadMeta(1, box), serviceMeta(1, box)
	return newBench(t, map[kind][]*metav1.PartialObjectMetadata{
		boxes: {box}, pods: {supervisor, workload}, services: {service},
	}), box, supervisor, workload, service
}

// wants takes the look that must be due now.
func (b *bench) wants() task {
	b.t.Helper()
	t, wait, ok := b.take(b.now)
	if !ok {
		b.t.Fatalf("no look is due, the next one in %s", wait)
	}
	return t
}

// rests demands that none is due for so long; negative for never.
func (b *bench) rests(want time.Duration) {
	b.t.Helper()
	if t, wait, ok := b.take(b.now); ok || wait != want {
		b.t.Fatalf("a look at %+v is due, or one in %s; want it in %s", t.key, wait, want)
	}
}

// ends ends a look that read the Sandbox as it is.
func (b *bench) ends(t task, end ending) change {
	f := finding{ending: end}
	if e := b.spaces[t.key.namespace][t.key.uid]; e != nil && e.box != nil {
		f.live = &sandboxapi.Object{Sandbox: sandboxapi.Sandbox{UID: e.box.uid, Annotations: e.box.record.Annotations()}, ResourceVersion: e.box.version}
	}
	return b.done(t, &f, b.now)
}

func (b *bench) pass(d time.Duration) { b.now = b.now.Add(d) }

func (b *bench) see(k kind, m *metav1.PartialObjectMetadata) { b.put(of(k, m), b.now) }
