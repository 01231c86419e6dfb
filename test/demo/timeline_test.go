package demo_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/demo"
)

// hands is a clock that a test turns.
type hands struct {
	mu  sync.Mutex
	now time.Time
}

func (h *hands) read() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hands) turn(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func newTimeline(t *testing.T, live bool) (*demo.Timeline, *bytes.Buffer, *hands) {
	t.Helper()
	out, clock := &bytes.Buffer{}, &hands{now: time.Unix(1000, 0)}
	return demo.NewTimeline(out, demo.Style{}, live, clock.read), out, clock
}

// TestCheck: a claim is ok only when what shows it had no error, with the time that it took.
func TestCheck(t *testing.T) {
	t.Parallel()
	line, out, clock := newTimeline(t, false)
	wrong := errors.New("it is open")
	if err := line.Check("the gate is closed", func() (string, error) { clock.turn(250 * time.Millisecond); return "seen", nil }); err != nil {
		t.Error(err)
	}
	if err := line.Check("the gate is closed", func() (string, error) { return "unseen", wrong }); !errors.Is(err, wrong) {
		t.Errorf("%v", err)
	}
	line.NotShown("a command", "no node")
	line.End("FAILED.")
	line.Close()
	moments := line.Moments()
	if len(moments) != 4 || moments[0].Kind != demo.Held || moments[0].Took != 250*time.Millisecond || moments[0].At != 250*time.Millisecond ||
		moments[1].Kind != demo.Broken || moments[1].Detail != "it is open" || line.Broken() != 1 {
		t.Errorf("%+v", moments)
	}
	for _, want := range []string{"ok    the gate is closed", "250 ms  seen", "FAIL  the gate is closed", "1 checks held, 1 did not, 1 not shown here"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "unseen") {
		t.Errorf("what was not seen is told:\n%s", out)
	}
}

// TestLive: the last line of a terminal is wiped before another is written and when all ends, and elsewhere there is none.
func TestLive(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{true, false} {
		line, out, _ := newTimeline(t, live)
		done := line.Waiting("for the gate")
		line.Note("something", "")
		done()
		line.Close()
		text := out.String()
		if strings.Contains(text, "for the gate") != live {
			t.Errorf("live %t: %q", live, text)
		}
		for part := range strings.SplitSeq(text, "\n") {
			// What follows the last wipe is the line that stays.
			if i := strings.LastIndex(part, "\x1b[K"); i >= 0 && strings.Contains(part[i:], "..") && strings.Contains(part[i:], "something") {
				t.Errorf("a line over another: %q", part)
			}
		}
		if live && !strings.HasSuffix(text, "\r\x1b[K") {
			t.Errorf("the last line stays: %q", text)
		}
	}
}

// TestPlay: acts in their order; the first that fails ends it, is on the timeline once, and is named.
func TestPlay(t *testing.T) {
	t.Parallel()
	wrong := errors.New("nobody answered")
	for name, tc := range map[string]struct {
		second func(*demo.Timeline) error
		broken int
		played string
	}{
		"all hold":             {func(*demo.Timeline) error { return nil }, 0, "123"},
		"one fails":            {func(*demo.Timeline) error { return wrong }, 1, "12"},
		"one fails in a check": {func(l *demo.Timeline) error { return l.Check("x", func() (string, error) { return "", wrong }) }, 1, "12"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line, _, _ := newTimeline(t, false)
			defer line.Close()
			played := ""
			act := func(digit string, do func(*demo.Timeline) error) demo.Act {
				return demo.Act{Title: "act " + digit, Do: func(_ context.Context, l *demo.Timeline) error {
					played += digit
					return do(l)
				}}
			}
			fine := func(*demo.Timeline) error { return nil }
			err := demo.Play(t.Context(), line, []demo.Act{act("1", fine), act("2", tc.second), act("3", fine)})
			if (err != nil) != (tc.broken > 0) || err != nil && (!errors.Is(err, wrong) || !strings.Contains(err.Error(), "step 2, act 2")) {
				t.Errorf("%v", err)
			}
			if demo.Told(err) != (tc.broken > 0) {
				t.Errorf("told on the timeline %t", demo.Told(err))
			}
			if played != tc.played || line.Broken() != tc.broken {
				t.Errorf("played %s, broken %d", played, line.Broken())
			}
		})
	}
}

// TestPlayInterrupted: an act during which the user gave up is no failure of what it claims, and no further one is begun.
func TestPlayInterrupted(t *testing.T) {
	t.Parallel()
	line, _, _ := newTimeline(t, false)
	defer line.Close()
	gaveUp := errors.New("gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := demo.Play(ctx, line, []demo.Act{
		{Title: "one", Do: func(ctx context.Context, _ *demo.Timeline) error { cancel(gaveUp); <-ctx.Done(); return ctx.Err() }},
		{Title: "two", Do: func(context.Context, *demo.Timeline) error { t.Error("begun"); return nil }},
	})
	if !errors.Is(err, gaveUp) || line.Broken() != 0 {
		t.Errorf("%v, broken %d", err, line.Broken())
	}
}
