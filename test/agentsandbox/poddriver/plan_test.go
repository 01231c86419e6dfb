package poddriver

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC)

// base is the valid situation that every case changes in one way: a bound, running, ready Pod that has run for 10 s.
func base() situation {
	s := situation{
		pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "uid", Generation: 2},
			Spec: corev1.PodSpec{
				NodeName:       "n",
				Containers:     []corev1.Container{{Name: "agent", Image: "i"}},
				InitContainers: []corev1.Container{{Name: "init", Image: "i"}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			}},
		},
		now: now.Add(-10 * time.Second),
	}
	p := next(s)
	s.pod.Status, s.seen, s.now = *p.status, p.seen, now
	return s
}

// pending turns the base into a Pod that was bound just now and has not started.
func pending(s *situation) {
	s.pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	s.seen = seen{}
}

func deleted(s *situation) {
	s.pod.DeletionTimestamp = &metav1.Time{Time: now}
	s.pod.DeletionGracePeriodSeconds = new(int64(30))
}

// outcome is a plan in a form that reads well in a table.
type outcome struct {
	Status       string // phase, container state, ready; "" for no report
	Bind, Remove bool
	Again        time.Duration
}

func summarise(p plan) outcome {
	o := outcome{Bind: p.bind, Remove: p.remove, Again: p.again}
	if p.status == nil {
		return o
	}
	state := p.status.ContainerStatuses[0].State
	switch {
	case state.Waiting != nil:
		o.Status = fmt.Sprintf("%s %s", p.status.Phase, state.Waiting.Reason)
	case state.Terminated != nil:
		o.Status = fmt.Sprintf("%s %s %d", p.status.Phase, state.Terminated.Reason, state.Terminated.ExitCode)
	default:
		o.Status = string(p.status.Phase)
	}
	if p.status.Reason != "" {
		o.Status += " " + p.status.Reason
	}
	if condition(p.status, corev1.PodReady) == corev1.ConditionTrue {
		o.Status += " ready"
	}
	return o
}

func condition(s *corev1.PodStatus, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func TestNext(t *testing.T) {
	tests := map[string]struct {
		change func(*situation)
		want   outcome
	}{
		"nothing changed": {func(*situation) {}, outcome{}},

		"gated":                 {func(s *situation) { pending(s); gated(s) }, outcome{}},
		"gated, binding":        {func(s *situation) { pending(s); gated(s); s.bind = true }, outcome{}},
		"unbound":               {func(s *situation) { pending(s); s.pod.Spec.NodeName = "" }, outcome{}},
		"unbound, binding":      {func(s *situation) { pending(s); s.pod.Spec.NodeName = ""; s.bind = true }, outcome{Bind: true}},
		"deleted while unbound": {func(s *situation) { pending(s); deleted(s); s.pod.Spec.NodeName = ""; s.bind = true }, outcome{}},
		"starts at once":        {pending, outcome{Status: "Running ready"}},
		"volume missing":        {func(s *situation) { pending(s); s.blocked = "secret is missing" }, outcome{Status: "Pending ContainerCreating", Again: blockedRetry}},
		"missing once it runs":  {func(s *situation) { s.blocked = "secret is missing" }, outcome{}},
		"slow start":            {func(s *situation) { pending(s); s.behaviour.StartAfter = time.Minute }, outcome{Status: "Pending ContainerCreating", Again: time.Minute}},
		"slow start, later": {func(s *situation) {
			pending(s)
			s.behaviour.StartAfter = time.Minute
			s.seen.bound = now.Add(-50 * time.Second)
		}, outcome{Status: "Pending ContainerCreating", Again: 10 * time.Second}},
		"slow start is over": {func(s *situation) {
			pending(s)
			s.behaviour.StartAfter = time.Minute
			s.seen.bound = now.Add(-time.Minute)
		}, outcome{Status: "Running ready"}},
		"image cannot be pulled": {func(s *situation) { pending(s); s.behaviour.Waiting = "ImagePullBackOff" }, outcome{Status: "Pending ImagePullBackOff"}},
		"found running":          {func(s *situation) { s.seen = seen{}; s.behaviour.StartAfter = time.Hour }, outcome{}},

		"crash loop":       {func(s *situation) { s.behaviour.CrashLoop = true }, outcome{Status: "Running CrashLoopBackOff"}},
		"never ready":      {func(s *situation) { s.behaviour.NeverReady = true }, outcome{Status: "Running"}},
		"ready later":      {func(s *situation) { pending(s); s.behaviour.ReadyAfter = time.Minute }, outcome{Status: "Running", Again: time.Minute}},
		"flap, ready":      {func(s *situation) { s.behaviour.FlapEvery = 6 * time.Second; s.seen.running = now }, outcome{Again: 6 * time.Second}},
		"flap, not ready":  {func(s *situation) { s.behaviour.FlapEvery = 6 * time.Second }, outcome{Status: "Running", Again: 2 * time.Second}},
		"flap, next round": {func(s *situation) { s.behaviour.FlapEvery = 4 * time.Second }, outcome{Again: 2 * time.Second}},

		"ends later":          {func(s *situation) { s.behaviour.End = &End{After: time.Minute} }, outcome{Again: 50 * time.Second}},
		"ends before flap":    {func(s *situation) { s.behaviour = Behaviour{End: &End{After: 11 * time.Second}, FlapEvery: time.Hour} }, outcome{Again: time.Second}},
		"flaps before end":    {func(s *situation) { s.behaviour = Behaviour{End: &End{After: time.Hour}, FlapEvery: 11 * time.Second} }, outcome{Again: time.Second}},
		"succeeds":            {func(s *situation) { s.behaviour.End = &End{} }, outcome{Status: "Succeeded Completed 0"}},
		"fails":               {func(s *situation) { s.behaviour.End = &End{ExitCode: 3, Reason: "OOMKilled"} }, outcome{Status: "Failed OOMKilled 3"}},
		"is evicted":          {func(s *situation) { s.behaviour.End = &End{Evicted: true} }, outcome{Status: "Failed Error 137 Evicted"}},
		"has ended":           {func(s *situation) { s.pod.Status.Phase = corev1.PodFailed; s.behaviour.FlapEvery = time.Second }, outcome{}},
		"deleted after end":   {func(s *situation) { deleted(s); s.pod.Status.Phase = corev1.PodFailed }, outcome{Remove: true}},
		"deleted":             {deleted, outcome{Status: "Succeeded Completed 0", Remove: true}},
		"deleted, slow":       {func(s *situation) { deleted(s); s.behaviour.StopAfter = 20 * time.Second }, outcome{Again: 20 * time.Second}},
		"deleted, over grace": {func(s *situation) { deleted(s); s.behaviour.StopAfter = time.Minute }, outcome{Again: 30 * time.Second}},
		"killed after grace": {
			func(s *situation) {
				deleted(s)
				s.behaviour.StopAfter = time.Minute
				s.seen.deleted = now.Add(-30 * time.Second)
			},
			outcome{Status: "Failed Error 137", Remove: true},
		},
		"deleted while pending": {func(s *situation) { pending(s); deleted(s); s.behaviour.StopAfter = time.Minute }, outcome{Remove: true}},
		"deletion ignored":      {func(s *situation) { deleted(s); s.behaviour.IgnoreDeletion = true }, outcome{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := base()
			tc.change(&s)
			if diff := cmp.Diff(tc.want, summarise(next(s))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func gated(s *situation) { s.pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }

// TestReport looks at everything in the report of a running Pod that tests or production code read.
func TestReport(t *testing.T) {
	status := base().pod.Status
	started := metav1.NewTime(now.Add(-10 * time.Second))
	want := corev1.ContainerStatus{
		Name: "agent", Image: "i", ImageID: "stand-in://i", ContainerID: "stand-in://uid/agent", Ready: true, Started: new(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
	}
	if diff := cmp.Diff([]corev1.ContainerStatus{want}, status.ContainerStatuses); diff != "" {
		t.Errorf("container statuses (-want +got):\n%s", diff)
	}
	if init := status.InitContainerStatuses[0].State.Terminated; init == nil || init.ExitCode != 0 {
		t.Errorf("init container = %+v, want it completed", status.InitContainerStatuses)
	}
	if status.ObservedGeneration != 2 || status.PodIP == "" || status.PodIPs[0].IP != status.PodIP || !status.StartTime.Equal(&started) {
		t.Errorf("status = %+v", status)
	}
	for _, kind := range []corev1.PodConditionType{
		corev1.PodScheduled, corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
	} {
		if condition(&status, kind) != corev1.ConditionTrue {
			t.Errorf("condition %s = %q, want True", kind, condition(&status, kind))
		}
	}

	// When it stops being ready, only that and its time change.
	s := base()
	s.behaviour.NeverReady = true
	after := next(s).status
	for _, c := range after.Conditions {
		changed := c.Type == corev1.PodReady || c.Type == corev1.ContainersReady
		if c.Type != corev1.PodScheduled && c.LastTransitionTime.Time.Equal(now) != changed {
			t.Errorf("condition %s has transition time %v", c.Type, c.LastTransitionTime)
		}
	}
	if got := after.ContainerStatuses[0].State.Running.StartedAt; !got.Equal(&started) {
		t.Errorf("the container started at %v, want the old time", got)
	}
}

// TestProperties lets Pods with random scripts live, be deleted at any time, and checks what no kubelet would report.
func TestProperties(t *testing.T) {
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 2))
		d := func() time.Duration { return time.Duration(random.IntN(4)) * time.Second }
		s := base()
		pending(&s)
		s.behaviour = Behaviour{
			StartAfter: d(), ReadyAfter: d(), FlapEvery: d(), StopAfter: d() * 20,
			NeverReady: random.IntN(4) == 0, CrashLoop: random.IntN(4) == 0,
		}
		if random.IntN(2) == 0 {
			s.behaviour.End = &End{After: d(), ExitCode: int32(random.IntN(2)), Evicted: random.IntN(4) == 0}
		}
		until := now.Add(d() * 4)
		removed := false
		for range 100 {
			if s.pod.DeletionTimestamp == nil && !s.now.Before(until) {
				deleted(&s)
			}
			p := next(s)
			check(t, seed, s, p)
			if p.remove {
				removed = true
				break
			}
			s.seen = p.seen
			if p.status != nil {
				s.pod.Status = *p.status
				if again := next(s); again.status != nil {
					t.Fatalf("seed %d: reports twice without a change: %s", seed, cmp.Diff(p.status, again.status))
				}
			}
			step := p.again
			if step == 0 || s.pod.DeletionTimestamp == nil && s.now.Add(step).After(until) {
				step = until.Sub(s.now)
			}
			s.now = s.now.Add(max(step, time.Millisecond))
		}
		if !removed {
			t.Fatalf("seed %d: a deleted pod was never confirmed: %+v", seed, s.behaviour)
		}
	}
}

func check(t *testing.T, seed uint64, s situation, p plan) {
	t.Helper()
	if p.remove && s.pod.DeletionTimestamp == nil {
		t.Fatalf("seed %d: removes a pod that nobody deleted", seed)
	}
	if p.again < 0 {
		t.Fatalf("seed %d: looks again in %v", seed, p.again)
	}
	if p.status == nil {
		return
	}
	if ended(s.pod) {
		t.Fatalf("seed %d: an ended pod goes on: %s", seed, p.status.Phase)
	}
	if s.pod.Status.Phase == corev1.PodRunning && p.status.Phase == corev1.PodPending {
		t.Fatalf("seed %d: a running pod is pending again", seed)
	}
	ready := condition(p.status, corev1.PodReady) == corev1.ConditionTrue
	if ready && (p.status.Phase != corev1.PodRunning || p.status.PodIP == "" || !p.status.ContainerStatuses[0].Ready) {
		t.Fatalf("seed %d: ready without running, address and ready container: %+v", seed, p.status)
	}
}
