package observe

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/progress"
	"github.com/portcullis-mesh/portcullis/services/lifecycle/internal/snapshot"
)

// resource is the server's side of one resource: its state, and all that has happened to it.
type resource[T any] struct {
	live    map[string]Item[T]
	history []Change[T]
	// told is how much of the history the core was told.
	told int
}

func newResource[T any]() *resource[T] { return &resource[T]{live: map[string]Item[T]{}} }

func (r *resource[T]) put(i Item[T]) {
	r.live[i.UID] = i
	r.history = append(r.history, put(i))
}

func (r *resource[T]) drop(uid string, version uint64) {
	delete(r.live, uid)
	r.history = append(r.history, dropped[T](uid, version))
}

func (r *resource[T]) list(version uint64) Listing[T] {
	l := Listing[T]{Version: version}
	for _, uid := range slices.Sorted(maps.Keys(r.live)) {
		l.Items = append(l.Items, r.live[uid])
	}
	rand.Shuffle(len(l.Items), func(i, j int) { l.Items[i], l.Items[j] = l.Items[j], l.Items[i] })
	r.told = len(r.history)
	return l
}

// listener is a caller with what it has understood.
type listener struct {
	*caller
	slow bool
	view map[string]*computev1.DriverSandbox
	// last is the highest mark that it was told of an id, and buried that of before the last deletion.
	last, buried map[string]int
	deletions    map[string]int
	// base is what had vanished before it joined.
	base map[string]int
}

// world is a cluster whose changes reach the core late, twice, by lists, and in any order between resources.
type world struct {
	t       *testing.T
	random  *rand.Rand
	core    *core
	version uint64
	mark    int
	serial  int
	boxes   *resource[snapshot.Sandbox]
	pods    *resource[snapshot.Pod]
	events  *resource[progress.Event]

	// known is what the core was told of Sandboxes, kept by the plainest rules: uid to item. vanished counts, by id, how often an
	// object went that had been told of, known at the latest when another is told of.
	known    map[string]Item[snapshot.Sandbox]
	shown    map[string]string // the uid that was told of, by id
	vanished map[string]int

	listeners []*listener
	resets    int
	stats     map[string]int
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 3)), core: listedCore(t), version: 1,
		boxes: newResource[snapshot.Sandbox](), pods: newResource[snapshot.Pod](), events: newResource[progress.Event](),
		known: map[string]Item[snapshot.Sandbox]{}, shown: map[string]string{}, vanished: map[string]int{}, stats: map[string]int{},
	}
	for range 2 {
		w.join(false)
	}
	w.join(true)
	return w
}

func (w *world) join(slow bool) {
	l := &listener{
		caller: newCaller(12), slow: slow, view: map[string]*computev1.DriverSandbox{}, last: map[string]int{}, buried: map[string]int{},
		deletions: map[string]int{}, base: maps.Clone(w.vanished),
	}
	w.core.join(l.caller)
	w.listeners = append(w.listeners, l)
}

func (w *world) next() uint64 { w.version++; return w.version }

func one[K comparable, V any](w *world, m map[K]V, less func(a, b K) int) (k K, ok bool) {
	if len(m) == 0 {
		return k, false
	}
	return slices.SortedFunc(maps.Keys(m), less)[w.random.IntN(len(m))], true
}

func byText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// happen changes the cluster.
func (w *world) happen() {
	switch n := w.random.IntN(20); {
	case n < 4: // made, now and then under an id that is taken
		w.serial++
		uid := fmt.Sprint("u", w.serial)
		id := fmt.Sprint("id", w.random.IntN(6))
		if w.random.IntN(8) > 0 {
			for _, b := range w.boxes.live {
				if b.Value.ID == id {
					return
				}
			}
		}
		w.mark++
		w.boxes.put(boxItem(uid, id, w.next(), w.mark))
		for _, supervisor := range []bool{false, true} {
			w.pods.put(podItem(uid, w.next(), supervisor, w.random.IntN(2) == 0))
		}
	case n < 10:
		if uid, ok := one(w, w.boxes.live, byText); ok {
			w.mark++
			i := boxItem(uid, w.boxes.live[uid].Value.ID, w.next(), w.mark)
			if w.random.IntN(12) == 0 { // it cannot be read for a while
				i = Item[snapshot.Sandbox]{UID: uid, Version: i.Version, Problem: snapshot.ErrMalformed}
				i.Value.ID = w.boxes.live[uid].Value.ID
			}
			w.boxes.put(i)
		}
	case n < 12:
		if uid, ok := one(w, w.boxes.live, byText); ok {
			w.boxes.drop(uid, w.next())
		}
	case n < 15:
		if uid, ok := one(w, w.pods.live, byText); ok {
			p := w.pods.live[uid]
			p.Version, p.Value.Ready = w.next(), w.random.IntN(2) == 0
			w.pods.put(p)
		}
	case n < 16:
		if uid, ok := one(w, w.pods.live, byText); ok {
			w.pods.drop(uid, w.next())
		}
	default:
		uid, ok := one(w, w.pods.live, byText)
		if !ok {
			return
		}
		e := "e" + uid + fmt.Sprint(w.random.IntN(2))
		count := int32(1)
		if former, known := w.events.live[e]; known {
			count = former.Value.Count + 1
		}
		w.events.put(eventItem(e, uid, w.next(), count))
	}
}

// deliver tells the core the next thing that happened to a resource, and sometimes one before it again.
func deliver[T any](w *world, r *resource[T], change func(Change[T]), learn func(Change[T])) {
	if r.told > 0 && w.random.IntN(6) == 0 {
		w.stats["again"]++
		change(r.history[w.random.IntN(r.told)])
	}
	if r.told == len(r.history) {
		return
	}
	ch := r.history[r.told]
	r.told++
	learn(ch)
	change(ch)
}

// learn keeps known, and counts what went.
func (w *world) learn(ch Change[snapshot.Sandbox]) {
	switch former, had := w.known[ch.UID]; {
	case ch.Form == Dropped && had:
		delete(w.known, ch.UID)
		w.count(former.Value.ID)
	case ch.Form == Put && (had || ch.Problem == nil):
		i := ch.Item
		if i.Problem != nil {
			i.Value = former.Value
		}
		w.known[ch.UID] = i
	}
	w.show()
}

// show notes what was told of: of each id with one object that can be read, that one.
func (w *world) show() {
	objects := map[string][]Item[snapshot.Sandbox]{}
	for _, i := range w.known {
		objects[i.Value.ID] = append(objects[i.Value.ID], i)
	}
	for id, all := range objects {
		if len(all) == 1 && all[0].Problem == nil {
			if former := w.shown[id]; former != "" && former != all[0].UID {
				w.vanished[id]++
				w.stats["replaced"]++
			}
			w.shown[id] = all[0].UID
		}
	}
}

func (w *world) count(id string) {
	for _, i := range w.known {
		if i.Value.ID == id {
			return
		}
	}
	if w.shown[id] != "" {
		w.vanished[id]++
		delete(w.shown, id)
	}
}

// relist gives the core a list: the present one, or one that is older than what it has seen.
func (w *world) relist() {
	switch w.random.IntN(5) {
	case 0:
		version := w.next()
		list := w.boxes.list(version)
		there := map[string]struct{}{}
		for _, i := range list.Items {
			there[i.UID] = struct{}{}
		}
		for _, uid := range missing(w.known, there) {
			w.learn(dropped[snapshot.Sandbox](uid, version))
		}
		// The world learns the list as a whole, as the core does.
		for _, i := range list.Items {
			former, had := w.known[i.UID]
			if i.Problem != nil && !had {
				continue
			}
			if i.Problem != nil {
				i.Value = former.Value
			}
			w.known[i.UID] = i
		}
		must(w.t, w.core.replaceBoxes(list))
		// In the middle of a list an id may have one object for a moment.
		for id, e := range w.core.ids {
			if e.told != nil {
				w.shown[id] = e.of
			}
		}
		w.show()
		w.stats["relists"]++
	case 1:
		must(w.t, w.core.replacePods(w.pods.list(w.next())))
	case 2:
		must(w.t, w.core.replaceEvents(w.events.list(w.next())))
	default:
		if w.core.newest[boxes] < 2 {
			return
		}
		if err := w.core.replaceBoxes(Listing[snapshot.Sandbox]{Version: w.core.newest[boxes] - 1}); !errors.Is(err, errOlder) {
			w.t.Fatalf("a list of the past: %v", err)
		}
		w.stats["refused"]++
	}
}

// take gives a listener some of what it is owed.
func (w *world) take(l *listener, n int) {
	for range n {
		m := w.core.next(l.caller)
		if m == nil {
			return
		}
		w.hear(l, m)
	}
}

func (w *world) hear(l *listener, m *computev1.WatchSandboxesEvent) {
	switch {
	case m.GetSandbox() != nil:
		d := m.GetSandbox().GetSandbox()
		id, mark := d.GetId(), markOf(d)
		if mark < l.last[id] {
			w.t.Fatalf("%s: state %d after state %d", id, mark, l.last[id])
		}
		if mark <= l.buried[id] {
			w.t.Fatalf("%s: state %d comes back after a deletion that came after state %d", id, mark, l.buried[id])
		}
		l.last[id], l.view[id] = mark, d
	case m.GetDeleted() != nil:
		id := m.GetDeleted().GetSandboxId()
		l.deletions[id]++
		l.buried[id] = l.last[id]
		delete(l.view, id)
	default: // events have a test of their own
	}
}

func (w *world) step() {
	switch n := w.random.IntN(25); {
	case n < 7:
		w.happen()
	case n == 24:
		w.follow(w.random.IntN(3) > 0)
	case n < 11:
		deliver(w, w.boxes, w.core.changeBox, w.learn)
	case n < 14:
		deliver(w, w.pods, w.core.changePod, func(Change[snapshot.Pod]) {})
	case n < 17:
		deliver(w, w.events, w.core.changeEvent, func(Change[progress.Event]) {})
	case n < 18:
		w.relist()
	case n < 19:
		w.core.republish()
	case n < 20 && len(w.listeners) < 6:
		w.join(w.random.IntN(2) == 0)
	default:
		for _, l := range w.listeners {
			if !l.slow || w.random.IntN(40) == 0 {
				w.take(l, 1+w.random.IntN(4))
			}
		}
	}
	w.listeners = slices.DeleteFunc(w.listeners, func(l *listener) bool {
		if l.failed == nil {
			return false
		}
		w.resets++
		if !errors.Is(l.failed, ErrBehind) || w.core.next(l.caller) != nil {
			w.t.Fatalf("a stream that was reset goes on: %v", l.failed)
		}
		return true
	})
}

// settle tells the core everything, and every listener all that it is owed.
func (w *world) settle() {
	w.follow(true)
	for w.boxes.told < len(w.boxes.history) || w.pods.told < len(w.pods.history) || w.events.told < len(w.events.history) {
		deliver(w, w.pods, w.core.changePod, func(Change[snapshot.Pod]) {})
		deliver(w, w.boxes, w.core.changeBox, w.learn)
		deliver(w, w.events, w.core.changeEvent, func(Change[progress.Event]) {})
		for _, l := range w.listeners {
			w.take(l, 1<<20)
		}
	}
	for _, l := range w.listeners {
		w.take(l, 1<<20)
	}
}

// want is what each id must be at the end, made of the cluster's own state.
func (w *world) want() (state map[string]*computev1.DriverSandbox, unclear map[string]bool) {
	state, unclear = map[string]*computev1.DriverSandbox{}, map[string]bool{}
	for _, uid := range slices.Sorted(maps.Keys(w.boxes.live)) {
		b := w.boxes.live[uid]
		id := b.Value.ID
		if b.Problem != nil || state[id] != nil || unclear[id] {
			unclear[id] = true
			delete(state, id)
			continue
		}
		var p snapshot.Pods
		p.Known = true
		for _, supervisor := range []bool{false, true} {
			if i, ok := w.pods.live[podItem(uid, 0, supervisor, false).UID]; ok && supervisor {
				p.Supervisor = &i.Value
			} else if ok {
				p.Workload = &i.Value
			}
		}
		state[id] = snapshot.Render(&b.Value, p)
	}
	return state, unclear
}

func (w *world) check() {
	w.settle()
	state, unclear := w.want()
	for n, l := range w.listeners {
		if l.failed != nil {
			continue
		}
		for id, d := range state {
			if !proto.Equal(l.view[id], d) {
				w.t.Fatalf("listener %d ends with %v of %s, want %v", n, l.view[id], id, d)
			}
		}
		for id := range l.view {
			if state[id] == nil && !unclear[id] {
				w.t.Fatalf("listener %d does not know that %s is gone", n, id)
			}
		}
		for id, count := range w.vanished {
			if got := l.deletions[id]; got != count-l.base[id] {
				w.t.Fatalf("listener %d was told %d times that %s is gone, and it went %d times", n, got, id, count-l.base[id])
			}
			w.stats["deletions"] += l.deletions[id]
		}
	}
}

// TestAnyHistory: order, no loss, no resurrection, deletions once, and the same end for all, whatever happens and however it is told.
func TestAnyHistory(t *testing.T) {
	stats, resets := map[string]int{}, 0
	for seed := range uint64(40) {
		w := newWorld(t, seed)
		for n := range 600 {
			w.step()
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, n)
			}
		}
		w.check()
		resets += w.resets
		for name, n := range w.stats {
			stats[name] += n
		}
	}
	for _, name := range []string{"again", "relists", "refused", "deletions", "replaced", "blinded", "seen again"} {
		if stats[name] < 20 {
			t.Errorf("%s happened only %d times: %v", name, stats[name], stats)
		}
	}
	if resets < 5 {
		t.Errorf("only %d streams were reset", resets)
	}
}
