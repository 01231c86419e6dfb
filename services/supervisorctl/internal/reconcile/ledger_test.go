package reconcile

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// pickUp does nothing with an object but changing it.
func pickUp(*metav1.PartialObjectMetadata) {}

// TestChanges: each change of something that a settled sandbox is made of leads to a look at once, and nothing else does.
func TestChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(b *bench, box, supervisor, workload, service *metav1.PartialObjectMetadata)
		looks  bool
	}{
		"nothing": {func(*bench, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadata) {
		}, false},
		"everything reported again": {func(b *bench, box, s, w, v *metav1.PartialObjectMetadata) {
			b.replace(boxes, []object{of(boxes, box)}, b.now)
			b.replace(pods, []object{of(pods, s), of(pods, w)}, b.now)
			b.replace(services, []object{of(services, v)}, b.now)
			b.replace(policies, []object{of(policies, fenceMeta()), of(policies, egressMeta())}, b.now)
		}, false},
		"Sandbox": {func(b *bench, box, _, _, _ *metav1.PartialObjectMetadata) { b.see(boxes, next(box, pickUp)) }, true},
		"Sandbox is being deleted": {func(b *bench, box, _, _, _ *metav1.PartialObjectMetadata) {
			b.see(boxes, next(box, func(m *metav1.PartialObjectMetadata) { m.DeletionTimestamp = new(metav1.Now()) }))
		}, true},
		"supervisor":     {func(b *bench, _, s, _, _ *metav1.PartialObjectMetadata) { b.see(pods, next(s, pickUp)) }, true},
		"workload":       {func(b *bench, _, _, w, _ *metav1.PartialObjectMetadata) { b.see(pods, next(w, pickUp)) }, true},
		"Service":        {func(b *bench, _, _, _, v *metav1.PartialObjectMetadata) { b.see(services, next(v, pickUp)) }, true},
		"fence":          {func(b *bench, _, _, _, _ *metav1.PartialObjectMetadata) { b.see(policies, next(fenceMeta(), pickUp)) }, true},
		"egress":         {func(b *bench, _, _, _, _ *metav1.PartialObjectMetadata) { b.see(policies, next(egressMeta(), pickUp)) }, true},
		"no supervisor":  {func(b *bench, _, s, _, _ *metav1.PartialObjectMetadata) { b.drop(pods, string(s.UID), b.now) }, true},
		"no workload":    {func(b *bench, _, _, w, _ *metav1.PartialObjectMetadata) { b.drop(pods, string(w.UID), b.now) }, true},
		"no Service":     {func(b *bench, _, _, _, v *metav1.PartialObjectMetadata) { b.drop(services, string(v.UID), b.now) }, true},
		"no fence":       {func(b *bench, _, _, _, _ *metav1.PartialObjectMetadata) { b.drop(policies, "fence", b.now) }, true},
		"a list without": {func(b *bench, _, _, _, _ *metav1.PartialObjectMetadata) { b.replace(services, nil, b.now) }, true},
		"supervisor disowned": {func(b *bench, _, s, _, _ *metav1.PartialObjectMetadata) {
			b.see(pods, next(s, func(m *metav1.PartialObjectMetadata) { m.OwnerReferences = nil }))
		}, true},
		"supervisor without labels": {func(b *bench, _, s, _, _ *metav1.PartialObjectMetadata) {
			b.see(pods, next(s, func(m *metav1.PartialObjectMetadata) { m.Labels = nil }))
		}, true},
		"disowned, then without labels": {func(b *bench, _, s, _, _ *metav1.PartialObjectMetadata) {
			s = next(s, func(m *metav1.PartialObjectMetadata) { m.OwnerReferences = nil })
			b.see(pods, s)
			b.ends(b.wants(), settled)
			b.pass(gap)
			b.see(pods, next(s, func(m *metav1.PartialObjectMetadata) { m.Labels = nil }))
		}, true},
		"a Pod that says it is of the pair": {func(b *bench, _, s, _, _ *metav1.PartialObjectMetadata) {
			b.see(pods, next(s, func(m *metav1.PartialObjectMetadata) { m.UID, m.OwnerReferences = "another", nil }))
		}, true},
		"a supervisor of another Sandbox": {func(b *bench, _, _, _, _ *metav1.PartialObjectMetadata) {
			other := boxMeta(2, running())
			other.Labels[workspace.LabelGatewayID] = "red"
			b.see(boxes, other)
			b.see(pods, workloadMeta(2, other))
			b.see(services, serviceMeta(2, other))
		}, false},
		"a Pod of the same owner elsewhere": {func(b *bench, _, s, _, _ *metav1.PartialObjectMetadata) {
			b.see(pods, next(s, func(m *metav1.PartialObjectMetadata) {
				m.Namespace, m.UID = "elsewhere", "another"
				delete(m.Labels, workspace.LabelGatewayID)
			}))
		}, false},
		"a policy elsewhere": {func(b *bench, _, _, _, _ *metav1.PartialObjectMetadata) {
			b.see(policies, next(fenceMeta(), func(m *metav1.PartialObjectMetadata) { m.Namespace, m.UID = "elsewhere", "another" }))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, box, supervisor, workload, service := healthy(t)
			b.ends(b.wants(), settled)
			b.pass(time.Minute)
			tc.change(b, box, supervisor, workload, service)
			got, wait, ok := b.take(b.now)
			if ok != tc.looks {
				t.Fatalf("looks: %t, the next in %s", ok, wait)
			}
			if ok && (got.ref != plan.Ref{GatewayID: gateway, SandboxID: id(1), Namespace: ns, Name: "box-1", UID: "uid-1"}) {
				t.Errorf("at %+v", got.ref)
			}
			if ok {
				return
			}
			if want := 9 * time.Minute; wait != want && wait > 0 {
				t.Errorf("the next in %s", wait)
			}
		})
	}
}

// TestTimes is when a sandbox is looked at again, by how the last look ended and what happens then.
func TestTimes(t *testing.T) {
	for name, tc := range map[string]struct {
		end   ending
		looks int // that end so, one after another
		event bool
		want  time.Duration
	}{
		"settled":                {settled, 1, false, 10 * time.Minute},
		"settled, then a change": {settled, 1, true, gap},
		"waiting":                {waiting, 3, false, 30 * time.Second},
		"waiting, then a change": {waiting, 3, true, gap},
		"refused":                {refused, 1, false, 30 * time.Second},
		"refused again":          {refused, 2, false, time.Minute},
		"refused for long":       {refused, 9, false, 5 * time.Minute},
		"refused, then a change": {refused, 9, true, gap},
		"failed":                 {failed, 1, false, time.Second},
		"failed again":           {failed, 3, false, 4 * time.Second},
		"failed for long":        {failed, 99, false, time.Minute},
		"failed, then a change":  {failed, 3, true, 4 * time.Second},
		"busy":                   {busy, 1, false, time.Second},
		"busy for long":          {busy, 9, false, 5 * time.Second},
		"busy, then a change":    {busy, 9, true, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b, box, _, _, _ := healthy(t)
			for i := range tc.looks {
				b.ends(b.wants(), tc.end)
				if i < tc.looks-1 {
					_, wait, _ := b.take(b.now)
					b.pass(wait)
				}
			}
			if tc.event {
				b.see(boxes, next(box, pickUp))
			}
			b.rests(tc.want)
		})
	}
}

// TestAStartIsLeftToItsCall: nobody looks at one, whatever happens, until its record has stood still for long enough.
func TestAStartIsLeftToItsCall(t *testing.T) {
	box := boxMeta(1, preparing())
	b := newBench(t, map[kind][]*metav1.PartialObjectMetadata{boxes: {box}})
	b.rests(abandonedAfter)
	b.pass(29 * time.Second)
	b.see(pods, supervisorMeta(1, box))
	b.see(policies, next(fenceMeta(), pickUp))
	b.rests(abandonedAfter - 29*time.Second)
	// A change that is none of the record.
	box = next(box, func(m *metav1.PartialObjectMetadata) { m.Annotations["another"] = "one" })
	b.see(boxes, box)
	b.rests(abandonedAfter - 29*time.Second)
	// Progress.
	record := preparing()
	record.Attempt = "b"
	box = next(box, func(m *metav1.PartialObjectMetadata) { m.Annotations = record.Annotations() })
	b.see(boxes, box)
	b.rests(abandonedAfter)
	b.pass(abandonedAfter)
	abandoned := b.wants()
	if abandoned.record != record || b.now.Sub(abandoned.since) != abandonedAfter || !abandoned.readable {
		t.Errorf("%+v", abandoned)
	}
	b.ends(abandoned, waiting)
	b.pass(gap)
	b.rests(30*time.Second - gap)
	// A look that read other than what was seen begins anew.
	b.pass(30*time.Second - gap)
	late := b.wants()
	record.Attempt = "c"
	b.done(late, &finding{ending: waiting, live: &sandboxapi.Object{
		Sandbox: sandboxapi.Sandbox{UID: "uid-1", Annotations: record.Annotations()}, ResourceVersion: "9",
	}}, b.now)
	b.rests(abandonedAfter)
	// One that is to go is not left to anybody.
	b.pass(gap)
	b.see(boxes, next(box, func(m *metav1.PartialObjectMetadata) { m.DeletionTimestamp = new(metav1.Now()) }))
	b.wants()
}

// TestOwnWrites: what a look wrote and read back is no change when it is reported.
func TestOwnWrites(t *testing.T) {
	b, box, _, _, _ := healthy(t)
	look := b.wants()
	record := ready(1)
	record.Readiness = runstate.Unavailable
	written := next(box, func(m *metav1.PartialObjectMetadata) { m.Annotations = record.Annotations() })
	b.done(look, &finding{ending: settled, live: &sandboxapi.Object{
		Sandbox: sandboxapi.Sandbox{UID: "uid-1", Annotations: record.Annotations()}, ResourceVersion: written.ResourceVersion,
	}}, b.now)
	b.see(boxes, written)
	b.rests(10 * time.Minute)
	b.see(boxes, next(written, pickUp))
	b.rests(gap)
}

// TestNothingIsLostWhileItIsWorkedOn: a change during a look leads to another one, and never to two at once.
func TestNothingIsLostWhileItIsWorkedOn(t *testing.T) {
	b, _, supervisor, _, _ := healthy(t)
	look := b.wants()
	b.see(pods, next(supervisor, pickUp))
	b.rests(-1)
	b.pass(time.Minute)
	b.ends(look, settled)
	b.rests(gap)
	b.pass(gap)
	b.wants()
}

// TestTheBegin: nothing is looked at before the Sandboxes are listed, and what the rest cannot be listed of does not hold it up.
func TestTheBegin(t *testing.T) {
	l := newLedger(gateway, defaultPace(), func() float64 { return 0 })
	b := &bench{ledger: l, t: t, now: epoch}
	box := boxMeta(1, releasing())
	b.replace(boxes, []object{of(boxes, box)}, b.now)
	b.replace(pods, nil, b.now)
	b.replace(policies, nil, b.now)
	b.rests(-1)
	b.health(services, false)
	b.ends(b.wants(), settled)
	b.rests(degradedLook)
	b.health(services, true)
	b.replace(services, nil, b.now)
	b.rests(10 * time.Minute)

	l = newLedger(gateway, defaultPace(), func() float64 { return 0 })
	b = &bench{ledger: l, t: t, now: epoch}
	for _, k := range []kind{pods, services, policies} {
		b.replace(k, nil, b.now)
	}
	b.see(boxes, box)
	b.health(boxes, false)
	b.rests(-1)
}

// TestWhatComesFirst: at the begin of a term those that may need something are looked at at once, and the others at a pace.
func TestWhatComesFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		record  func(*runstate.Record)
		edit    func(all map[kind][]*metav1.PartialObjectMetadata)
		suspect bool
	}{
		"well": {nil, nil, false},
		"stopped": {func(r *runstate.Record) { *r = r.Stopped() }, func(all map[kind][]*metav1.PartialObjectMetadata) {
			all[pods] = nil
		}, false},
		"stopped with a supervisor": {func(r *runstate.Record) { *r = r.Stopped() }, nil, true},
		"releasing":                 {func(r *runstate.Record) { *r = releasing() }, nil, true},
		"not ready":                 {func(r *runstate.Record) { r.Readiness = runstate.Unavailable }, nil, true},
		"another supervisor":        {func(r *runstate.Record) { r.SupervisorUID = "another" }, nil, true},
		"another workload":          {func(r *runstate.Record) { r.WorkloadUID = "another" }, nil, true},
		"another fence":             {func(r *runstate.Record) { r.FenceUID = "another" }, nil, true},
		"changed fence":             {func(r *runstate.Record) { r.FenceGeneration = 7 }, nil, true},
		"no Pods":                   {nil, func(all map[kind][]*metav1.PartialObjectMetadata) { all[pods] = nil }, true},
		"no Service":                {nil, func(all map[kind][]*metav1.PartialObjectMetadata) { all[services] = nil }, true},
		"no fence": {nil, func(all map[kind][]*metav1.PartialObjectMetadata) {
			all[policies] = []*metav1.PartialObjectMetadata{egressMeta()}
		}, true},
		"no egress": {nil, func(all map[kind][]*metav1.PartialObjectMetadata) {
			all[policies] = []*metav1.PartialObjectMetadata{fenceMeta()}
		}, true},
		"record that cannot be read": {nil, func(all map[kind][]*metav1.PartialObjectMetadata) {
			all[boxes][0].Annotations[workspace.AnnotationBootstrapPhase] = "another"
		}, true},
		"being deleted": {nil, func(all map[kind][]*metav1.PartialObjectMetadata) {
			all[boxes][0].DeletionTimestamp = new(metav1.Now())
		}, true},
		"supervisor is going": {nil, func(all map[kind][]*metav1.PartialObjectMetadata) {
			all[pods][0].DeletionTimestamp = new(metav1.Now())
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			record := ready(1)
			if tc.record != nil {
				tc.record(&record)
			}
			box := boxMeta(1, record)
			all := map[kind][]*metav1.PartialObjectMetadata{boxes: {box}, pods: {supervisorMeta(1, box), workloadMeta(1, box)}, services: {serviceMeta(1, box)}}
			if tc.edit != nil {
				tc.edit(all)
			}
			b := newBench(t, all)
			if got := len(b.hurried) == 1; got != tc.suspect || len(b.hurried)+len(b.calm) != 1 {
				t.Errorf("%d hurried, %d calm", len(b.hurried), len(b.calm))
			}
		})
	}
	t.Run("at a pace", func(t *testing.T) {
		all := map[kind][]*metav1.PartialObjectMetadata{}
		for n := range 40 {
			record := ready(n)
			if n >= 30 {
				record = releasing()
			}
			box := boxMeta(n, record)
			all[boxes] = append(all[boxes], box)
			all[pods] = append(all[pods], supervisorMeta(n, box), workloadMeta(n, box))
			all[services] = append(all[services], serviceMeta(n, box))
		}
		b := newBench(t, all)
		for range 10 {
			if look := b.wants(); look.record.Phase != runstate.Releasing {
				t.Fatalf("%+v comes first", look)
			}
		}
		for range 30 {
			b.wants()
			if _, wait, ok := b.take(b.now); ok || wait > time.Second/4 {
				t.Fatalf("after one that nothing calls for another one: %t, in %s", ok, wait)
			}
			b.pass(time.Second / 4)
		}
		b.rests(-1)
	})
}

// TestStates is what becomes known of a sandbox from look to look.
func TestStates(t *testing.T) {
	for name, tc := range map[string]struct {
		first, second finding
		want          change
	}{
		"well":            {finding{ending: settled}, finding{ending: settled}, change{}},
		"refused":         {finding{ending: settled}, finding{ending: refused, reason: plan.Collision}, change{to: plan.Collision}},
		"refused again":   {finding{ending: refused, reason: plan.Collision}, finding{ending: refused, reason: plan.Collision}, change{from: plan.Collision, to: plan.Collision}},
		"for another":     {finding{ending: refused, reason: plan.Collision}, finding{ending: refused, reason: plan.RecordInvalid}, change{from: plan.Collision, to: plan.RecordInvalid}},
		"failed":          {finding{ending: refused, reason: plan.Collision}, finding{ending: failed, reason: plan.ObjectUnreadable}, change{from: plan.Collision, to: plan.Collision}},
		"well again":      {finding{ending: refused, reason: plan.Collision}, finding{ending: settled}, change{from: plan.Collision}},
		"busy":            {finding{ending: refused, reason: plan.Collision}, finding{ending: busy}, change{from: plan.Collision, to: plan.Collision}},
		"another Sandbox": {finding{ending: settled}, finding{ending: settled, live: &sandboxapi.Object{Sandbox: sandboxapi.Sandbox{UID: "another"}}}, change{}},
	} {
		t.Run(name, func(t *testing.T) {
			b, box, _, _, _ := healthy(t)
			b.done(b.wants(), &tc.first, b.now)
			b.pass(time.Minute)
			b.see(boxes, next(box, pickUp))
			if got := b.done(b.wants(), &tc.second, b.now); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			want := map[string]int{}
			if tc.want.to != "" {
				want[string(tc.want.to)] = 1
			}
			if s := b.census(); s.sandboxes != 1 || len(s.refused) != len(want) || s.refused[tc.want.to] != want[string(tc.want.to)] {
				t.Errorf("census %+v", s)
			}
		})
	}
	t.Run("failed again and again", func(t *testing.T) {
		b, _, _, _, _ := healthy(t)
		for i, want := range []change{{}, {}, {to: plan.ObjectUnreadable}, {from: plan.ObjectUnreadable, to: plan.ObjectUnreadable}} {
			if got := b.done(b.wants(), &finding{ending: failed, reason: plan.ObjectUnreadable}, b.now); got != want {
				t.Errorf("failure %d: %+v, want %+v", i+1, got, want)
			}
			b.pass(time.Minute)
		}
		if got := b.done(b.wants(), &finding{ending: settled}, b.now); got != (change{from: plan.ObjectUnreadable}) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("of a look that nobody makes", func(t *testing.T) {
		b, _, _, _, _ := healthy(t)
		look := b.wants()
		b.ends(look, settled)
		if got := b.done(look, &finding{ending: failed, reason: plan.Broke}, b.now); got != (change{}) || b.census().refused[plan.Broke] != 0 {
			t.Errorf("%+v", got)
		}
	})
}
