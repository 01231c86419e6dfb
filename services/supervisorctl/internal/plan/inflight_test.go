package plan_test

import (
	"testing"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/plan"
	"github.com/portcullis-mesh/portcullis/shared/sandboxapi"
)

// TestTheLastWriteOfTheDead kills a start at each of its writes, which comes later: after each of the writes of whoever goes on with
// the same run, undoes it, or stops it. No schedule may mix their Secrets or leave anything behind.
func TestTheLastWriteOfTheDead(t *testing.T) {
	for name, begin := range goals() {
		for _, goal := range []plan.Goal{0, plan.Keep, plan.Release, plan.Restart} {
			for _, version := range versions()[:versionsTried] {
				for n := 0; ; n++ {
					if !interrupted(t, begin, goal, version, n) {
						if n < 3 {
							t.Fatalf("%s has only %d writes", name, n)
						}
						break
					}
				}
			}
		}
	}
}

// interrupted tries each moment at which the n-th write of the first can come. False when it has no such write.
func interrupted(t *testing.T, begin func(*testing.T, sandboxapi.Version) (*world, *actor), goal plan.Goal, version sandboxapi.Version, n int) bool {
	for m := 0; ; m++ {
		w, first := begin(t, version)
		if !first.reaches(n) {
			return false
		}
		w.inflight = first.queue[0]
		want := first.want
		if goal != 0 {
			want.Goal = goal
		}
		if goal == plan.Restart {
			want.Run = run(3)
		}
		second := w.actor(want.Goal, want.Run)
		second.idle = true
		before := w.writes
		for i := 0; i < 300 && !second.over; i++ {
			if w.writes-before >= m {
				w.lands()
				for w.controller() {
				}
			}
			second.act(nobody)
			for w.controller() {
			}
		}
		late := w.inflight != nil
		w.lands()
		for w.controller() {
		}
		w.settles()
		if late {
			return true
		}
	}
}

// reaches lets the actor work until its n-th write, from 0, is the next thing it does; false when it is over before.
func (a *actor) reaches(n int) bool {
	before := a.w.writes
	for range 400 {
		switch {
		case a.over:
			return false
		case len(a.queue) > 0 && a.w.writes-before >= n:
			return true
		}
		a.act(nobody)
		for a.w.controller() {
		}
	}
	a.w.fail("%s comes to no end", a.name)
	return false
}
