package conduct

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// silent is a watch that says nothing, and soon one that does once its channel is closed.
func silent(ctx context.Context, _, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

func soon(changed <-chan struct{}) func(context.Context, string, string) error {
	return func(ctx context.Context, _, _ string) error {
		select {
		case <-changed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestAWatchTells when the workload is there; whatever it says or does not say, the workload is found, and only a little later.
func TestAWatchTells(t *testing.T) {
	const comes = 10*time.Second + 123*time.Millisecond
	for name, tc := range map[string]struct {
		tells func(changed <-chan struct{}) func(context.Context, string, string) error
		late  time.Duration
		reads int
	}{
		"it tells": {soon, 0, 80},
		"it tells too early": {func(<-chan struct{}) func(context.Context, string, string) error {
			return func(context.Context, string, string) error { return nil }
		}, longest, 200},
		"it says nothing": {func(<-chan struct{}) func(context.Context, string, string) error { return silent }, unasked, 80},
		"it ends": {func(<-chan struct{}) func(context.Context, string, string) error {
			return func(ctx context.Context, _, _ string) error {
				if !sleep(ctx, 5*time.Second) {
					return ctx.Err()
				}
				return errors.New("it was ended")
			}
		}, longest, 160},
		"there is none": {func(<-chan struct{}) func(context.Context, string, string) error { return nil }, longest, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, changed := newWorld(fresh()), make(chan struct{})
				w.idle, w.tells = true, tc.tells(changed)
				s := newSite(t, w)
				go func() {
					time.Sleep(comes)
					w.change(func(w *world) { w.idle = false; w.reconcile() })
					close(changed)
				}()
				began := time.Now()
				s.do(s.goal(plan.Provision))
				if late := time.Since(began) - comes; late < 0 || late > tc.late {
					t.Errorf("%s later of the world's time", late)
				}
				if w.reads > tc.reads {
					t.Errorf("%d reads", w.reads)
				}
				s.whole()
			})
		})
	}
}

// TestAWatchBeginsWithWhatWasSeen: of a Pod that is not there with none, and of one that is with its version.
func TestAWatchBeginsWithWhatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		var asked []string
		w.tells = func(ctx context.Context, name, version string) error {
			w.change(func(w *world) { asked = append(asked, name+" at "+version) })
			return silent(ctx, name, version)
		}
		s := newSite(t, w)
		resumed(w, func(*world) {})
		go func() {
			time.Sleep(time.Second)
			w.change(func(w *world) { w.idle = false; w.reconcile() })
		}()
		s.do(s.goal(plan.Provision))
		w.change(func(w *world) { w.lingers = true })
		go func() {
			time.Sleep(time.Second)
			w.change(func(w *world) { w.lingers = false; w.end(supervisorPod) })
		}()
		s.do(s.goal(plan.Release))
		var names []string
		for n, a := range asked {
			name, version, _ := strings.Cut(a, " at ")
			names = append(names, name)
			if (version == "") != (n == 0) {
				t.Errorf("%q", a)
			}
		}
		if diff := cmp.Diff([]string{boxName, supervisorPod, boxName}, names); diff != "" {
			t.Errorf("awaited (-want +got):\n%s", diff)
		}
	})
}

// TestAWatchThatLies keeps nobody waiting for what does not come, nor anybody from being told why.
func TestAWatchThatLies(t *testing.T) {
	for name, tc := range map[string]struct{ message, reason string }{
		"missing": {"", string(plan.WorkloadMissing)}, "refused": {"exceeded quota", string(plan.WorkloadRefused)},
	} {
		for how, tells := range map[string]func(context.Context, string, string) error{
			"changed": func(context.Context, string, string) error { return nil }, "silent": silent,
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(fresh())
					w.tells = tells
					resumed(w, says(tc.message))
					s := newSite(t, w)
					w.before = at("change sandbox to releasing", func(string) error {
						w.change(func(w *world) { w.idle = false })
						return nil
					})
					began := time.Now()
					s.refused(t.Context(), s.goal(plan.Provision), tc.reason)
					if took := time.Since(began); took > workloadLimit+time.Second || (tc.message != "") != (took < 2*time.Second) {
						t.Errorf("after %s of the world's time", took)
					}
				})
			})
		}
	}
}

// TestTheWorkloadIsReadBesideItsSandbox by a create alone: whoever proves that a workload is gone reads it afterwards.
func TestTheWorkloadIsReadBesideItsSandbox(t *testing.T) {
	for goal, beside := range map[plan.Goal]bool{plan.Provision: true, plan.Restart: false, plan.Release: false, plan.Remove: false, plan.Keep: false} {
		t.Run(goal.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(fresh())
				s, reads := newSite(t, w), 0
				w.read = func(what string) error {
					switch what {
					case "pod " + boxName:
						reads++
					case "sandbox " + boxName:
						return errNo
					}
					return nil
				}
				r := &round{Conductor: s.Conductor, goal: s.goal(goal), log: s.Conductor.log}
				r.lookAtSet(t.Context())
				if (reads == 1) != beside || reads > 1 {
					t.Errorf("the Pod was read %d times", reads)
				}
				if r.seen.workload.err == nil {
					t.Errorf("of the workload of a Sandbox that could not be read: %+v", r.seen.workload)
				}
			})
		})
	}
}

// TestWhatTellsOfAWorkload: a Pod that was read beside its Sandbox is read again unless both together say what is so.
func TestWhatTellsOfAWorkload(t *testing.T) {
	there := got[corev1.Pod]{value: &corev1.Pod{}}
	for name, tc := range map[string]struct {
		change func(box *sandboxapi.Object)
		pod    got[corev1.Pod]
		name   string
		tells  bool
	}{
		"suspended, absent": {func(*sandboxapi.Object) {}, got[corev1.Pod]{}, boxName, true},
		"suspended, there":  {func(*sandboxapi.Object) {}, there, boxName, true},
		"running, there":    {func(o *sandboxapi.Object) { o.Mode = sandboxapi.Running }, there, boxName, true},
		"running, absent":   {func(o *sandboxapi.Object) { o.Mode = sandboxapi.Running }, got[corev1.Pod]{}, boxName, false},
		"of another name":   {func(*sandboxapi.Object) {}, there, "other", false},
		"could not be read": {func(*sandboxapi.Object) {}, got[corev1.Pod]{err: errNo}, boxName, false},
		"no mode, absent":   {func(o *sandboxapi.Object) { o.Mode = 0 }, got[corev1.Pod]{}, boxName, false},
	} {
		box := fresh()
		tc.change(box)
		r := &round{seen: seen{box: got[sandboxapi.Object]{value: box}, workload: tc.pod}}
		if got := r.tells(tc.name); got != tc.tells {
			t.Errorf("%s: %t", name, got)
		}
		r.seen.box.value = nil
		if r.tells(tc.name) {
			t.Errorf("%s: a Sandbox that is not there tells", name)
		}
	}
}
