package reconcile

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/conduct"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// webMeta is a policy of somebody else.
func webMeta() *metav1.PartialObjectMetadata {
	m := meta("NetworkPolicy", "web", "uid-web", nil, nil)
	m.APIVersion = "networking.k8s.io/v1"
	return m
}

// TestAPolicyOfSomebodyElse is looked at when what it says changes, without hurry, at every sandbox of its namespace; and never instead of what
// a sandbox needs.
func TestAPolicyOfSomebodyElse(t *testing.T) {
	edit := func(m *metav1.PartialObjectMetadata) { m.Generation++ }
	b, _, supervisor, _, _ := healthy(t)
	settle := func() {
		t.Helper()
		b.ends(b.wants(), settled)
		b.pass(2 * gap)
	}
	settle()
	web := webMeta()
	b.see(policies, web)
	settle()
	web = next(web, func(m *metav1.PartialObjectMetadata) { m.Annotations = map[string]string{"a": "b"} })
	b.see(policies, web)
	if _, _, ok := b.take(b.now); ok {
		t.Error("a look for an annotation")
	}
	web = next(web, edit)
	b.see(policies, web)
	e := b.spaces[ns]["uid-1"]
	if !e.calm || !e.distant {
		t.Errorf("it is in a hurry: %+v", e)
	}
	b.see(pods, next(supervisor, pickUp))
	if e.calm {
		t.Error("a change of its own waits for the rate of the others")
	}
	look := b.wants()
	b.see(policies, next(web, edit))
	b.ends(look, settled)
	b.pass(2 * gap)
	settle()
	b.drop(policies, "uid-web", b.now)
	settle()
	elsewhere := webMeta()
	elsewhere.Namespace, elsewhere.UID = "elsewhere", "uid-elsewhere"
	b.see(policies, elsewhere)
	if _, _, ok := b.take(b.now); ok {
		t.Error("a look for a policy of another namespace")
	}
	// One that waits for a person or for time anyway is looked at in its time.
	b.see(pods, next(next(supervisor, pickUp), pickUp))
	b.ends(b.wants(), refused)
	again := e.again
	b.pass(2 * gap)
	b.see(policies, next(web, func(m *metav1.PartialObjectMetadata) { m.Generation += 9 }))
	b.rests(again - 2*gap)
}

// TestAFenceWithoutLabels: a policy that has the fence's name is the fence's matter, whatever its labels say.
func TestAFenceWithoutLabels(t *testing.T) {
	b, _, _, _, _ := healthy(t)
	b.ends(b.wants(), settled)
	b.pass(2 * gap)
	bare := next(fenceMeta(), func(m *metav1.PartialObjectMetadata) { m.Labels = nil })
	b.see(policies, bare)
	if e := b.spaces[ns]["uid-1"]; e.calm || e.distant {
		t.Errorf("%+v", e)
	}
	b.wants()
}

// TestReopenedIsToldOnce: for each policy of a namespace when it opens the first fence and when it opens none any more, and how many there
// are, always.
func TestReopenedIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, driverconf.ModeShared, team(3)...)
		answer := func(known bool, names ...string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.answer = func(goal conduct.Goal) (conduct.Outcome, error) {
				out := outcome(plan.Step{Action: plan.Done}, ready(0))
				var all []plan.Opening
				for _, name := range names {
					all = append(all, plan.Opening{Policy: name, UID: "uid-" + name, Opens: "NetworkPolicy " + name + " opens egress to anywhere"})
				}
				if known {
					out.Facts.Openings = plan.Found(all)
				}
				return out, nil
			}
		}
		expect := func(what string, lines int, sandboxes, policies float64) {
			t.Helper()
			said := s.log.String()
			s.log.Reset()
			if strings.Count(said, "\n") != lines || lines > 0 && (!strings.Contains(said, "fence_reopened") || !strings.Contains(said, `"policy":"web"`)) {
				t.Errorf("%s: it says %s", what, said)
			}
			if a, b := s.metric("portcullis_supervisorctl_reconcile_reopened_sandboxes", ""), s.metric("portcullis_supervisorctl_reconcile_reopening_policies", ""); a != sandboxes || b != policies {
				t.Errorf("%s: %v sandboxes, %v policies", what, a, b)
			}
		}
		web := webMeta()
		change := func() {
			web = next(web, func(m *metav1.PartialObjectMetadata) { m.Generation++ })
			s.put(web)
			passes(time.Minute)
		}
		answer(true)
		s.term(func() {
			passes(time.Minute)
			expect("nothing", 0, 0, 0)
			answer(true, "web")
			change()
			expect("opened", 1, 3, 1)
			change()
			expect("still", 0, 3, 1)
			answer(false)
			change()
			expect("not known", 0, 3, 1)
			s.remove(boxMeta(0, ready(0)))
			answer(true, "web")
			passes(time.Minute)
			answer(true)
			change()
			expect("closed", 1, 0, 0)
			answer(true, "web")
			change()
			expect("opened again", 1, 3, 1)
			answer(false)
			for i, m := range team(3)[2:] { // behind the fence
				if i > 0 { // the first Sandbox went before
					s.remove(m)
				}
			}
			passes(time.Minute)
			expect("closed, since nobody is left", 1, 0, 0)
		})
	})
}

// TestASandboxThatGoesOpensNothing: what is counted of it goes with it.
func TestASandboxThatGoesOpensNothing(t *testing.T) {
	b, box, supervisor, workload, service := healthy(t)
	look := b.wants()
	b.inspect(&look, &finding{inspected: true, openings: []plan.Opening{{Policy: "web"}}})
	if len(b.heard) != 1 || len(b.heard[0].opened) != 1 || b.census().reopened != 1 || b.census().reopening != 1 {
		t.Errorf("%v, %+v", b.heard, b.census())
	}
	b.heard = nil
	b.ends(look, settled)
	for _, m := range []*metav1.PartialObjectMetadata{supervisor, workload} {
		b.drop(pods, string(m.UID), b.now)
	}
	b.drop(services, string(service.UID), b.now)
	b.drop(boxes, string(box.UID), b.now)
	if s := b.census(); s.reopened != 0 || s.reopening != 0 || len(b.opened) != 0 {
		t.Errorf("%+v, %v", s, b.opened)
	}
	if len(b.heard) != 1 || len(b.heard[0].closed) != 1 || b.heard[0].closed[0] != "web" || b.heard[0].namespace != ns {
		t.Errorf("it is not told: %+v", b.heard)
	}
}

// TestNamesOfPoliciesAreKeptOnce: a thousand of them, of a thousand sandboxes, cost each sandbox a pointer, and what they open costs nothing.
func TestNamesOfPoliciesAreKeptOnce(t *testing.T) {
	l := newLedger("blue", pace{}, func() float64 { return 0 })
	for box := range 100 {
		e := l.entry(key{ns, fmt.Sprint(box)})
		var all []plan.Opening
		for n := range 1000 {
			all = append(all, plan.Opening{Policy: fmt.Sprint("policy-", n), Opens: strings.Repeat("x", 500)})
		}
		l.reopen(e, all)
	}
	if len(l.opened) != 1000 || len(l.heard) != 1 || len(l.heard[0].opened) != 1000 {
		t.Errorf("%d policies, told %d times", len(l.opened), len(l.heard))
	}
	for i := range l.spaces[ns]["0"].openers {
		if l.spaces[ns]["0"].openers[i] != l.spaces[ns]["99"].openers[i] {
			t.Fatal("one policy is kept twice")
		}
	}
}

// TestManyOpeningsAreFewLines in the log: the first ones by name, and how many there are more.
func TestManyOpeningsAreFewLines(t *testing.T) {
	var log bytes.Buffer
	r, err := newReporter(zerolog.New(&log), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	n := news{namespace: ns}
	for i := range 100 {
		n.opened = append(n.opened, plan.Opening{Policy: fmt.Sprint("web-", i), Opens: "all"})
		n.closed = append(n.closed, fmt.Sprint("former-", i))
	}
	r.reopened(&n)
	if said := log.String(); strings.Count(said, "\n") != 2*(mostLines+1) || strings.Count(said, `"more":84`) != 2 {
		t.Errorf("%s", said)
	}
}
