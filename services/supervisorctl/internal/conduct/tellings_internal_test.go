package conduct

import (
	"fmt"
	"testing"
	"time"
)

// TestTellings: what is on its way or known is no news, until its time is over or its state another one.
func TestTellings(t *testing.T) {
	now := time.Unix(1000, 0)
	passing := subject{what: markOf("uid", "RunBroke", "why")}
	opened := func(policy string) subject {
		return subject{what: markOf("uid", "fence"), state: markOf(policy), stands: true}
	}
	closed := subject{what: markOf("uid", "fence"), state: markOf(), stands: true, over: true}
	m := newTellings(10)
	news := func(what string, s subject, want bool) {
		t.Helper()
		if got := m.news(s, now); got != want {
			t.Errorf("%s: %t", what, got)
		}
	}
	news("never told", passing, true)
	m.queued(passing, now)
	news("on its way", passing, false)
	m.ended(passing, false, now)
	news("lost", passing, true)
	m.queued(passing, now)
	m.ended(passing, true, now)
	news("told", passing, false)
	now = now.Add(toldFor - 1)
	news("almost long ago", passing, false)
	now = now.Add(1)
	news("long ago", passing, true)

	news("closed, never opened", closed, false)
	news("opened", opened("a"), true)
	m.queued(opened("a"), now)
	news("opened, on its way", opened("a"), false)
	news("changed while it is on its way", opened("b"), true)
	m.queued(opened("b"), now)
	m.ended(opened("a"), true, now)
	news("the change is on its way", opened("b"), false)
	m.ended(opened("b"), true, now)
	now = now.Add(1000 * time.Hour)
	news("changed, told", opened("b"), false)
	news("changed back", opened("a"), true)
	news("closed", closed, true)
	m.queued(closed, now)
	m.ended(closed, false, now)
	news("closed, lost", closed, true)
	m.queued(closed, now)
	m.ended(closed, true, now)
	news("closed, told", closed, false)
	news("opened again", opened("b"), true)
	if len(m.all) != 1 {
		t.Errorf("%d are remembered", len(m.all))
	}
}

// TestTellingsIsBounded: beyond its size the one is forgotten that was not heard of for the longest time.
func TestTellingsIsBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	one := func(n int) subject { return subject{what: markOf(fmt.Sprint(n)), state: markOf("x"), stands: true} }
	m := newTellings(3)
	tell := func(n int) {
		m.queued(one(n), now)
		m.ended(one(n), true, now)
		m.news(one(n), now)
		now = now.Add(time.Second)
	}
	tell(1)
	tell(2)
	tell(3)
	m.news(one(1), now)
	tell(4)
	for n, known := range map[int]bool{1: true, 2: false, 3: true, 4: true} {
		if m.news(one(n), now) == known {
			t.Errorf("%d is known: %t", n, !known)
		}
	}
	m.ended(one(2), true, now) // its answer came after it was forgotten
	if len(m.all) != 3 {
		t.Errorf("%d are remembered", len(m.all))
	}
	if markOf("a", "bc") == markOf("ab", "c") {
		t.Error("two lists have one mark")
	}
}
