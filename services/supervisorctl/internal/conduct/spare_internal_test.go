package conduct

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// tally counts the reads since the last tally.
func (w *world) tally() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]int{}
	for _, read := range w.asked {
		all[read]++
	}
	w.asked = nil
	return all
}

// TestWhatAProvisionReads: before each of the Secrets and the gates what they rest on, and besides little. Whoever adds a read to each create
// should mean to.
func TestWhatAProvisionReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		s := newSite(t, w)
		w.tells = func(context.Context, string, string) error { return nil } // at once
		s.do(s.goal(plan.Provision))
		want := map[string]int{
			"policy openshell-sandbox-workloads":   4, // at first, before the Secrets, before each gate
			"policy openshell-sandbox-supervisors": 4,
			"sandbox " + boxName:                   3, // at first, with its workload, before the Secrets
			"pod " + boxName:                       2, // when it came, before the Secrets
			"pod " + supervisorPod:                 1, // before the Secrets
			"service " + boundary:                  1, // likewise
			"namespace " + namespace:               1,
		}
		if diff := cmp.Diff(want, w.tally()); diff != "" {
			t.Errorf("the first in a namespace (-want +got):\n%s", diff)
		}
		s.do(s.goal(plan.Remove))
		w.change(func(w *world) { w.box = fresh() })
		w.tally()
		s.do(s.goal(plan.Provision))
		delete(want, "namespace "+namespace) // which its fence proves
		if diff := cmp.Diff(want, w.tally()); diff != "" {
			t.Errorf("another one (-want +got):\n%s", diff)
		}
		s.do(s.goal(plan.Provision))
		if again := w.tally(); again["pod "+boxName] != 1 || again["service "+boundary] != 1 || again["pod "+supervisorPod] != 1 {
			t.Errorf("one that stands is looked at whole: %v", again)
		}
	})
}

// TestWhatIsThereAlreadyIsSeen: a new Sandbox is not looked for what cannot be there. If it is all the same it is found before anything rests
// on it, and never taken over or removed.
func TestWhatIsThereAlreadyIsSeen(t *testing.T) {
	for name, put := range map[string]func(w *world){
		"a Service of another run":  func(w *world) { w.services[boundary].Spec.ClusterIP = "None" },
		"a supervisor of ours":      func(*world) {},
		"a workload without a gate": func(w *world) { w.pods[boxName].Spec.SchedulingGates = nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(fresh())
				former := newSite(t, w)
				former.do(former.goal(plan.Provision))
				// Somebody has written over the record, so that it is that of a create that nobody has begun.
				w.change(func(w *world) {
					box := fresh()
					w.box.Annotations, w.box.Mode, w.box.ResourceVersion = box.Annotations, sandboxapi.Suspended, w.next()
					put(w)
				})
				before := len(w.done())
				s := newSite(t, w)
				out, err := s.Do(t.Context(), s.goal(plan.Provision))
				if err != nil || out.Step.Action == plan.Done {
					t.Errorf("%v, %+v", err, out.Step)
				}
				for _, write := range w.done()[before:] {
					if strings.HasPrefix(write, "ungate") || strings.HasPrefix(write, "create secret") {
						t.Errorf("%v", w.done()[before:])
					}
				}
			})
		})
	}
}

// TestAStatusIsInNobodysWay: what the controller writes of the status while a start goes on costs it no write; whatever else is written is
// noticed, as is a status where a step rests on it.
func TestAStatusIsInNobodysWay(t *testing.T) {
	starts := func(write string) bool {
		return strings.HasPrefix(write, "change sandbox to preparing") || write == "change sandbox to released"
	}
	// tries counts how often writes to the Sandbox were tried, each of which comes after one by somebody else.
	tries := func(w *world, which func(string) bool, by func(w *world)) *int {
		tried, last := 0, ""
		w.before = func(write string) error {
			if which(write) {
				tried++
				if write != last {
					w.change(by)
				}
				last = write
			}
			return nil
		}
		return &tried
	}
	status := func(w *world) { w.say(sandboxapi.ConditionReady, false, "not yet") }
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		s := newSite(t, w)
		tried := tries(w, starts, status)
		s.do(s.goal(plan.Provision))
		s.whole()
		if *tried != 3 {
			t.Errorf("%d tries of three writes", *tried)
		}
		tried = tries(w, func(write string) bool { return strings.HasPrefix(write, "change sandbox") }, status)
		s.do(s.goal(plan.Release))
		if *tried <= 3 {
			t.Errorf("a stop rests on the status, and wrote %d times", *tried)
		}
		s.bare()
	})
	for name, by := range map[string]func(w *world){
		"an annotation": func(w *world) { w.box.Annotations["other"], w.box.ResourceVersion = w.next(), w.next() },
		"a label":       func(w *world) { w.box.Labels["other"], w.box.ResourceVersion = w.next(), w.next() },
		"the spec":      func(w *world) { w.box.Generation, w.box.ResourceVersion = w.box.Generation+1, w.next() },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(fresh())
			s := newSite(t, w)
			tried := tries(w, starts, by)
			s.do(s.goal(plan.Provision))
			if *tried != 6 {
				t.Errorf("%s: %d tries of three writes, of which each had to be made again", name, *tried)
			}
		})
	}
}

// TestHomes: the uid of a namespace is that of the namespace in which the fence was seen, whatever has become of its name since.
func TestHomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		s := newSite(t, w)
		// raised says how often the namespace was read for a run, whose Secrets must name it.
		raised := func() int {
			t.Helper()
			w.change(func(w *world) { w.box = fresh() })
			w.tally()
			s.do(s.goal(plan.Provision))
			w.change(func(w *world) {
				named := false
				for _, secret := range w.secrets {
					for _, file := range secret.Data {
						named = named || bytes.Contains(file, []byte(`"`+w.home+`"`))
					}
				}
				if !named {
					t.Errorf("no Secret names the namespace %s", w.home)
				}
			})
			read := w.tally()
			s.do(s.goal(plan.Remove))
			return read["namespace "+namespace]
		}
		for n, want := range [...]int{1, 0} {
			if read := raised(); read != want {
				t.Errorf("for run %d the namespace was read %d times", n+1, read)
			}
		}
		w.change(func(w *world) {
			w.home = "uid-of-the-next"
			clear(w.policies) // they went with the former one
		})
		if read := raised(); read != 1 {
			t.Errorf("another namespace has the name, and was read %d times", read)
		}
		// The fence is made anew while a start goes on, so that what was read of the namespace before proves nothing.
		w.after = at("change sandbox to preparing, Running", func(string) error {
			w.change(func(w *world) {
				p := w.policies["openshell-sandbox-workloads"].DeepCopy()
				w.stamp(&p.ObjectMeta)
				w.policies[p.Name], w.home = p, "uid-of-a-third"
			})
			return nil
		})
		raised()
	})
	h := newHomes()
	h.learn("team", home{namespace: "n", fence: "f"})
	for name, tc := range map[string]struct{ namespace, fence, want string }{
		"known": {"team", "f", "n"}, "another fence": {"team", "g", ""}, "another name": {"other", "f", ""}, "no fence": {"team", "", ""},
	} {
		if got := h.of(tc.namespace, tc.fence).namespace; got != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	for i := range mostHomes + 10 {
		h.learn(strconv.Itoa(i), home{namespace: "n", fence: "f"})
	}
	if len(h.seen) > mostHomes {
		t.Errorf("%d are kept", len(h.seen))
	}
}
