package reconcile

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// world is a cluster with sandboxes of ours and of others, a ledger that is told of it late and not of everything, and workers.
type world struct {
	*bench
	random *rand.Rand
	live   [kinds]map[string]*metav1.PartialObjectMetadata
	// told is when a change of ours was told and no look has begun since, by key.
	told map[key]time.Time
	open map[key]task
	// ended is when the last look at a key ended.
	ended  map[key]time.Time
	looks  int
	serial int
}

func newWorld(t *testing.T, seed uint64, n int) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 1)), told: map[key]time.Time{}, open: map[key]task{}, ended: map[key]time.Time{},
	}
	w.bench = &bench{ledger: newLedger(gateway, defaultPace(), w.random.Float64), t: t, now: epoch}
	for k := range kinds {
		w.live[k] = map[string]*metav1.PartialObjectMetadata{}
	}
	w.live[policies]["fence"], w.live[policies]["egress"] = fenceMeta(), egressMeta()
	w.live[policies]["web"] = meta("NetworkPolicy", "web", "web", nil, nil)
	for i := range n {
		w.birth(i)
	}
	return w
}

func (w *world) birth(n int) {
	box := boxMeta(n, ready(n))
	if n%5 == 4 {
		box.Labels[workspace.LabelGatewayID] = "red"
	}
	w.live[boxes][string(box.UID)] = box
	for _, pod := range []*metav1.PartialObjectMetadata{supervisorMeta(n, box), workloadMeta(n, box)} {
		pod.Labels[workspace.LabelGatewayID] = box.Labels[workspace.LabelGatewayID]
		w.live[pods][string(pod.UID)] = pod
	}
	service := serviceMeta(n, box)
	w.live[services][string(service.UID)] = service
}

// tell lists a kind, as after a watch has ended.
func (w *world) tell(k kind) {
	var all []object
	for _, m := range w.live[k] {
		all = append(all, of(k, m))
	}
	before := w.stamps()
	w.replace(k, all, w.now)
	w.expect(before)
}

func (w *world) stamps() map[key]uint64 {
	all := map[key]uint64{}
	for _, space := range w.spaces {
		for _, e := range space {
			all[e.key] = e.stamp
		}
	}
	return all
}

// expect notes which sandboxes were changed by what was told.
func (w *world) expect(before map[key]uint64) {
	for k, e := range w.entries() {
		if _, waits := w.told[k]; !waits && e.ours && e.stamp != before[k] && (!e.distant || e.ending == settled) {
			w.told[k] = w.now
		}
	}
}

func (w *world) entries() map[key]*entry {
	all := map[key]*entry{}
	for _, space := range w.spaces {
		for _, e := range space {
			all[e.key] = e
		}
	}
	return all
}

// happen changes one object, and tells of it or not.
func (w *world) happen() {
	k := kind(w.random.IntN(int(kinds)))
	if uids := slices.Sorted(maps.Keys(w.live[k])); len(uids) > 0 {
		uid := uids[w.random.IntN(len(uids))]
		m := w.live[k][uid]
		w.serial++
		if w.random.IntN(10) == 0 && k != policies {
			delete(w.live[k], uid)
			if w.random.IntN(4) > 0 {
				before := w.stamps()
				w.drop(k, uid, w.now)
				w.expect(before)
			}
			return
		}
		m = m.DeepCopy()
		m.ResourceVersion, m.Generation = fmt.Sprint("v", w.serial), m.Generation+int64(w.random.IntN(2))
		w.live[k][uid] = m
		if w.random.IntN(4) > 0 {
			before := w.stamps()
			w.put(of(k, m), w.now)
			w.expect(before)
		}
		return
	}
}

// begin takes what is due, and checks that it may.
func (w *world) begin() {
	for len(w.open) < 8 {
		look, _, ok := w.take(w.now)
		if !ok {
			return
		}
		w.looks++
		if _, twice := w.open[look.key]; twice {
			w.t.Fatalf("two looks at %v at the same time", look.key)
		}
		if last, before := w.ended[look.key]; before && w.now.Sub(last) < gap {
			w.t.Fatalf("a look at %v %s after the last", look.key, w.now.Sub(last))
		}
		if look.ref.UID != look.key.uid || look.ref.GatewayID != gateway || look.ref.Name == "" || look.ref.SandboxID == "" {
			w.t.Fatalf("a look at %+v", look.ref)
		}
		if box := w.live[boxes][look.key.uid]; box != nil && box.Labels[workspace.LabelGatewayID] != gateway {
			w.t.Fatalf("a look at another gateway's %v", look.key)
		}
		w.open[look.key] = look
		delete(w.told, look.key)
	}
}

// end ends some of the looks, in one of the ways.
func (w *world) end(calm bool) {
	keys := slices.SortedFunc(maps.Keys(w.open), func(a, b key) int { return strings.Compare(a.uid, b.uid) })
	for _, k := range keys {
		look := w.open[k]
		if !calm && w.random.IntN(2) == 0 {
			continue
		}
		f := finding{ending: settled}
		if !calm {
			f.ending = ending(1 + w.random.IntN(int(busy)))
		}
		if box := w.live[boxes][k.uid]; box != nil {
			f.live = &sandboxapi.Object{Sandbox: sandboxapi.Sandbox{UID: k.uid, Annotations: box.Annotations}, ResourceVersion: box.ResourceVersion}
		}
		w.done(look, &f, w.now)
		w.ended[k] = w.now
		delete(w.open, k)
		if (f.ending == failed || f.ending == busy) && w.entries()[k] != nil {
			w.told[k] = w.now // nothing was found out: there must be another one
		}
	}
}

// TestSchedules: whatever happens and however it is told, no change that is told is forgotten, and no sandbox is looked at by two.
func TestSchedules(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed, 25)
		for k := range kinds {
			w.tell(k)
		}
		for range 800 {
			switch w.random.IntN(12) {
			case 0, 1, 2:
				w.happen()
			case 3:
				w.tell(kind(w.random.IntN(int(kinds))))
			case 4:
				w.health(kind(w.random.IntN(int(kinds))), w.random.IntN(2) == 0)
			default:
			}
			w.begin()
			w.end(false)
			w.pass(time.Duration(w.random.IntN(3000)) * time.Millisecond)
			for k, since := range w.told {
				// A minute is the longest pause after a failure.
				if e := w.entries()[k]; e != nil && e.ours && !e.working && (e.box != nil || len(e.parts) > 0) && w.now.Sub(since) > 3*time.Minute {
					t.Fatalf("seed %d: %v was changed %s ago and is not looked at: %+v", seed, k, w.now.Sub(since), e)
				}
			}
		}
		// What was not told is found by the next list, and then all rests.
		for k := range kinds {
			w.health(k, true)
			w.tell(k)
		}
		for end := w.now.Add(3 * time.Minute); w.now.Before(end); w.pass(100 * time.Millisecond) {
			w.begin()
			w.end(true)
		}
		left := w.entries()
		for k := range w.told {
			if e := left[k]; e != nil { // of one of which all has gone meanwhile there is nothing to look at
				t.Errorf("seed %d: %v was not looked at: %+v", seed, k, e)
			}
		}
		known := map[string]bool{}
		for uid := range w.live[boxes] {
			known[uid] = true
		}
		for _, k := range []kind{pods, services} {
			for _, m := range w.live[k] {
				known[string(m.OwnerReferences[0].UID)] = true
			}
		}
		for k := range w.entries() {
			if !known[k.uid] {
				t.Errorf("seed %d: %v is still known", seed, k)
			}
		}
	}
}

// TestSteadyState: a thousand settled sandboxes cost no more than one full look each in the time for it, also at the begin, and the
// looks are spread.
func TestSteadyState(t *testing.T) {
	const n = 1000
	w := newWorld(t, 1, 0)
	for i := range n {
		box := boxMeta(i, ready(i))
		if i%2 == 0 {
			box.Annotations = running().Stopped().Annotations()
		} else {
			for _, pod := range []*metav1.PartialObjectMetadata{supervisorMeta(i, box), workloadMeta(i, box)} {
				w.live[pods][string(pod.UID)] = pod
			}
			service := serviceMeta(i, box)
			w.live[services][string(service.UID)] = service
		}
		w.live[boxes][string(box.UID)] = box
	}
	for k := range kinds {
		w.tell(k)
	}
	if len(w.calm) != n {
		t.Fatalf("%d of %d can wait", len(w.calm), n)
	}
	minute := func() int {
		before := w.looks
		for end := w.now.Add(time.Minute); w.now.Before(end); w.pass(50 * time.Millisecond) {
			w.begin()
			w.end(true)
			if w.random.IntN(1000) == 0 {
				w.tell(kind(w.random.IntN(int(kinds)))) // nothing has changed
			}
		}
		return w.looks - before
	}
	for m := range 60 {
		if got, most := minute(), 60*DefaultSettings().Rate; got > most {
			t.Errorf("minute %d: %d looks, want at most %d", m, got, most)
		}
	}
	if most := n + n*60*4/(10*3); w.looks > most {
		t.Errorf("%d looks in an hour, want at most %d", w.looks, most)
	}
	if least := n * 60 / 10; w.looks < least {
		t.Errorf("%d looks in an hour: full looks are left out, want at least %d", w.looks, least)
	}
	for k, e := range w.entries() {
		if w.now.Sub(e.last) > 11*time.Minute {
			t.Errorf("%v was not looked at for %s", k, w.now.Sub(e.last))
		}
	}
}

// TestAStartThatMakesNoProgress is looked at between 40 and 41 s after its last progress, whatever else happens meanwhile.
func TestAStartThatMakesNoProgress(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 2))
		box := boxMeta(1, preparing())
		b := newBench(t, map[kind][]*metav1.PartialObjectMetadata{boxes: {box}})
		progress, looked := b.now, time.Time{}
		for i := 0; looked.IsZero(); i++ {
			b.pass(time.Duration(random.IntN(900)) * time.Millisecond)
			if _, _, ok := b.take(b.now); ok {
				looked = b.now
				break
			}
			box = next(box, func(m *metav1.PartialObjectMetadata) {
				m.ResourceVersion = fmt.Sprint(i)
				if i < 20 && random.IntN(3) == 0 {
					record := preparing()
					record.Attempt = fmt.Sprint(i)
					m.Annotations, progress = record.Annotations(), b.now
				}
			})
			b.see(boxes, box)
		}
		if idle := looked.Sub(progress); idle < abandonedAfter || idle > abandonedAfter+time.Second {
			t.Errorf("seed %d: looked at after %s", seed, idle)
		}
	}
}
