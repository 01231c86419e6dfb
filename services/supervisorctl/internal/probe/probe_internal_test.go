package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/cluster"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/fence"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/probe/canary/canarytest"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

func (s *stand) prober(t *testing.T) *Prober {
	t.Helper()
	p, err := New(stock(), settings(), s, s.list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustRender(t *testing.T, port uint16) fence.Policies {
	t.Helper()
	policies, err := fence.Render("sandboxes", port)
	if err != nil {
		t.Fatal(err)
	}
	return policies
}

func only(request string, err error) func(string) error {
	return func(r string) error {
		if strings.HasPrefix(r, request) {
			return err
		}
		return nil
	}
}

func TestProbe(t *testing.T) {
	refused := fmt.Errorf("create: %w: exceeded quota", cluster.ErrRefused)
	for name, c := range map[string]struct {
		set    func(t *testing.T, s *stand)
		want   verdict.Reason
		within time.Duration // of the settings' times
		says   string
	}{
		"enforced":       {nil, "", 15 * time.Second, ""},
		"policies stand": {func(t *testing.T, s *stand) { s.raise(t, 5500) }, "", 15 * time.Second, ""},
		"enforced after a while": {func(_ *testing.T, s *stand) {
			s.world.Out = canarytest.Until(8*time.Second, nil, context.DeadlineExceeded)
		}, "", 40 * time.Second, ""},
		"not enforced":         {func(_ *testing.T, s *stand) { s.world.Out = canarytest.Open }, verdict.FenceEgressOpen, 40 * time.Second, "kubernetes (last: opened), 192.0.2.1:443"},
		"not enforced inwards": {func(_ *testing.T, s *stand) { s.world.Shut = canarytest.Open }, verdict.FenceIngressOpen, 50 * time.Second, "not the boundary's"},
		"altered":              {func(t *testing.T, s *stand) { s.raise(t, 5600) }, verdict.FenceAltered, time.Second, "not repaired"},
		"dead target":          {func(_ *testing.T, s *stand) { s.world.In = canarytest.Blocked }, verdict.ProbeTargetUnreached, 50 * time.Second, "may go everywhere"},
		"target dies":          {func(_ *testing.T, s *stand) { s.world.In = canarytest.Until(4*time.Second, nil, syscall.ECONNREFUSED) }, verdict.ProbeTargetUnreached, 60 * time.Second, "while that one tried not always"},
		"target is away meanwhile": {func(_ *testing.T, s *stand) {
			s.world.In = func(_ string, since time.Duration) error {
				if since > 2500*time.Millisecond && since < 40*time.Second {
					return syscall.ECONNREFUSED
				}
				return nil
			}
		}, verdict.ProbeTargetUnreached, 60 * time.Second, "while that one tried not always"},
		"dead target, and open": {func(_ *testing.T, s *stand) { s.world.In, s.world.Out = canarytest.Blocked, canarytest.Open }, verdict.FenceEgressOpen, 40 * time.Second, ""},
		"no network":            {func(_ *testing.T, s *stand) { s.world.Door = canarytest.Blocked }, verdict.ProbeDoorUnreached, 60 * time.Second, "no network"},
		"namespace absent":      {func(_ *testing.T, s *stand) { s.fails = only("get namespace", cluster.ErrAbsent) }, verdict.ProbeRefused, time.Second, ""},
		"API server away":       {func(_ *testing.T, s *stand) { s.fails = only("get policy", errors.New("refused")) }, verdict.ProbeUnreadable, time.Second, ""},
		"policy refused":        {func(_ *testing.T, s *stand) { s.fails = only("create policy", refused) }, verdict.ProbeRefused, time.Second, "quota"},
		"Pod refused":           {func(_ *testing.T, s *stand) { s.fails = only("create pod", refused) }, verdict.ProbeRefused, time.Second, "quota"},
		"creation unheard":      {func(_ *testing.T, s *stand) { s.unheard = cluster.ErrUnsettled }, verdict.ProbeUnreadable, time.Second, ""},
		"Pods cannot be read":   {func(_ *testing.T, s *stand) { s.fails = only("get pod", errors.New("away")) }, verdict.ProbeUnreadable, 4 * time.Minute, "away"},
		"labels taken": {func(_ *testing.T, s *stand) {
			s.admit = func(p *corev1.Pod) { delete(p.Labels, workspace.LabelBoundaryRole) }
		}, verdict.ProbePodAltered, time.Second, "boundary-role"},
		"sidecar":                 {func(_ *testing.T, s *stand) { s.admit = sidecar }, verdict.ProbePodAltered, time.Second, "2 containers"},
		"no image":                {func(_ *testing.T, s *stand) { s.kubelet = imageless(canary.Workload) }, verdict.ProbePodFailed, 5 * time.Second, "ImagePullBackOff"},
		"no image for the second": {func(_ *testing.T, s *stand) { s.kubelet = imageless(canary.Supervisor) }, verdict.ProbePodFailed, 5 * time.Second, "the supervisor canary"},
		"never scheduled": {func(_ *testing.T, s *stand) {
			s.kubelet = func(p *corev1.Pod) bool { p.Status = corev1.PodStatus{}; return false }
		}, verdict.ProbePodFailed, 4 * time.Minute, "not done in time"},
		"another program":        {func(_ *testing.T, s *stand) { s.kubelet = another(canary.Workload) }, verdict.ProbeReportInvalid, 5 * time.Second, "unknown command"},
		"another program, later": {func(_ *testing.T, s *stand) { s.kubelet = another(canary.Supervisor) }, verdict.ProbeReportInvalid, 20 * time.Second, "unknown command"},
		"removed meanwhile": {func(_ *testing.T, s *stand) {
			s.kubelet = func(p *corev1.Pod) bool { delete(s.pods, p.Name); return false }
		}, verdict.ProbePodFailed, 5 * time.Second, "somebody else removed it"},
		"leftovers not looked for": {func(_ *testing.T, s *stand) { s.fails = only("list pod", errors.New("forbidden")) }, "", 15 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStand()
				if c.set != nil {
					c.set(t, s)
				}
				r := s.prober(t).Probe(t.Context(), "sandboxes")
				s.stop()
				if r.Decision.Reason != c.want || r.Decision.Granted() != (c.want == "") || !strings.Contains(r.Decision.Explanation, c.says) {
					t.Errorf("%s", r.Decision.Explain())
				}
				if r.Took > c.within {
					t.Errorf("it took %s", r.Took)
				}
				if left := s.names(); left != "" {
					t.Errorf("left over: %s (%v)", left, r.LeftOver)
				}
				for _, w := range s.writes {
					if strings.Contains(w, "policy") && !strings.HasPrefix(w, "create ") {
						t.Errorf("it asked to %s", w)
					}
				}
			})
		})
	}
}

func (s *stand) raise(t *testing.T, port uint16) {
	policies := mustRender(t, port)
	s.policies[policies.Workloads.Name], s.policies[policies.Supervisors.Name] = policies.Workloads, policies.Supervisors
}

// stop waits until no canary runs.
func (s *stand) stop() {
	s.mu.Lock()
	for _, stop := range s.stops {
		stop()
	}
	s.mu.Unlock()
	s.running.Wait()
}

func sidecar(p *corev1.Pod) {
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "mesh"})
}

func imageless(role canary.Role) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		if !strings.HasSuffix(p.Name, string(role)) {
			return true
		}
		state(p, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}})
		return false
	}
}

func another(role canary.Role) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		if !strings.HasSuffix(p.Name, string(role)) {
			return true
		}
		state(p, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "unknown command fence"}})
		return false
	}
}

// TestAlteredFenceIsLeftAlone: nothing is added beside it.
func TestAlteredFenceIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand()
		s.policies[workspace.SupervisorEgress] = mustRender(t, 5500).Supervisors
		s.policies[workspace.SupervisorEgress].Spec.Egress = nil
		r := s.prober(t).Probe(t.Context(), "sandboxes")
		if r.Decision.Outcome() != verdict.Denied || len(s.writes) > 0 {
			t.Errorf("%s, %v", r.Decision.Explain(), s.writes)
		}
	})
}

// TestAFenceThatChangesMeanwhile: what the canaries saw, whatever it is, is no answer about it.
func TestAFenceThatChangesMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *stand, p *networkingv1.NetworkPolicy)
		want   verdict.Reason
		says   string
	}{
		"changed": {func(_ *stand, p *networkingv1.NetworkPolicy) {
			p.Generation, p.Spec.PodSelector.MatchLabels = 2, map[string]string{"app": "x"}
		}, verdict.FenceAltered, "spec.podSelector"},
		"changed, and back":   {func(_ *stand, p *networkingv1.NetworkPolicy) { p.Generation = 3 }, verdict.ProbeUndecided, "changed or made anew"},
		"made anew":           {func(_ *stand, p *networkingv1.NetworkPolicy) { p.UID = "uid-new" }, verdict.ProbeUndecided, "changed or made anew"},
		"deleted":             {func(s *stand, p *networkingv1.NetworkPolicy) { delete(s.policies, p.Name) }, verdict.ProbeUndecided, "was deleted"},
		"being deleted":       {func(_ *stand, p *networkingv1.NetworkPolicy) { p.DeletionTimestamp = new(metav1.Now()) }, verdict.FenceAltered, "being deleted"},
		"no longer ours":      {func(_ *stand, p *networkingv1.NetworkPolicy) { p.Labels = nil }, verdict.FenceAltered, "somebody else's"},
		"not readable":        {func(s *stand, _ *networkingv1.NetworkPolicy) { s.fails = only("get policy", errors.New("away")) }, verdict.ProbeUnreadable, "away"},
		"looked at, not more": {func(_ *stand, p *networkingv1.NetworkPolicy) { p.ResourceVersion = "2" }, "", ""},
	} {
		for policy, open := range map[string]bool{workspace.WorkloadFence: false, workspace.SupervisorEgress: true} {
			synctest.Test(t, func(t *testing.T) {
				s := newStand()
				if open {
					s.world.Out = canarytest.Open
				}
				s.kubelet = func(p *corev1.Pod) bool {
					if strings.HasSuffix(p.Name, string(canary.Supervisor)) {
						c.change(s, s.policies[policy])
					}
					return true
				}
				r := s.prober(t).Probe(t.Context(), "sandboxes")
				s.stop()
				want := c.want
				if want == "" && open {
					want = verdict.FenceEgressOpen
				}
				if r.Decision.Reason != want || r.Decision.Granted() != (want == "") || !strings.Contains(r.Decision.Explanation, c.says) {
					t.Errorf("%s of %s: %s", name, policy, r.Decision.Explain())
				}
			})
		}
	}
}

// TestItTellsWhatItMade, and the same policies are those of a sandbox.
func TestItTellsWhatItMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand()
		r := s.prober(t).Probe(t.Context(), "sandboxes")
		if strings.Join(r.Made, " ") != workspace.WorkloadFence+" "+workspace.SupervisorEgress || r.Node != "node-1" || r.Workload == nil || r.Supervisor == nil {
			t.Errorf("%+v", r)
		}
		wanted := mustRender(t, 5500)
		if f := fence.Compare(s.policies[workspace.WorkloadFence], wanted.Workloads); f.State != fence.Standing {
			t.Error(f)
		}
		s.stop()
	})
}

// TestAStopRemovesEverything, whenever it comes.
func TestAStopRemovesEverything(t *testing.T) {
	for at := time.Duration(0); at < 12*time.Second; at += 700 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			s := newStand()
			ctx, cancel := context.WithTimeout(t.Context(), at)
			defer cancel()
			r := s.prober(t).Probe(ctx, "sandboxes")
			s.stop()
			if left := s.names(); left != "" || r.Took > at+2*time.Second {
				t.Errorf("at %s: %q is left after %s: %v", at, left, r.Took, r.LeftOver)
			}
			if !r.Decision.Granted() && r.Decision.Reason != verdict.CallEnded {
				t.Errorf("at %s: %s", at, r.Decision.Explain())
			}
		})
	}
}

// TestWhatCannotBeRemovedIsTold, after it was tried again.
func TestWhatCannotBeRemovedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand()
		tries := 0
		s.fails = func(r string) error {
			if strings.HasPrefix(r, "delete pod") {
				if tries++; strings.HasSuffix(r, "workload") && tries > 1 {
					return nil
				}
				return errors.New("away")
			}
			return nil
		}
		r := s.prober(t).Probe(t.Context(), "sandboxes")
		s.stop()
		if !r.Decision.Granted() || len(r.LeftOver) != 1 || !strings.Contains(r.LeftOver[0], "supervisor: away") || tries < 10 {
			t.Errorf("%s, %v after %d tries", r.Decision.Explain(), r.LeftOver, tries)
		}
	})
}

// TestLeftoversAreSwept: those of this gateway whose time is over, and no others.
func TestLeftoversAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand()
		leftover := func(probe string, age time.Duration, change func(*corev1.Pod)) {
			p := rendered(t, stock(), canary.Workload)
			p.Labels[LabelProbe], p.Name = probe, nameOf(probe, canary.Workload)
			p.UID, p.CreationTimestamp = "uid-of-x", metav1.NewTime(time.Now().Add(-age))
			change(p)
			s.pods[p.Name] = p
		}
		leftover("overdue", 6*time.Minute, func(*corev1.Pod) {})
		leftover("at-work", 5*time.Minute, func(*corev1.Pod) {})
		leftover("without-deadline", 20*time.Minute, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = nil })
		leftover("absurd-deadline", time.Hour, func(p *corev1.Pod) { *p.Spec.ActiveDeadlineSeconds = 1 << 40 })
		leftover("anothers", time.Hour, func(p *corev1.Pod) { p.Labels[workspace.LabelGatewayID] = "green" })
		leftover("no-canary", time.Hour, func(p *corev1.Pod) { delete(p.Labels, workspace.LabelComponent) })
		// Somebody's Pods with all the labels of a canary.
		leftover("named", time.Hour, func(p *corev1.Pod) { p.Name = "web" })
		leftover("of-another", time.Hour, func(p *corev1.Pod) { p.Labels[LabelProbe] = "x" })
		leftover("no-probe", time.Hour, func(p *corev1.Pod) { p.Labels[LabelProbe], p.Name = "", nameOf("", canary.Workload) })
		leftover("of-no-role", time.Hour, func(p *corev1.Pod) {
			p.Labels[workspace.LabelBoundaryRole], p.Name = "x", nameOf("of-no-role", "x")
		})
		leftover("owned", time.Hour, func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "x", UID: "x"}}
		})
		r := s.prober(t).Probe(t.Context(), "sandboxes")
		s.stop()
		want := "--workload -anothers-workload -at-work-workload -no-canary-workload -of-another-workload -of-no-role-x -owned-workload -without-deadline-workload web"
		if left := strings.ReplaceAll(s.names(), "os-fence-canary", ""); left != want || !r.Decision.Granted() {
			t.Errorf("left are %s, %s", left, r.Decision.Explain())
		}
	})
}

// TestNewRefuses what no probe can be made with.
func TestNewRefuses(t *testing.T) {
	s := newStand()
	for name, c := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"no image":   {func(s *Settings) { s.Image = "" }, "probe_image"},
		"no targets": {func(s *Settings) { s.Targets = nil }, "fence_probe_targets"},
		"zero":       {func(s *Settings) { *s = Settings{} }, "fence_probe"},
	} {
		set := settings()
		c.change(&set)
		if p, err := New(stock(), set, s, s.list); err == nil || p != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(nil, settings(), s, s.list); err == nil {
		t.Error("made without stock settings")
	}
	if r := s.prober(t).Probe(t.Context(), "No Namespace"); r.Decision.Reason != verdict.ProbeRefused || len(s.writes) > 0 {
		t.Errorf("%s %v", r.Decision.Explain(), s.writes)
	}
	var zero Result
	if zero.Enforced() != "unknown" || zero.Decision.Granted() {
		t.Error("the zero Result says something")
	}
}

func TestSettings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"defaults":        {func(*Settings) {}, ""},
		"no image":        {func(s *Settings) { s.Image = "" }, ""},
		"needs an image":  {func(s *Settings) { s.Image, s.Startup = "", Report }, "probe_image"},
		"image":           {func(s *Settings) { s.Image = "a b" }, "probe_image"},
		"when":            {func(s *Settings) { s.Startup = "on" }, "fence_probe"},
		"namespace":       {func(s *Settings) { s.Namespaces = []string{"A"} }, "fence_probe_namespaces"},
		"namespace twice": {func(s *Settings) { s.Namespaces = []string{"a", "a"} }, "fence_probe_namespaces"},
		"many namespaces": {func(s *Settings) {
			for i := range 65 {
				s.Namespaces = append(s.Namespaces, fmt.Sprint("n", i))
			}
		}, "fence_probe_namespaces"},
		"target":        {func(s *Settings) { s.Targets = []string{"example.com:443"} }, "fence_probe_targets"},
		"too often":     {func(s *Settings) { s.Interval = driverconf.Duration(time.Second) }, "fence_probe_interval"},
		"hourly":        {func(s *Settings) { s.Interval = driverconf.Duration(time.Hour) }, ""},
		"no settling":   {func(s *Settings) { s.Settle = 0 }, "fence_probe_settle"},
		"timeout":       {func(s *Settings) { s.Timeout = driverconf.Duration(89 * time.Second) }, "fence_probe_timeout"},
		"endless":       {func(s *Settings) { s.Timeout = driverconf.Duration(time.Hour) }, "fence_probe_timeout"},
		"least timeout": {func(s *Settings) { s.Timeout = driverconf.Duration(90 * time.Second) }, ""},
	} {
		s := settings()
		c.change(&s)
		var problems []string
		s.Validate(func(key, problem string) { problems = append(problems, key+" "+problem) })
		if (len(problems) == 0) != (c.want == "") || c.want != "" && (len(problems) != 1 || !strings.HasPrefix(problems[0], c.want+" ")) {
			t.Errorf("%s: %v, want %q", name, problems, c.want)
		}
	}
}

func TestWhichNamespaces(t *testing.T) {
	for name, c := range map[string]struct {
		mode   driverconf.Mode
		when   When
		list   []string
		spaces string
		bad    bool
	}{
		"shared":             {driverconf.ModeShared, Report, nil, "sandboxes", false},
		"shared, named":      {driverconf.ModeShared, Report, []string{"sandboxes"}, "sandboxes", false},
		"shared, another":    {driverconf.ModeShared, Report, []string{"other"}, "other", true},
		"managed":            {driverconf.ModeManaged, Require, []string{"openshell-blue-team"}, "openshell-blue-team", false},
		"managed, another":   {driverconf.ModeManaged, Require, []string{"team"}, "team", true},
		"managed, none":      {driverconf.ModeManaged, Require, nil, "", true},
		"operator":           {driverconf.ModeOperator, Report, []string{"team-a", "team-b"}, "team-a team-b", false},
		"operator, none":     {driverconf.ModeOperator, Report, nil, "", true},
		"operator, none off": {driverconf.ModeOperator, Off, nil, "", false},
	} {
		k, s := stock(), settings()
		k.WorkspaceMode, s.Startup, s.Namespaces = c.mode, c.when, c.list
		bad := false
		s.ValidateWith(k, func(string, string) { bad = true })
		if got := strings.Join(s.spaces(k), " "); got != c.spaces || bad != c.bad {
			t.Errorf("%s: %q, %t", name, got, bad)
		}
	}
}
