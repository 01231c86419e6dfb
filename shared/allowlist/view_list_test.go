package allowlist

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// grantedByCheck asks for every name, one by one.
func grantedByCheck(v *View, now Instant, names []string) []string {
	var granted []string
	for _, name := range names {
		if v.Check(name, now).Allowed() {
			granted = append(granted, name)
		}
	}
	return granted
}

func namesOf(entries []Entry) []string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

// TestGrantedIsWhatCheckGrants compares lists, pending lists and narrowed ones with the answers of Check.
func TestGrantedIsWhatCheckGrants(t *testing.T) {
	now := Instant{Mono: 3 * time.Second, Wall: wallStart.Add(3 * time.Second)}
	var names []string
	for i := range 6 {
		names = append(names, fmt.Sprintf("team-%d", i))
	}
	random := rand.New(rand.NewPCG(1, 2))
	list := func() map[string]string {
		uids := map[string]string{}
		for _, name := range names {
			if random.IntN(2) == 0 {
				uids[name] = fmt.Sprintf("uid-%d", random.IntN(2))
			}
		}
		return uids
	}
	view := func() *View {
		v := freshView(t, nil)
		v.proven = list()
		if random.IntN(2) == 0 {
			v.pending = list()
		}
		return v
	}
	for range 2000 {
		v, bound := view(), view()
		if got, want := namesOf(v.Granted(now)), grantedByCheck(v, now, names); !slices.Equal(got, want) {
			t.Fatalf("granted %v, checks grant %v", got, want)
		}
		for _, e := range v.Granted(now) {
			if a := v.Check(e.Name, now); a.UID != e.UID {
				t.Fatalf("%s has uid %s in the list and %s in the answer", e.Name, e.UID, a.UID)
			}
		}
		narrow := v.Within(bound)
		for _, name := range names {
			whole, before, got := v.Check(name, now), bound.Check(name, now), narrow.Check(name, now)
			both := whole.Allowed() && before.Allowed() && whole.UID == before.UID
			switch {
			case got.Allowed() != both:
				t.Fatalf("%s: allowed %v within, %v by v, %v by the bound", name, got.Allowed(), whole.Allowed(), before.Allowed())
			case whole.Reason == verdict.NotListed && got.Reason != verdict.NotListed:
				t.Fatalf("%s: removed, and %q within", name, got.Reason)
			case whole.Allowed() && !both && got.Reason != verdict.Behind:
				t.Fatalf("%s: added, and %q within", name, got.Reason)
			}
		}
		if same := slices.Equal(narrow.Granted(now), v.Granted(now)); !same && narrow.SameList(v) {
			t.Fatal("a narrowed list passes for the whole one")
		}
	}
}

func TestWithinDeniesWithoutABound(t *testing.T) {
	now := Instant{Mono: 3 * time.Second, Wall: wallStart.Add(3 * time.Second)}
	v := freshView(t, []string{"team-a"})
	for name, bound := range map[string]*View{"nil": nil, "zero": {}, "withdrawn": {condition: withdrawn(), proven: v.proven}} {
		if got := v.Within(bound); got.Condition(now) != unsynced() || got.Check("team-a", now).Allowed() || len(got.Granted(now)) != 0 {
			t.Errorf("within %s: %v", name, got.Condition(now))
		}
	}
	gone := &View{condition: withdrawn()}
	if got := gone.Within(v); got.Condition(now) != withdrawn() {
		t.Errorf("a withdrawn view is %v within a fresh one", got.Condition(now))
	}
	if got := (*View)(nil).Granted(now); got != nil {
		t.Errorf("a nil View grants %v", got)
	}
	now.Mono, now.Wall = time.Hour, wallStart.Add(time.Hour)
	if got := v.Granted(now); got != nil {
		t.Errorf("a stale View grants %v", got)
	}
}

// TestWithinCostsNothing: a shell whose disk is full narrows every View that it publishes.
func TestWithinCostsNothing(t *testing.T) {
	v, bound := freshView(t, []string{"team-a", "team-b"}), freshView(t, []string{"team-a"})
	if n := testing.AllocsPerRun(100, func() { v.Within(bound) }); n > 1 {
		t.Errorf("%v allocations, want that of the View", n)
	}
	now := Instant{Mono: 3 * time.Second, Wall: wallStart.Add(3 * time.Second)}
	narrow := v.Within(bound)
	if n := testing.AllocsPerRun(100, func() { narrow.Check("team-a", now) }); n != 0 || !narrow.Check("team-a", now).Allowed() {
		t.Errorf("Check allocates %v times within a bound", n)
	}
}

func TestSameList(t *testing.T) {
	v := freshView(t, []string{"team-a"})
	for name, edit := range map[string]func(*View){
		"another revision": func(v *View) { v.stamp.revision++ },
		"another epoch":    func(v *View) { v.stamp.epoch++ },
		"a pending list":   func(v *View) { v.pending = map[string]string{} },
		"a bound":          func(v *View) { v.bound = &View{} },
	} {
		other := *v
		if edit(&other); v.SameList(&other) || other.SameList(v) {
			t.Errorf("%s is the same list", name)
		}
	}
	beaten := *v
	beaten.deadline++
	if !v.SameList(&beaten) || v.SameList(nil) || !(*View)(nil).SameList(nil) {
		t.Error("a beat makes another list, or nil is compared wrongly")
	}
}
