package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/supervisor/v1"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const (
	unknown     = supervisorv1.Availability_AVAILABILITY_UNSPECIFIED
	available   = supervisorv1.Availability_AVAILABILITY_AVAILABLE
	degraded    = supervisorv1.Availability_AVAILABILITY_DEGRADED
	unavailable = supervisorv1.Availability_AVAILABILITY_UNAVAILABLE
)

// look is the status of facts.
func look(t *testing.T, facts plan.Facts) *supervisorv1.CompanionStatus {
	t.Helper()
	s := newSite(t)
	s.finds(facts)
	out, _, err := calls["status"](t.Context(), s, valid(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := proto.Marshal(out); err != nil {
		t.Errorf("it cannot be sent: %v", err)
	}
	return out
}

// TestStatusOfARunThatStands is complete.
func TestStatusOfARunThatStands(t *testing.T) {
	part := func(part supervisorv1.Part, reason, name, uid string) *supervisorv1.Condition {
		return &supervisorv1.Condition{Part: part, Availability: available, Reason: reason, ObjectName: name, ObjectUid: uid}
	}
	want := &supervisorv1.CompanionStatus{
		Phase: supervisorv1.Phase_PHASE_RUNNING, Readiness: supervisorv1.Readiness_READINESS_READY, SandboxGeneration: 7,
		Run:      &supervisorv1.Run{GenerationId: generation, SessionId: session, AuthEpoch: 1},
		Identity: &supervisorv1.RuntimeIdentity{Namespace: "sandboxes", SandboxUid: "uid-box", SupervisorUid: "uid-supervisor", WorkloadUid: "uid-workload"},
		Conditions: []*supervisorv1.Condition{
			part(supervisorv1.Part_PART_WORKLOAD_FENCE, "Standing", "openshell-sandbox-workloads", "uid-fence"),
			part(supervisorv1.Part_PART_SUPERVISOR_FENCE, "Standing", "openshell-sandbox-supervisors", "uid-egress"),
			part(supervisorv1.Part_PART_BOUNDARY_SERVICE, "Standing", "os-boundary-"+sandboxID, "uid-service"),
			part(supervisorv1.Part_PART_SUPERVISOR_POD, "PodReady", "os-supervisor-"+sandboxID, "uid-supervisor"),
			part(supervisorv1.Part_PART_WORKLOAD_POD, "PodReady", "team-a--demo", "uid-workload"),
		},
	}
	if diff := cmp.Diff(want, look(t, standing()), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPhases(t *testing.T) {
	in := func(operation runstate.Operation, phase runstate.Phase) func(*plan.Facts) {
		return func(f *plan.Facts) {
			record(f, func(r *runstate.Record) {
				r.Operation, r.Phase, r.Bootstrapping = operation, phase, operation != runstate.Stop
				r.StartedAt = 1796006999405
			})
		}
	}
	suspended := func(f *plan.Facts) {
		record(f, func(r *runstate.Record) { *r = r.Stopped() })
		f.Sandbox = edited(f.Sandbox, func(o *sandboxapi.Object) { o.Mode = sandboxapi.Suspended })
		f.Supervisor, f.Workload = plan.Absent[plan.Pod](), plan.Absent[plan.Pod]()
	}
	bare := func(f *plan.Facts) {
		suspended(f)
		f.Service = plan.Absent[plan.Service]()
	}
	none := func(f *plan.Facts) {
		bare(f)
		f.Sandbox = plan.Absent[sandboxapi.Object]()
	}
	for name, tc := range map[string]struct {
		edit  func(*plan.Facts)
		phase supervisorv1.Phase
	}{
		"preparing, create":  {in(runstate.Create, runstate.Preparing), supervisorv1.Phase_PHASE_PREPARING},
		"preparing, restart": {in(runstate.Restart, runstate.Preparing), supervisorv1.Phase_PHASE_PREPARING},
		"released":           {in(runstate.Create, runstate.Released), supervisorv1.Phase_PHASE_RELEASED},
		"releasing":          {in(runstate.Stop, runstate.Releasing), supervisorv1.Phase_PHASE_RELEASING},
		"suspending":         {in(runstate.Stop, runstate.Suspending), supervisorv1.Phase_PHASE_SUSPENDING},
		"suspended":          {suspended, supervisorv1.Phase_PHASE_SUSPENDED},
		"nothing left":       {bare, supervisorv1.Phase_PHASE_ABSENT},
		"Sandbox is gone":    {none, supervisorv1.Phase_PHASE_ABSENT},
		"Sandbox is gone, and a foreign Pod has the name": {func(f *plan.Facts) {
			none(f)
			f.Supervisor = plan.Found(plan.Pod{Ownership: plan.Theirs})
		}, supervisorv1.Phase_PHASE_ABSENT},
		"Sandbox is gone, and something is left": {func(f *plan.Facts) {
			none(f)
			f.Supervisor = plan.Found(plan.Pod{Ownership: plan.OfAnotherRun})
		}, supervisorv1.Phase_PHASE_UNSPECIFIED},
		"Sandbox is gone, and a part could not be read": {func(f *plan.Facts) {
			none(f)
			f.Workload = plan.Failed[plan.Pod](errors.New("no answer"))
		}, supervisorv1.Phase_PHASE_UNSPECIFIED},
		"suspended, and a part could not be read": {func(f *plan.Facts) {
			bare(f)
			f.Service = plan.Known[plan.Service]{}
		}, supervisorv1.Phase_PHASE_SUSPENDED},
		"Sandbox could not be read": {func(f *plan.Facts) { f.Sandbox = plan.Failed[sandboxapi.Object](errors.New("no answer")) }, supervisorv1.Phase_PHASE_UNSPECIFIED},
		"nobody looked":             {func(f *plan.Facts) { *f = plan.Facts{} }, supervisorv1.Phase_PHASE_UNSPECIFIED},
		"record cannot be read": {func(f *plan.Facts) {
			f.Sandbox = edited(f.Sandbox, func(o *sandboxapi.Object) { o.Annotations = map[string]string{workspace.AnnotationBootstrapPhase: "x"} })
		}, supervisorv1.Phase_PHASE_UNSPECIFIED},
	} {
		facts := standing()
		tc.edit(&facts)
		out := look(t, facts)
		if out.GetPhase() != tc.phase || len(out.GetConditions()) != 5 {
			t.Errorf("%s: %v", name, out)
		}
		starting := strings.HasPrefix(name, "preparing") || name == "released"
		if want := timestamppb.New(time.UnixMilli(1796006999405)); starting != (out.GetBootstrapStartedAt() != nil) || starting && !proto.Equal(want, out.GetBootstrapStartedAt()) {
			t.Errorf("%s: began at %v", name, out.GetBootstrapStartedAt())
		}
		if tc.phase == supervisorv1.Phase_PHASE_UNSPECIFIED && out.GetReadiness() != supervisorv1.Readiness_READINESS_UNSPECIFIED {
			t.Errorf("%s: %v", name, out.GetReadiness())
		}
		if f, ok := facts.Sandbox.Value(); (ok && f.UID != "") != (out.GetIdentity() != nil) {
			t.Errorf("%s: %v", name, out.GetIdentity())
		}
	}
}

func TestReadiness(t *testing.T) {
	for published, want := range map[runstate.Readiness]supervisorv1.Readiness{
		runstate.Ready: supervisorv1.Readiness_READINESS_READY, runstate.Unavailable: supervisorv1.Readiness_READINESS_UNAVAILABLE, "": supervisorv1.Readiness_READINESS_UNSPECIFIED,
	} {
		facts := standing()
		record(&facts, func(r *runstate.Record) { r.Readiness = published })
		if got := look(t, facts).GetReadiness(); got != want {
			t.Errorf("%q: %v", published, got)
		}
	}
}

// TestConditions: every part, in every way.
func TestConditions(t *testing.T) {
	const fence, egress, service, supervisor, workload = 0, 1, 2, 3, 4
	policy := func(edit func(*plan.Policy)) func(*plan.Facts) {
		return func(f *plan.Facts) { f.WorkloadFence = edited(f.WorkloadFence, edit) }
	}
	svc := func(edit func(*plan.Service)) func(*plan.Facts) {
		return func(f *plan.Facts) { f.Service = edited(f.Service, edit) }
	}
	pod := func(edit func(*plan.Pod)) func(*plan.Facts) {
		return func(f *plan.Facts) { f.Supervisor = edited(f.Supervisor, edit) }
	}
	work := func(edit func(*plan.Pod)) func(*plan.Facts) {
		return func(f *plan.Facts) { f.Workload = edited(f.Workload, edit) }
	}
	preparing := func(f *plan.Facts) {
		record(f, func(r *runstate.Record) { r.Operation, r.Phase = runstate.Restart, runstate.Preparing })
	}
	for name, tc := range map[string]struct {
		part         int
		edit         func(*plan.Facts)
		availability supervisorv1.Availability
		reason       string
		message      string
	}{
		"fence missing":    {fence, func(f *plan.Facts) { f.WorkloadFence = plan.Absent[plan.Policy]() }, unavailable, "Missing", "there is none"},
		"fence unread":     {fence, func(f *plan.Facts) { f.WorkloadFence = plan.Failed[plan.Policy](errors.New("x")) }, unknown, "NotReadable", "could not be asked"},
		"fence altered":    {fence, policy(func(p *plan.Policy) { p.Standing, p.Difference = plan.Altered, "egress" }), unavailable, "Altered", "egress"},
		"fence foreign":    {fence, policy(func(p *plan.Policy) { p.Standing, p.Difference = plan.Foreign, "labels" }), unavailable, "Foreign", "labels"},
		"fence replaced":   {fence, policy(func(p *plan.Policy) { p.UID = "uid-new" }), unavailable, "Replaced", "not the one"},
		"egress missing":   {egress, func(f *plan.Facts) { f.SupervisorFence = plan.Absent[plan.Policy]() }, unavailable, "Missing", ""},
		"egress unseen":    {egress, func(f *plan.Facts) { f.SupervisorFence = plan.Known[plan.Policy]{} }, unknown, "NotReadable", ""},
		"service missing":  {service, func(f *plan.Facts) { f.Service = plan.Absent[plan.Service]() }, unavailable, "Missing", ""},
		"service unread":   {service, func(f *plan.Facts) { f.Service = plan.Known[plan.Service]{} }, unknown, "NotReadable", ""},
		"service foreign":  {service, svc(func(s *plan.Service) { s.Ownership, s.Detail = plan.Theirs, "owner" }), unavailable, "Foreign", "owner"},
		"service going":    {service, svc(func(s *plan.Service) { s.Deleting = true }), unavailable, "Deleting", ""},
		"service altered":  {service, svc(func(s *plan.Service) { s.Ownership, s.Detail = plan.OfAnotherRun, "selector" }), unavailable, "Altered", "selector"},
		"service headless": {service, svc(func(s *plan.Service) { s.ClusterIP = "" }), unavailable, "NoAddress", "cluster IP"},

		"supervisor missing":            {supervisor, func(f *plan.Facts) { f.Supervisor = plan.Absent[plan.Pod]() }, unavailable, "Missing", ""},
		"supervisor unread":             {supervisor, func(f *plan.Facts) { f.Supervisor = plan.Failed[plan.Pod](nil) }, unknown, "NotReadable", ""},
		"supervisor foreign":            {supervisor, pod(func(p *plan.Pod) { p.Ownership, p.Detail = plan.Theirs, "owner" }), unavailable, "Foreign", "owner"},
		"supervisor going":              {supervisor, pod(func(p *plan.Pod) { p.Deleting = true }), unavailable, "Deleting", ""},
		"supervisor ended":              {supervisor, pod(func(p *plan.Pod) { p.Ended, p.Detail = true, "code 1" }), unavailable, "PodEnded", "code 1"},
		"supervisor replaced":           {supervisor, pod(func(p *plan.Pod) { p.UID = "uid-new" }), unavailable, "Replaced", "not the one"},
		"supervisor of former settings": {supervisor, pod(func(p *plan.Pod) { p.Ownership, p.Detail = plan.OfAnotherRun, "image" }), available, "PodReady", "image"},
		"supervisor of former settings, not ready": {supervisor, pod(func(p *plan.Pod) {
			p.Ownership, p.Ready, p.Detail = plan.OfAnotherRun, false, "code 1; image"
		}), degraded, "PodNotReady", "code 1; image"},
		"supervisor altered": {supervisor, pod(func(p *plan.Pod) {
			p.Ownership, p.Altered = plan.OfAnotherRun, "an ephemeral container"
		}), unavailable, "Altered", "an ephemeral container"},
		"supervisor of another run in a start": {supervisor, func(f *plan.Facts) {
			preparing(f)
			f.Supervisor = edited(f.Supervisor, func(p *plan.Pod) { p.Ownership, p.Detail = plan.OfAnotherRun, "generation" })
		}, unavailable, "Altered", "generation"},
		"supervisor gated":     {supervisor, pod(func(p *plan.Pod) { p.Gated, p.Ready = true, false }), unavailable, "PodGated", ""},
		"supervisor not ready": {supervisor, pod(func(p *plan.Pod) { p.Ready, p.Detail = false, "container supervisor waits: ImagePullBackOff" }), degraded, "PodNotReady", "ImagePullBackOff"},
		"new supervisor of a run that is prepared": {supervisor, func(f *plan.Facts) {
			preparing(f)
			f.Supervisor = edited(f.Supervisor, func(p *plan.Pod) { p.UID, p.Gated = "uid-new", true })
		}, unavailable, "PodGated", ""},
		"workload missing":        {workload, func(f *plan.Facts) { f.Workload = plan.Absent[plan.Pod]() }, unavailable, "Missing", ""},
		"workload altered":        {workload, work(func(p *plan.Pod) { p.Gated, p.Altered = true, "hostNetwork" }), unavailable, "Altered", "hostNetwork"},
		"workload not ready":      {workload, work(func(p *plan.Pod) { p.Ready, p.Detail = false, "no node takes it: Unschedulable" }), degraded, "PodNotReady", "Unschedulable"},
		"workload ready":          {workload, func(*plan.Facts) {}, available, "PodReady", ""},
		"a long text":             {workload, work(func(p *plan.Pod) { p.Ready, p.Detail = false, "x"+strings.Repeat("é", 1000) }), degraded, "PodNotReady", "xé"},
		"a text of no characters": {workload, work(func(p *plan.Pod) { p.Ready, p.Detail = false, "a\xff b" }), degraded, "PodNotReady", "a b"},
	} {
		facts := standing()
		tc.edit(&facts)
		out := look(t, facts)
		for i, c := range out.GetConditions() {
			if int(c.GetPart()) != i+1 || len(c.GetMessage()) > 1024 || !utf8.ValidString(c.GetMessage()) || c.GetReason() == "" {
				t.Errorf("%s: %v", name, c)
			}
		}
		c := out.GetConditions()[tc.part]
		if c.GetAvailability() != tc.availability || c.GetReason() != tc.reason || !strings.Contains(c.GetMessage(), tc.message) {
			t.Errorf("%s: %v", name, c)
		}
		there := tc.reason != "Missing" && tc.reason != "NotReadable"
		if there != (c.GetObjectName() != "") || there != (c.GetObjectUid() != "") {
			t.Errorf("%s: %v", name, c)
		}
		if foreign := tc.reason == "Foreign" && tc.part == supervisor; foreign && out.GetIdentity().GetSupervisorUid() != "" {
			t.Errorf("%s: %v", name, out.GetIdentity())
		}
	}
}

// TestStatusOfAnotherSandbox is refused: nothing of it is told.
func TestStatusOfAnotherSandbox(t *testing.T) {
	for name, tc := range map[string]struct {
		edit   func(*sandboxapi.Object)
		reason verdict.Reason
	}{
		"another uid":       {func(o *sandboxapi.Object) { o.UID = "uid-new" }, verdict.RunSandboxReplaced},
		"another gateway":   {func(o *sandboxapi.Object) { o.Labels[workspace.LabelGatewayID] = "green" }, verdict.RunSandboxForeign},
		"another id":        {func(o *sandboxapi.Object) { o.Labels[workspace.LabelSandboxID] = "x" }, verdict.RunSandboxForeign},
		"somebody else's":   {func(o *sandboxapi.Object) { delete(o.Labels, workspace.LabelManagedBy) }, verdict.RunSandboxForeign},
		"not labelled ever": {func(o *sandboxapi.Object) { o.Labels = nil }, verdict.RunSandboxForeign},
		"and another uid":   {func(o *sandboxapi.Object) { o.UID, o.Labels = "uid-new", nil }, verdict.RunSandboxReplaced},
	} {
		s, facts := newSite(t), standing()
		facts.Sandbox = edited(facts.Sandbox, tc.edit)
		s.finds(facts)
		out, _, err := calls["status"](t.Context(), s, valid(t))
		if d := refusal(t, err); status.Code(err) != codes.FailedPrecondition || d.Reason != tc.reason || out != nil {
			t.Errorf("%s: %v, %v", name, err, out)
		}
	}
}

// TestStatusHasADeadline of its own.
func TestStatusHasADeadline(t *testing.T) {
	s := newSite(t)
	bounded := false
	inner := s.conductor.look
	s.conductor.look = func(ctx context.Context, ref plan.Ref) conduct.Outcome {
		_, bounded = ctx.Deadline()
		return inner(ctx, ref)
	}
	if _, _, err := calls["status"](t.Context(), s, valid(t)); err != nil || !bounded {
		t.Errorf("%v, %t", err, bounded)
	}
}
