package snapshot

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/fenceevidence"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const (
	sandboxID = "6f1d2c3b-0000-4000-8000-0123456789ab"
	boxUID    = "box-uid"
)

var (
	epoch  = time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
	scheme = workspace.Scheme{Mode: driverconf.ModeShared, GatewayID: "blue", Namespace: "openshell"}
)

// running is the record of a run that is ready.
func running() runstate.Record {
	return runstate.Record{
		Generation: "g0000000000000001", Session: "s", Epoch: 1, Readiness: runstate.Ready, WorkloadUID: "w", SupervisorUID: "s",
		FenceUID: "f", FenceGeneration: 1, MainProcess: `{"a":1}`, LogLevel: "debug", FenceEvidence: evidence(nil),
	}
}

// evidence is what supervisorctl recorded of that run's fence, with a claim changed.
func evidence(change func(claims map[fenceevidence.Claim]string)) string {
	claims := map[fenceevidence.Claim]string{
		fenceevidence.NamespaceUID: "n", fenceevidence.SandboxUID: boxUID, fenceevidence.WorkloadUID: "w",
		fenceevidence.SupervisorUID: "s", fenceevidence.PolicyUID: "f", fenceevidence.PolicyVersion: "7",
	}
	if change != nil {
		change(claims)
	}
	text, err := fenceevidence.Encode(fenceevidence.Evidence{Generation: "g000000000000002a", Digest: strings.Repeat("0a", 32), Claims: claims})
	if err != nil {
		panic(err)
	}
	return text
}

// starting is that of a create that has been released.
func starting() runstate.Record {
	r := running()
	r.Bootstrapping, r.StartedAt, r.Operation, r.Phase, r.Attempt, r.Readiness = true, epoch.UnixMilli(), runstate.Create, runstate.Released, "a", ""
	return r
}

// stopping is that of a stop under way.
func stopping() runstate.Record {
	r := running()
	r.Operation, r.Phase, r.Readiness = runstate.Stop, runstate.Releasing, runstate.Unavailable
	return r
}

// scene is a sandbox as the cluster has it.
type scene struct {
	box                  sandboxapi.Object
	record               runstate.Record
	workload, supervisor *corev1.Pod
	unknown              bool // the Pods are not known
}

// healthy is the valid base that each case breaks in one way: it runs and is ready.
func healthy() *scene {
	s := &scene{record: running()}
	s.box = sandboxapi.Object{
		Sandbox: sandboxapi.Sandbox{
			Namespace: "openshell", Name: "team--box", UID: boxUID,
			Labels: map[string]string{
				workspace.LabelManagedBy: workspace.ManagedByOpenShell, workspace.LabelGatewayID: "blue", workspace.LabelSandboxID: sandboxID,
				workspace.LabelSandboxName: "box", workspace.LabelSandboxWorkspace: "team",
			},
			Annotations: map[string]string{workspace.AnnotationSandboxID: sandboxID},
		},
		Version: sandboxapi.V1beta1, Generation: 4, ResourceVersion: "77", Mode: sandboxapi.Running,
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(int64(10001)), RunAsGroup: new(int64(10002))}}},
		Conditions: []sandboxapi.Condition{
			{Type: "Ready", Status: "True", Reason: "DependenciesReady", Message: "all is well", ObservedGeneration: 4, Transition: metav1.NewTime(epoch)},
			{Type: "Suspended", Status: "False", Reason: "NotSuspended", ObservedGeneration: 4},
		},
	}
	s.workload, s.supervisor = pod("team--box", "w", workspace.RoleWorkload), pod(workspace.SupervisorPod(sandboxID), "s", workspace.RoleSupervisor)
	return s
}

func pod(name, uid, role string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "openshell", Name: name, UID: types.UID(uid), Labels: map[string]string{workspace.LabelBoundaryRole: role},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: sandboxapi.V1beta1.APIVersion(), Kind: sandboxapi.Kind, Name: "team--box", UID: boxUID, Controller: new(role == workspace.RoleWorkload),
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// unready takes a Pod's readiness away.
func unready(p *corev1.Pod, phase corev1.PodPhase) *corev1.PodStatus {
	p.Status = corev1.PodStatus{Phase: phase}
	return &p.Status
}

// suspend makes the scene one that is stopped.
func (s *scene) suspend() {
	s.record, s.box.Mode, s.workload, s.supervisor = running().Stopped(), sandboxapi.Suspended, nil, nil
	s.record.Readiness = runstate.Unavailable
	s.box.Conditions = []sandboxapi.Condition{
		{Type: "Ready", Status: "False", Reason: "SandboxSuspended", ObservedGeneration: 4},
		{Type: "Suspended", Status: "True", Reason: "PodTerminated", ObservedGeneration: 4},
	}
}

// set replaces or adds a condition of the present generation.
func (s *scene) set(kind, status, reason string) {
	s.put(sandboxapi.Condition{Type: kind, Status: status, Reason: reason, Message: reason + " it says", ObservedGeneration: s.box.Generation})
}

func (s *scene) put(c sandboxapi.Condition) {
	for i := range s.box.Conditions {
		if s.box.Conditions[i].Type == c.Type {
			s.box.Conditions[i] = c
			return
		}
	}
	s.box.Conditions = append(s.box.Conditions, c)
}

// without takes a condition away.
func (s *scene) without(kind string) {
	var kept []sandboxapi.Condition
	for _, c := range s.box.Conditions {
		if c.Type != kind {
			kept = append(kept, c)
		}
	}
	s.box.Conditions = kept
}

func (s *scene) read(t testing.TB) Sandbox {
	t.Helper()
	for key, value := range s.record.Annotations() {
		if _, set := s.box.Annotations[key]; !set {
			s.box.Annotations[key] = value
		}
	}
	read, err := Read(&s.box, scheme)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func (s *scene) render(t testing.TB) *computev1.DriverSandbox {
	t.Helper()
	read := s.read(t)
	var all []*Pod
	for _, p := range []*corev1.Pod{s.workload, s.supervisor} {
		if p == nil {
			continue
		}
		kept, err := ReadPod(p, scheme)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &kept)
	}
	return Render(&read, Pick(&read, all, !s.unknown))
}

func find(d *computev1.DriverSandbox, kind string) *computev1.DriverCondition {
	for _, c := range d.GetStatus().GetConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	return nil
}
