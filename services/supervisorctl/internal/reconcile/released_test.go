package reconcile

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestARunThatWasJustReleased: whatever is reported of it is seen by one look, which is put off for a bounded time; and one that is ended or
// deleted meanwhile is looked at at once.
func TestARunThatWasJustReleased(t *testing.T) {
	start := func() (b *bench, box, supervisor *metav1.PartialObjectMetadata) {
		b, set := justReleased(t)
		return b, set.box, set.supervisor
	}
	b, box, supervisor := start()
	b.rests(settling)
	b.pass(settling / 2)
	supervisor = next(supervisor, pickUp)
	b.see(pods, supervisor)
	b.rests(settling)
	b.pass(settling)
	b.ends(b.wants(), waiting)
	b.see(pods, next(supervisor, pickUp))
	b.rests(gap)

	const changes, between = 8, mostSettling / 9
	busy := func() {
		for range changes {
			b.pass(between)
			supervisor, box = next(supervisor, pickUp), next(box, pickUp)
			b.see(pods, supervisor)
			b.see(boxes, box)
		}
	}
	b, box, supervisor = start()
	busy()
	b.rests(mostSettling - changes*between)
	b.pass(mostSettling - changes*between)
	b.ends(b.wants(), waiting)
	busy() // from its first change on
	b.rests(between + mostSettling - changes*between)

	for name, annotations := range map[string]map[string]string{"stopped": releasing().Annotations(), "ready": ready(1).Annotations()} {
		b, box, _ := start()
		b.see(boxes, next(box, func(m *metav1.PartialObjectMetadata) { m.Annotations = annotations }))
		if _, wait, ok := b.take(b.now); !ok {
			t.Errorf("%s: the next look in %s", name, wait)
		}
	}
	b, box, _ = start()
	b.see(boxes, next(box, func(m *metav1.PartialObjectMetadata) { m.DeletionTimestamp = new(metav1.Now()) }))
	b.wants()
}

// set is a run's Sandbox and what is around it.
type set struct{ box, fence, service, supervisor *metav1.PartialObjectMetadata }

// justReleased is a run that has been let go in this moment, with all its parts.
func justReleased(t *testing.T) (*bench, set) {
	t.Helper()
	box := boxMeta(1, preparing())
	b := newBench(t, map[kind][]*metav1.PartialObjectMetadata{boxes: {box}})
	s := set{fence: fenceMeta(), service: serviceMeta(1, box), supervisor: supervisorMeta(1, box)}
	b.see(policies, s.fence)
	b.see(policies, egressMeta())
	b.see(services, s.service)
	b.see(pods, s.supervisor)
	b.see(pods, workloadMeta(1, box))
	b.pass(time.Second)
	record := released()
	whole := ready(1)
	record.WorkloadUID, record.SupervisorUID, record.FenceUID, record.FenceGeneration = whole.WorkloadUID, whole.SupervisorUID, whole.FenceUID, whole.FenceGeneration
	s.box = next(box, func(m *metav1.PartialObjectMetadata) { m.Annotations = record.Annotations() })
	b.see(boxes, s.box)
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
		b.rests(settling)
		b.pass(mostSettling)
		b.ends(b.wants(), waiting)
		b.pass(gap)
		s.supervisor = next(s.supervisor, pickUp)
		b.see(pods, s.supervisor)
		b.rests(settling)
		change(b, s)
		if _, wait, ok := b.take(b.now); !ok {
			t.Errorf("%s: the next look in %s", name, wait)
		}
	}
}
