package reconcile

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/leadership"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// TestLimits: what the process that leads after another one was killed waits for, one after another, is over within a minute.
func TestLimits(t *testing.T) {
	lease := leadership.DefaultSettings()
	takesLead := lease.LeaseDuration.Std() + lease.RetryPeriod.Std()*44/10 // two tries of a standby
	const prompt = 5 * time.Second                                         // what the steps of an undo take when nobody lets them wait
	if settles := takesLead + abandonedAfter + gap + prompt; settles >= time.Minute {
		t.Errorf("a start that was abandoned is undone after %s", settles)
	}
	if settles := takesLead + endedAfter + gap + prompt; settles >= time.Minute {
		t.Errorf("a run whose image is not to be had is ended after %s", settles)
	}
	if plan.ImageLimit >= plan.WatchLimit || plan.WatchLimit >= plan.ReadyLimit {
		t.Errorf("ImageLimit %s, WatchLimit %s, ReadyLimit %s", plan.ImageLimit, plan.WatchLimit, plan.ReadyLimit)
	}
}

// TestARunWhoseImageIsNotToBeHad is looked at when its time is over, and before that when something changes; once only, and not when its
// image has come.
func TestARunWhoseImageIsNotToBeHad(t *testing.T) {
	box := boxMeta(1, released())
	supervisor := supervisorMeta(1, box)
	all := func() map[kind][]*metav1.PartialObjectMetadata {
		return map[kind][]*metav1.PartialObjectMetadata{boxes: {box}, pods: {supervisor, workloadMeta(1, box)}, services: {serviceMeta(1, box)}}
	}
	ends := func(b *bench, dooms bool) {
		b.t.Helper()
		b.done(b.wants(), &finding{ending: waiting, doomed: dooms, live: &sandboxapi.Object{
			Sandbox: sandboxapi.Sandbox{UID: string(box.UID), Annotations: box.Annotations}, ResourceVersion: box.ResourceVersion,
		}}, b.now)
	}
	b := newBench(t, all())
	b.pass(settling)
	ends(b, true)
	b.pass(5*time.Second - settling)
	b.see(pods, next(supervisor, pickUp))
	b.pass(settling)
	ends(b, true)
	b.rests(endedAfter - 5*time.Second - settling)
	b.pass(endedAfter - 5*time.Second - settling)
	ends(b, true)
	b.rests(30 * time.Second)

	b = newBench(t, all())
	b.pass(settling)
	ends(b, true)
	b.pass(5 * time.Second)
	b.see(pods, next(supervisor, pickUp))
	b.pass(settling)
	ends(b, false)
	b.rests(30 * time.Second)
}
