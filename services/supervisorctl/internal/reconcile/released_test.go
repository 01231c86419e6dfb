package reconcile

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// TestARunThatWasJustReleased: it is left alone while its Pods get on, and looked at as soon as they are ready, once the controller has had
// the time to say so too. What somebody did to it meanwhile, or what befell a Pod, is seen by one look, which is put off for a bounded
// time; and one that is ended or deleted is looked at at once.
func TestARunThatWasJustReleased(t *testing.T) {
	t.Run("its Pods get on", func(t *testing.T) {
		b, s := justReleased(t)
		b.rests(underWay)
		b.pass(gap)
		b.see(pods, next(s.supervisor, pickUp))
		b.see(boxes, next(s.box, pickUp))
		b.rests(underWay - gap)
		b.pass(underWay - gap)
		b.ends(b.wants(), waiting)
		b.pass(gap)
		b.see(boxes, next(next(s.box, pickUp), pickUp))
		b.rests(underWay)
	})
	t.Run("its Pods are ready", func(t *testing.T) {
		b, s := justReleased(t)
		b.pass(2 * gap)
		b.see(pods, next(s.supervisor, says("ready")))
		b.rests(underWay - 2*gap)
		b.pass(gap)
		b.see(pods, next(s.workload, says("ready")))
		b.rests(promptly)
		b.pass(promptly / 2)
		box := next(s.box, pickUp)
		b.see(boxes, box)
		b.rests(promptly)
		for range 5 {
			b.pass(promptly / 2)
			box = next(box, pickUp)
			b.see(boxes, box)
		}
		b.pass(promptly / 2)
		b.rests(promptly / 2) // a gap after they were
		b.pass(promptly / 2)
		b.ends(b.wants(), waiting)
		// The controller takes its time: when it says so it is believed at once.
		b.pass(3 * gap)
		b.see(boxes, next(box, pickUp))
		b.wants()
	})
	t.Run("a Pod is not ready again", func(t *testing.T) {
		b, s := justReleased(t)
		b.see(pods, next(s.supervisor, says("ready")))
		b.see(pods, next(s.workload, says("ready")))
		b.rests(promptly)
		b.see(pods, next(next(s.workload, pickUp), pickUp))
		b.rests(underWay)
	})
	for name, change := range map[string]func(b *bench, s *set){
		"a Pod crashes":   func(b *bench, s *set) { s.supervisor = next(s.supervisor, says("crashed")); b.see(pods, s.supervisor) },
		"a Pod is edited": func(b *bench, s *set) { s.workload = next(s.workload, annotate); b.see(pods, s.workload) },
		"the Sandbox is": func(b *bench, s *set) {
			s.box = next(s.box, func(m *metav1.PartialObjectMetadata) { m.Generation++ })
			b.see(boxes, s.box)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, s := justReleased(t)
			b.pass(gap)
			change(b, &s)
			b.rests(settling)
			b.pass(settling / 2)
			b.see(pods, next(next(s.supervisor, pickUp), pickUp)) // and gets on
			b.rests(settling)
			b.pass(settling)
			b.ends(b.wants(), waiting)
		})
	}
	t.Run("its Pods were only listed", func(t *testing.T) {
		b, s := justReleased(t)
		b.replace(pods, []object{objectOf(pods, &next(s.supervisor, pickUp).ObjectMeta), objectOf(pods, &next(s.workload, pickUp).ObjectMeta)}, b.now)
		b.rests(settling)
		b.pass(settling)
		b.ends(b.wants(), waiting)
		b.pass(gap)
		b.see(boxes, next(s.box, pickUp)) // the controller says that they are ready
		b.rests(settling)
	})
	t.Run("its Service is edited while it is released", func(t *testing.T) {
		for _, first := range []bool{true, false} {
			b, s := justPrepared(t)
			edit := func() { b.see(services, next(s.service, annotate)) }
			if first {
				edit()
			}
			b.see(boxes, s.box)
			if !first {
				edit()
			}
			b.rests(settling)
		}
	})
	t.Run("its image is not to be had", func(t *testing.T) {
		b, s := justReleased(t)
		b.pass(plan.ImageLimit - 2*gap)
		task := b.wants()
		f := finding{ending: waiting, doomed: true}
		b.done(task, &f, b.now)
		b.pass(gap)
		b.see(pods, next(s.supervisor, pickUp))
		b.rests(endedAfter - plan.ImageLimit + gap)
	})
	t.Run("somebody edits it again and again", func(t *testing.T) {
		b, s := justReleased(t)
		const changes, between = 8, mostSettling / 9
		for i := range changes {
			if i > 0 {
				b.pass(between)
			}
			s.supervisor = next(s.supervisor, annotate)
			b.see(pods, s.supervisor)
		}
		b.rests(mostSettling - (changes-1)*between)
	})
	for name, annotations := range map[string]map[string]string{"stopped": releasing().Annotations(), "ready": ready(1).Annotations()} {
		b, s := justReleased(t)
		b.see(boxes, next(s.box, func(m *metav1.PartialObjectMetadata) { m.Annotations = annotations }))
		if _, wait, ok := b.take(b.now); !ok {
			t.Errorf("%s: the next look in %s", name, wait)
		}
	}
	b, s := justReleased(t)
	b.see(boxes, next(s.box, func(m *metav1.PartialObjectMetadata) { m.DeletionTimestamp = new(metav1.Now()) }))
	b.wants()
}

// TestNoChangeOfAReleasedRunWaitsForLong: whatever else happens, a change is looked at within the time that its weight gives it, and within a
// moment once both Pods are ready.
func TestNoChangeOfAReleasedRunWaitsForLong(t *testing.T) {
	const step = 50 * time.Millisecond
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 3))
		b, s := justReleased(t)
		var last, slightSince, weightySince, readySince time.Time
		note := func(at *time.Time) {
			if at.IsZero() {
				*at = b.now
			}
		}
		for range 400 {
			b.pass(step)
			pod, other := &s.supervisor, &s.workload
			if random.IntN(2) == 0 {
				pod, other = other, pod
			}
			was := of(pods, *pod)
			switch random.IntN(60) {
			case 0, 1, 2:
				*pod = next(*pod, pickUp) // as it was, of another version
			case 3:
				*pod = next(*pod, says("ready"))
			case 4:
				*pod = next(*pod, annotate)
			case 5:
				s.box = next(s.box, pickUp)
				b.see(boxes, s.box)
				note(&slightSince)
			}
			if now := of(pods, *pod); now.version != was.version {
				b.see(pods, *pod)
				if now.changed(&was) == weighty {
					note(&weightySince)
				}
				note(&slightSince)
				readySince = time.Time{}
				if now.ready && of(pods, *other).ready {
					readySince = b.now
				}
			}
			if task, _, ok := b.take(b.now); ok {
				b.ends(task, waiting)
				last, slightSince, weightySince, readySince = b.now, time.Time{}, time.Time{}, time.Time{}
				continue
			}
			for what, c := range map[string]struct {
				since time.Time
				most  time.Duration
			}{"something": {slightSince, underWay + gap}, "something of weight": {weightySince, mostSettling}, "the last that was missing": {readySince, gap}} {
				if due := later(c.since.Add(c.most), last.Add(gap)); !c.since.IsZero() && b.now.Sub(due) > step {
					t.Fatalf("seed %d: %s changed %s ago", seed, what, b.now.Sub(c.since))
				}
			}
		}
	}
}

// annotate is an edit of somebody.
func annotate(m *metav1.PartialObjectMetadata) {
	m.Annotations = map[string]string{"edited": m.Annotations["edited"] + "again "}
}

// TestShape: of a Pod or a Sandbox nothing but its way to readiness may change without weight.
func TestShape(t *testing.T) {
	pod := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "p", Namespace: ns, UID: "u", ResourceVersion: "1", Generation: 1, Labels: map[string]string{"a": "b", "c": "d"},
				OwnerReferences: []metav1.OwnerReference{{Name: "o", UID: "o", Controller: new(true)}},
			},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{"a": "b", "c": "d"}, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
			}}},
		}
	}
	former := podOf(pod())
	waits := func(reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Waiting.Reason = reason }
	}
	for name, c := range map[string]struct {
		edit func(p *corev1.Pod)
		want kindOfChange
	}{
		"nothing":         {func(*corev1.Pod) {}, slight},
		"another version": {func(p *corev1.Pod) { p.ResourceVersion = "2" }, slight},
		"it has a node":   {func(p *corev1.Pod) { p.Spec.NodeName = "n" }, slight},
		"it has an IP":    {func(p *corev1.Pod) { p.Status.PodIP = "192.0.2.1" }, slight},
		"it is scheduled": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "True"}}
		}, slight},
		"its image comes":  {waits("PodInitializing"), slight},
		"it is ready":      {func(p *corev1.Pod) { p.Status = readyStatus() }, slight},
		"its image is not": {waits("ErrImagePull"), weighty},
		"nor will be":      {waits("InvalidImageName"), weighty},
		"it has no node": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Reason: "Unschedulable"}}
		}, weighty},
		"it has ended":        {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, weighty},
		"it began again":      {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount++ }, weighty},
		"it is gated":         {func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }, weighty},
		"another image":       {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j" }, weighty},
		"an ephemeral one":    {func(p *corev1.Pod) { p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{}} }, weighty},
		"a label":             {func(p *corev1.Pod) { p.Labels["a"] = "c" }, weighty},
		"an annotation":       {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, weighty},
		"an owner":            {func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" }, weighty},
		"its generation":      {func(p *corev1.Pod) { p.Generation++ }, weighty},
		"it is being deleted": {func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, weighty},
	} {
		p := pod()
		c.edit(p)
		now := podOf(p)
		if got := now.changed(&former); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		if got := now.changed(nil); got != weighty {
			t.Errorf("%s, and it is new: %d", name, got)
		}
	}
	listed := objectOf(pods, &pod().ObjectMeta)
	if now := podOf(pod()); now.changed(&listed) != weighty || listed.changed(&now) != weighty {
		t.Error("of what was only listed it is known what it is")
	}
	box := boxMeta(1, released())
	before := of(boxes, box)
	for name, c := range map[string]struct {
		edit func(m *metav1.PartialObjectMetadata)
		want kindOfChange
	}{
		"another version": {pickUp, slight},
		"another's note":  {func(m *metav1.PartialObjectMetadata) { m.Annotations["example.com/a"] = "b" }, slight},
		"its generation":  {func(m *metav1.PartialObjectMetadata) { m.Generation++ }, weighty},
		"a label":         {func(m *metav1.PartialObjectMetadata) { m.Labels["a"] = "b" }, weighty},
		"its record":      {func(m *metav1.PartialObjectMetadata) { m.Annotations = ready(1).Annotations() }, weighty},
		"its workspace": {func(m *metav1.PartialObjectMetadata) {
			m.Annotations[workspace.AnnotationSandboxWorkspace] = "other"
		}, weighty},
		"its Pod's name":      {func(m *metav1.PartialObjectMetadata) { m.Annotations[sandboxapi.AnnotationPodName] = "other" }, weighty},
		"it is being deleted": {func(m *metav1.PartialObjectMetadata) { m.DeletionTimestamp = new(metav1.Now()) }, weighty},
	} {
		now := of(boxes, next(box, c.edit))
		if got := now.changed(&before); got != c.want {
			t.Errorf("Sandbox: %s: %d, want %d", name, got, c.want)
		}
	}
}

// set is a run's Sandbox and what is around it.
type set struct{ box, fence, service, supervisor, workload *metav1.PartialObjectMetadata }

// justReleased is a run that has been let go in this moment, with all its parts.
func justReleased(t *testing.T) (*bench, set) {
	t.Helper()
	b, s := justPrepared(t)
	b.see(boxes, s.box)
	return b, s
}

// justPrepared is one that is let go when its Sandbox is seen.
func justPrepared(t *testing.T) (*bench, set) {
	t.Helper()
	box := boxMeta(1, preparing())
	b := newBench(t, map[kind][]*metav1.PartialObjectMetadata{boxes: {box}})
	s := set{fence: fenceMeta(), service: serviceMeta(1, box), supervisor: supervisorMeta(1, box), workload: workloadMeta(1, box)}
	b.see(policies, s.fence)
	b.see(policies, egressMeta())
	b.see(services, s.service)
	b.see(pods, s.supervisor)
	b.see(pods, s.workload)
	b.pass(time.Second)
	record := released()
	whole := ready(1)
	record.WorkloadUID, record.SupervisorUID, record.FenceUID, record.FenceGeneration = whole.WorkloadUID, whole.SupervisorUID, whole.FenceUID, whole.FenceGeneration
	s.box = next(box, func(m *metav1.PartialObjectMetadata) { m.Annotations = record.Annotations() })
	return b, s
}

// TestARunThatLosesAPartIsLookedAtAtOnce: what ends a run that was just released is not gathered with what its Pods report.
func TestARunThatLosesAPartIsLookedAtAtOnce(t *testing.T) {
	changed := func(m *metav1.PartialObjectMetadata) { m.Generation++ }
	goes := func(m *metav1.PartialObjectMetadata) { m.DeletionTimestamp = new(metav1.Now()) }
	for name, change := range map[string]func(b *bench, s set){
		"the fence is altered": func(b *bench, s set) { b.see(policies, next(s.fence, changed)) },
		"the fence goes":       func(b *bench, s set) { b.see(policies, next(s.fence, goes)) },
		"the Service goes":     func(b *bench, s set) { b.see(services, next(s.service, goes)) },
		"a Pod goes":           func(b *bench, s set) { b.see(pods, next(s.supervisor, goes)) },
	} {
		b, s := justReleased(t)
		b.rests(underWay)
		b.pass(underWay)
		b.ends(b.wants(), waiting)
		b.pass(gap)
		s.supervisor = next(s.supervisor, pickUp)
		b.see(pods, s.supervisor)
		b.rests(underWay)
		change(b, s)
		if _, wait, ok := b.take(b.now); !ok {
			t.Errorf("%s: the next look in %s", name, wait)
		}
	}
}
