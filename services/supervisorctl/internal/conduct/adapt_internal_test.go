package conduct

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/fence"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// seeing is a round that has seen a run that stands, made by the renderers; each case breaks one object.
func seeing(t *testing.T) *round {
	t.Helper()
	s := newSite(t, newWorld(fresh()))
	box := fresh()
	record, err := runstate.Of(box.Annotations)
	if err != nil {
		t.Fatal(err)
	}
	record.Attempt = "other-1"
	box.Annotations, box.Mode = record.Annotations(), sandboxapi.Running
	r := &round{Conductor: s.Conductor, goal: s.goal(plan.Provision), attempt: plan.Attempt{ID: s.process + "-1"}, log: s.Conductor.log}
	r.seen.box.value = box
	policies, err := fence.Render(namespace, s.settings.SandboxRuntime.BoundaryPort)
	if err != nil {
		t.Fatal(err)
	}
	service, err := s.renderer.Service(r.sandbox())
	if err != nil {
		t.Fatal(err)
	}
	supervisor, err := s.renderer.SupervisorPod(r.sandbox())
	if err != nil {
		t.Fatal(err)
	}
	policies.Workloads.UID, policies.Workloads.Generation, policies.Supervisors.UID = "uid-fence", 3, "uid-egress"
	service.UID, service.Spec.ClusterIP, supervisor.UID = "uid-service", "10.96.0.7", "uid-supervisor"
	workload := &corev1.Pod{ObjectMeta: *box.Template.ObjectMeta.DeepCopy(), Spec: *box.Template.Spec.DeepCopy()}
	workload.Namespace, workload.Name, workload.UID = namespace, boxName, "uid-workload"
	workload.OwnerReferences = []metav1.OwnerReference{{APIVersion: box.Version.APIVersion(), Kind: sandboxapi.Kind, Name: boxName, UID: boxUID, Controller: new(true)}}
	workload.Spec.Volumes = append(workload.Spec.Volumes, corev1.Volume{Name: "workspace", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "workspace-" + boxName},
	}})
	r.seen.fence.value, r.seen.egress.value = policies.Workloads, policies.Supervisors
	r.seen.service.value, r.seen.supervisor.value, r.seen.workload.value = service, supervisor, workload
	return r
}

// A Sandbox that bears our labels elsewhere, as a copy that was restored into another namespace, is nobody's to act on.
func TestSandboxOutOfItsPlace(t *testing.T) {
	r := seeing(t)
	if f := r.facts(); f.Misplaced != "" {
		t.Fatalf("one in its place is %q", f.Misplaced)
	}
	r.seen.box.value.Namespace = "elsewhere"
	f := r.facts()
	if f.Misplaced == "" {
		t.Fatal("a copy is in its place")
	}
	for _, goal := range []plan.Goal{plan.Provision, plan.Restart, plan.Release, plan.Remove} {
		r.goal.Goal = goal
		if step := plan.Next(r.goal.Want, &f); step.Reason != verdict.RunSandboxForeign {
			t.Errorf("goal %d: %s, reason %q", goal, step.Action, step.Reason)
		}
	}
	r.goal.Goal = plan.Keep
	if step := plan.Next(r.goal.Want, &f); step.Action != plan.Done {
		t.Errorf("the loop does %s with it", step.Action)
	}
}

func TestPoliciesAsFacts(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(p *networkingv1.NetworkPolicy)
		want   plan.Standing
	}{
		"as rendered": {func(*networkingv1.NetworkPolicy) {}, plan.Stands},
		"wider":       {func(p *networkingv1.NetworkPolicy) { p.Spec.Egress = append(p.Spec.Egress, open) }, plan.Altered},
		"foreign":     {func(p *networkingv1.NetworkPolicy) { p.Labels = nil }, plan.Foreign},
		"going":       {func(p *networkingv1.NetworkPolicy) { p.DeletionTimestamp = new(metav1.Now()) }, plan.Altered},
	} {
		r := seeing(t)
		tc.change(r.seen.fence.value)
		f := r.facts()
		found, ok := f.WorkloadFence.Value()
		if !ok || found.Standing != tc.want || (found.Difference == "") != (tc.want == plan.Stands) || found.UID != "uid-fence" || found.Generation != 3 {
			t.Errorf("%s: %+v", name, found)
		}
		if egress, ok := f.SupervisorFence.Value(); !ok || egress.Standing != plan.Stands || egress.UID != "uid-egress" {
			t.Errorf("%s: the other one: %+v", name, egress)
		}
	}
}

func TestServiceAsFact(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(r *round, s *corev1.Service)
		want     plan.Ownership
		deleting bool
		address  string
	}{
		"as rendered":         {func(*round, *corev1.Service) {}, plan.OfThisRun, false, "10.96.0.7"},
		"another selector":    {func(_ *round, s *corev1.Service) { s.Spec.Selector["a"] = "b" }, plan.OfAnotherRun, false, "10.96.0.7"},
		"another owner":       {func(_ *round, s *corev1.Service) { s.OwnerReferences[0].UID = "uid-other" }, plan.Theirs, false, "10.96.0.7"},
		"no owner":            {func(_ *round, s *corev1.Service) { s.OwnerReferences = nil }, plan.Theirs, false, "10.96.0.7"},
		"another sandbox id":  {func(_ *round, s *corev1.Service) { s.Labels[workspace.LabelSandboxID] = "x" }, plan.Theirs, false, "10.96.0.7"},
		"going":               {func(_ *round, s *corev1.Service) { s.DeletionTimestamp = new(metav1.Now()) }, plan.OfThisRun, true, "10.96.0.7"},
		"headless":            {func(_ *round, s *corev1.Service) { s.Spec.ClusterIP = "None" }, plan.OfThisRun, false, ""},
		"no address":          {func(_ *round, s *corev1.Service) { s.Spec.ClusterIP = "" }, plan.OfThisRun, false, ""},
		"Sandbox is gone":     {func(r *round, _ *corev1.Service) { r.seen.box.value = nil }, plan.OfAnotherRun, false, "10.96.0.7"},
		"Sandbox is replaced": {func(r *round, _ *corev1.Service) { r.seen.box.value.UID = "uid-new" }, plan.OfAnotherRun, false, "10.96.0.7"},
		"of the new Sandbox": {func(r *round, s *corev1.Service) {
			r.seen.box.value.UID, s.OwnerReferences[0].UID = "uid-new", "uid-new"
		}, plan.Theirs, false, "10.96.0.7"},
		"uid is not known": {func(r *round, _ *corev1.Service) { r.seen.box.value, r.goal.Ref.UID = nil, "" }, plan.OfAnotherRun, false, "10.96.0.7"},
		"uid is not known, and the name is another's": {func(r *round, s *corev1.Service) {
			r.seen.box.value, r.goal.Ref.UID, s.OwnerReferences[0].Name = nil, "", "other"
		}, plan.Theirs, false, "10.96.0.7"},
		"uid is not known, and a Sandbox exists": {func(r *round, _ *corev1.Service) { r.goal.Ref.UID = "" }, plan.Theirs, false, "10.96.0.7"},
		"uid is not known, and the gateway did not make it": {func(r *round, s *corev1.Service) {
			r.seen.box.value, r.goal.Ref.UID, s.Labels[workspace.LabelManagedBy] = nil, "", "other"
		}, plan.Theirs, false, "10.96.0.7"},
	} {
		r := seeing(t)
		tc.change(r, r.seen.service.value)
		f := r.facts()
		found, ok := f.Service.Value()
		if !ok || found.Ownership != tc.want || found.Deleting != tc.deleting || found.ClusterIP != tc.address || found.UID != "uid-service" {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

func TestSupervisorAsFact(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(r *round, p *corev1.Pod)
		want   plan.Pod
		detail string
	}{
		"as rendered":          {func(*round, *corev1.Pod) {}, plan.Pod{Ownership: plan.OfThisRun, Gated: true}, ""},
		"ungated":              {func(_ *round, p *corev1.Pod) { p.Spec.SchedulingGates = nil }, plan.Pod{Ownership: plan.OfThisRun}, ""},
		"another's gate":       {func(_ *round, p *corev1.Pod) { p.Spec.SchedulingGates[0].Name = "x" }, plan.Pod{Ownership: plan.OfThisRun}, ""},
		"another image":        {func(_ *round, p *corev1.Pod) { p.Spec.Containers[0].Image = "x" }, plan.Pod{Ownership: plan.OfAnotherRun, Gated: true}, "image"},
		"another generation":   {func(_ *round, p *corev1.Pod) { p.Annotations[workspace.AnnotationGeneration] = "g2" }, plan.Pod{Ownership: plan.OfAnotherRun, Gated: true}, "generation"},
		"another owner":        {func(_ *round, p *corev1.Pod) { p.OwnerReferences[0].UID = "x" }, plan.Pod{Gated: true}, "owned by"},
		"no owner":             {func(_ *round, p *corev1.Pod) { p.OwnerReferences = nil }, plan.Pod{Gated: true}, "owner"},
		"going":                {func(_ *round, p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, plan.Pod{Ownership: plan.OfThisRun, Gated: true, Deleting: true}, "deleted"},
		"identity is unknown":  {func(r *round, _ *corev1.Pod) { r.seen.box.value.Template.Spec.SecurityContext = nil }, plan.Pod{Ownership: plan.OfAnotherRun, Gated: true}, "user"},
		"Sandbox is gone":      {func(r *round, _ *corev1.Pod) { r.seen.box.value = nil }, plan.Pod{Ownership: plan.OfAnotherRun, Gated: true}, ""},
		"Sandbox's own record": {func(r *round, _ *corev1.Pod) { r.goal.Run, r.goal.Goal = plan.Run{}, plan.Keep }, plan.Pod{Ownership: plan.OfThisRun, Gated: true}, ""},
	} {
		r := seeing(t)
		tc.change(r, r.seen.supervisor.value)
		f := r.facts()
		found, ok := f.Supervisor.Value()
		if !ok || !strings.Contains(strings.ToLower(found.Detail), tc.detail) {
			t.Errorf("%s: %+v", name, found)
		}
		if found.Since.IsZero() != (name != "going") {
			t.Errorf("%s: since %s", name, found.Since)
		}
		found.Since = time.Time{}
		found.Detail, tc.want.Name, tc.want.UID = "", supervisorPod, "uid-supervisor"
		if found != tc.want {
			t.Errorf("%s: %+v, want %+v", name, found, tc.want)
		}
	}
}

func TestWorkloadAsFact(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(r *round, p *corev1.Pod)
		want    plan.Ownership
		altered string
	}{
		"as asked for":   {func(*round, *corev1.Pod) {}, plan.OfThisRun, ""},
		"host network":   {func(_ *round, p *corev1.Pod) { p.Spec.HostNetwork = true }, plan.OfThisRun, "host"},
		"another Secret": {func(_ *round, p *corev1.Pod) { p.Spec.Volumes[3].Secret.SecretName = "x" }, plan.OfThisRun, "secret"},
		"another user":   {func(_ *round, p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = new(int64(0)) }, plan.OfThisRun, "user"},
		"a token":        {func(_ *round, p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil }, plan.OfThisRun, "token"},
		"a sidecar": {func(_ *round, p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy"})
		}, plan.OfThisRun, "proxy"},
		"another Sandbox's": {func(_ *round, p *corev1.Pod) { p.OwnerReferences[0].UID = "x" }, plan.Theirs, ""},
		"not controlled":    {func(_ *round, p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, plan.Theirs, ""},
		"nobody's":          {func(_ *round, p *corev1.Pod) { p.OwnerReferences = nil }, plan.Theirs, ""},
		"released already": {func(_ *round, p *corev1.Pod) {
			p.Spec.SchedulingGates, p.Spec.HostNetwork = nil, true
		}, plan.OfThisRun, ""},
		"released, on another network": {func(_ *round, p *corev1.Pod) {
			p.Spec.SchedulingGates = nil
			p.Annotations["k8s.v1.cni.cncf.io/networks"] = "open"
		}, plan.OfThisRun, "network"},
		"released, nobody's and out of the fence": {func(_ *round, p *corev1.Pod) {
			p.Spec.SchedulingGates, p.OwnerReferences = nil, nil
			delete(p.Labels, workspace.LabelBoundaryRole)
		}, plan.Theirs, "boundary-role"},
		"Sandbox is gone": {func(r *round, _ *corev1.Pod) { r.seen.box.value = nil }, plan.OfThisRun, ""},
	} {
		r := seeing(t)
		tc.change(r, r.seen.workload.value)
		f := r.facts()
		found, ok := f.Workload.Value()
		if !ok || found.Ownership != tc.want || (found.Altered == "") != (tc.altered == "") || !strings.Contains(strings.ToLower(found.Altered), tc.altered) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// TestWhatWasNotSeen is neither there nor absent.
func TestWhatWasNotSeen(t *testing.T) {
	r := seeing(t)
	err := errors.New("no answer")
	r.seen = seen{box: got[sandboxapi.Object]{err: err}, fence: got[networkingv1.NetworkPolicy]{err: err}, supervisor: got[corev1.Pod]{err: err}}
	f := r.facts()
	if _, ok := f.Sandbox.Value(); ok || f.Sandbox.Absent() {
		t.Errorf("%+v", f.Sandbox)
	}
	if _, ok := f.WorkloadFence.Value(); ok || f.WorkloadFence.Absent() || f.Supervisor.Absent() || !f.SupervisorFence.Absent() || !f.Workload.Absent() {
		t.Errorf("%+v", f)
	}
}

func TestWhoMayTakeOver(t *testing.T) {
	r := seeing(t)
	if f := r.facts(); f.Attempt.MayTake || !f.Acknowledged {
		t.Errorf("%+v", f.Attempt)
	}
	for name, attempt := range map[string]string{"nobody": "", "itself": r.attempt.ID, "its own process": r.process + "-2"} {
		record, err := runstate.Of(r.seen.box.value.Annotations)
		if err != nil {
			t.Fatal(err)
		}
		record.Attempt = attempt
		r.seen.box.value.Annotations = record.Annotations()
		if f := r.facts(); !f.Attempt.MayTake {
			t.Errorf("%s", name)
		}
	}
	r.seen.box.value.Annotations[workspace.AnnotationBootstrapPhase] = "odd"
	if f := r.facts(); f.Attempt.MayTake {
		t.Error("of a record that cannot be read")
	}
}

// TestIdentity: what a template runs as, when it is a number that a Pod can have.
func TestIdentity(t *testing.T) {
	for name, tc := range map[string]struct {
		context     *corev1.PodSecurityContext
		user, group uint32
	}{
		"none":     {nil, 0, 0},
		"not said": {&corev1.PodSecurityContext{}, 0, 0},
		"root":     {&corev1.PodSecurityContext{RunAsUser: new(int64(0)), RunAsGroup: new(int64(-1))}, 0, 0},
		"said":     {&corev1.PodSecurityContext{RunAsUser: new(int64(1)), RunAsGroup: new(int64(1<<31 - 1))}, 1, 1<<31 - 1},
		"too high": {&corev1.PodSecurityContext{RunAsUser: new(int64(1 << 31)), RunAsGroup: new(int64(1<<32 + 5))}, 0, 0},
	} {
		if user, group := identity(&corev1.PodSpec{SecurityContext: tc.context}); user != tc.user || group != tc.group {
			t.Errorf("%s: %d, %d", name, user, group)
		}
	}
}

// TestSinceWhen a Pod is as it is: as the cluster records it, and no guess.
func TestSinceWhen(t *testing.T) {
	at := func(s int) metav1.Time { return metav1.NewTime(time.Unix(int64(s), 0)) }
	pod := func(edit func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(1)}, Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at(5)}},
		}}
		edit(p)
		return p
	}
	for name, tc := range map[string]struct {
		edit func(*corev1.Pod)
		want int
	}{
		"ready":                                 {func(*corev1.Pod) {}, 5},
		"not ready":                             {func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, 5},
		"not ready, and another state recorded": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, 0},
		"nothing recorded":                      {func(p *corev1.Pod) { p.Status.Conditions = nil }, 0},
		"gated": {func(p *corev1.Pod) {
			p.Spec.SchedulingGates, p.Status = []corev1.PodSchedulingGate{{Name: workspace.SchedulingGate}}, corev1.PodStatus{Phase: corev1.PodPending}
		}, 1},
		"going": {func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(at(40)), new(int64(30)) }, 10},
		"ended": {func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			for _, s := range []int{7, 9, 8} {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(s)}}})
			}
		}, 9},
		"evicted": {func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodFailed} }, 0},
	} {
		want := time.Time{}
		if tc.want > 0 {
			want = time.Unix(int64(tc.want), 0)
		}
		if got := PodOf(pod(tc.edit)); !got.Since.Equal(want) {
			t.Errorf("%s: %s, want %s", name, got.Since, want)
		}
	}
}

func TestReadyAndEnded(t *testing.T) {
	ready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for name, tc := range map[string]struct {
		status       corev1.PodStatus
		ready, ended bool
	}{
		"running and ready": {corev1.PodStatus{Phase: corev1.PodRunning, Conditions: ready}, true, false},
		"running":           {corev1.PodStatus{Phase: corev1.PodRunning}, false, false},
		"ready, not known":  {corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionUnknown}}}, false, false},
		"pending and ready": {corev1.PodStatus{Phase: corev1.PodPending, Conditions: ready}, false, false},
		"failed and ready":  {corev1.PodStatus{Phase: corev1.PodFailed, Conditions: ready}, false, true},
		"succeeded":         {corev1.PodStatus{Phase: corev1.PodSucceeded}, false, true},
		"nothing":           {corev1.PodStatus{}, false, false},
	} {
		if p := PodOf(&corev1.Pod{Status: tc.status}); p.Ready != tc.ready || p.Ended != tc.ended {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestChildEnvironment: of the agent alone, its own values alone, and nothing of ours.
func TestChildEnvironment(t *testing.T) {
	spec := corev1.PodSpec{Containers: []corev1.Container{
		{Name: "other", Env: []corev1.EnvVar{{Name: "A", Value: "x"}}},
		{Name: "agent", Env: []corev1.EnvVar{
			{Name: "B", Value: "1"},
			{Name: "B", Value: "2"},
			{Name: "OPENSHELL_LOG_LEVEL", Value: "x"},
			{Name: "EMPTY"},
			{Name: "FROM", ValueFrom: &corev1.EnvVarSource{}},
		}},
	}}
	if got := fmt.Sprint(childEnvironment(&spec)); got != "map[B:2 EMPTY:]" {
		t.Error(got)
	}
}
