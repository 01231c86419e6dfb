package conduct

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/runstate"
)

// provisioned are the writes of a Provision, in the order of contract 7.2.
var provisioned = []string{
	"create policy openshell-sandbox-workloads",
	"create policy openshell-sandbox-supervisors",
	"create service " + boundary,
	"create pod " + supervisorPod,
	"change sandbox to preparing, Running",
	"change sandbox to preparing",
	"create secret " + sandboxSecret,
	"create secret " + supervisorFile,
	"ungate " + supervisorPod,
	"ungate " + boxName,
	"change sandbox to released",
}

// TestALife raises a run, stops it, raises another one, and removes the set; each call again answers the same and writes nothing.
func TestALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(fresh())
		s := newSite(t, w)
		again := func(goal Goal) {
			t.Helper()
			before := len(w.done())
			s.do(goal)
			if after := w.done(); len(after) != before {
				t.Errorf("%s again: %v", goal.Goal, after[before:])
			}
		}
		out := s.do(s.goal(plan.Provision))
		if diff := cmp.Diff(provisioned, w.done()); diff != "" {
			t.Fatalf("the order of writes (-want +got):\n%s", diff)
		}
		w.fenced(t)
		r := s.record()
		box, _ := out.Facts.Sandbox.Value()
		if r.Phase != runstate.Released || r.Session != session || r.Epoch != 1 || r.SupervisorUID == "" || r.WorkloadUID == "" || r.FenceUID == "" || box.UID != boxUID {
			t.Errorf("%+v", r)
		}
		again(s.goal(plan.Provision))

		s.do(s.goal(plan.Release))
		if r := s.record(); r.Phase != "" || r.Generation != "" || len(w.pods) != 0 || len(w.secrets) != 0 || len(w.services) != 1 {
			t.Errorf("%+v, %d Pods, %d Secrets, %d Services", r, len(w.pods), len(w.secrets), len(w.services))
		}
		want := []string{
			"change sandbox to releasing", "delete pod " + supervisorPod, "change sandbox to suspending, Suspended",
			"delete secret " + supervisorFile, "delete secret " + sandboxSecret, "change sandbox to rest",
		}
		if diff := cmp.Diff(want, w.done()[len(provisioned):]); diff != "" {
			t.Errorf("the order of a stop (-want +got):\n%s", diff)
		}
		again(s.goal(plan.Release))

		s.do(s.goal(plan.Restart))
		if r := s.record(); r.Phase != runstate.Released || r.Operation != runstate.Restart || len(w.secrets) != 2 {
			t.Errorf("%+v, %d Secrets", r, len(w.secrets))
		}
		again(s.goal(plan.Restart))

		s.do(s.goal(plan.Remove))
		if len(w.pods)+len(w.secrets)+len(w.services) != 0 || len(w.policies) != 2 {
			t.Errorf("%d Pods, %d Secrets, %d Services, %d policies", len(w.pods), len(w.secrets), len(w.services), len(w.policies))
		}
		w.change(func(w *world) { w.box = nil })
		gone := s.goal(plan.Remove)
		gone.Ref.UID = ""
		s.do(gone)
		if !slices.Contains(w.done(), "delete service "+boundary) {
			t.Errorf("%v", w.done())
		}
	})
}
