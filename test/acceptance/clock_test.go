package acceptance_test

import (
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// The wall clock of the writer is set while it runs. Back does not matter at all. Forward may have been a sleep, so the
// writer begins a new term, whose beats are on trial while the old proof lasts; what is right again within
// max_clock_skew passes.
func TestWritersWallClockIsSet(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		step  time.Duration
		terms int64
	}{
		{"back ten minutes", -10 * time.Minute, 0},
		{"forward within the skew", 20 * time.Second, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, _, _ := single(t)
			c := newChannel(t, "gw-1", stated)
			w, r := c.write(connect(t, []string{s.URL()}), "team-a"), c.read(connect(t, []string{s.URL()}))
			r.answers("team-a", "")
			before := r.Check("team-a").Epoch
			open := r.staysOpen("team-a")
			w.step.Store(int64(test.step))
			if test.terms > 0 {
				until(t, "the next term", func() bool { return w.ends.Load() == test.terms && w.Status().Epoch > before })
				r.until("the next epoch", func() bool { return r.Check("team-a").Epoch > before })
			}
			moves(w, r, "team-b")
			r.beats(4)
			open()
			if n := w.ends.Load(); n != test.terms {
				t.Errorf("%d terms ended, want %d", n, test.terms)
			}
		})
	}
}

// The wall clock of the writer goes wrong by ten minutes. The beats of the term that it then begins pass no trial: a
// reader that was there closes when the old proof is over, and one that starts does not open. Both do when the clock is
// right.
func TestWritersWallClockIsWrong(t *testing.T) {
	t.Parallel()
	s, _, _ := single(t)
	c := newChannel(t, "gw-1", quick)
	conn := connect(t, []string{s.URL()})
	w, r := c.write(conn, "team-a"), c.read(conn)
	r.answers("team-a", "")
	w.step.Store(int64(10 * time.Minute))
	until(t, "the next term", func() bool { return w.ends.Load() == 1 })
	r.answers("team-a", verdict.Stale)
	cold := c.read(conn)
	shut := cold.staysShut("team-a")
	cold.until("many beats with another wall clock", func() bool { return cold.count("findings_total", "clock_skew") > 5 })
	if r.Check("team-a").Allowed() {
		t.Error("the reader that was there has opened")
	}
	shut()
	w.step.Store(0)
	r.answers("team-a", "")
	cold.answers("team-a", "")
}
