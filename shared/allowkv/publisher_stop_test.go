package allowkv_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// TestReleased is a clean stop (rule W10).
func TestReleased(t *testing.T) {
	t.Parallel()
	t.Run("no successor", func(t *testing.T) {
		t.Parallel()
		w := newPubWorld(t)
		l := w.lead("writer-a", "team-a")
		l.release()
		if end := l.end(); end.Cause != allowlist.EndStopped || end.Err != nil {
			t.Errorf("ended by %s: %v", end.Cause, end.Err)
		}
		_, h, ok := w.stored()
		if !ok || !strings.Contains(h.Reason, "stopped") {
			t.Errorf("the last beat has reason %q (%t)", h.Reason, ok)
		}
		l.logged("no successor has written, and the list is withdrawn")
	})
	t.Run("successor", func(t *testing.T) {
		t.Parallel()
		w := newPubWorld(t)
		w.settings.StopGrace = driverconf.Duration(4 * time.Second)
		a := w.lead("writer-a", "team-a")
		a.release()
		b := w.lead("writer-b", "team-a")
		if end := a.end(); end.Cause != allowlist.EndStopped || end.Err != nil {
			t.Errorf("ended by %s: %v", end.Cause, end.Err)
		}
		a.logged("a successor has written")
		b.beats(2)
		if _, h, ok := w.stored(); !ok || h.Reason != "" || h.Writer != "writer-b" {
			t.Errorf("the last beat is of %s with reason %q (%t)", h.Writer, h.Reason, ok)
		}
	})
	t.Run("broker gone", func(t *testing.T) {
		t.Parallel()
		w := newPubWorld(t)
		l := w.lead("writer-a", "team-a")
		w.server.Stop()
		l.release()
		if end := l.end(); end.Cause != allowlist.EndStopped || end.Farewell != allowlist.FarewellUnknown {
			t.Errorf("ended by %s, %s: %v", end.Cause, end.Farewell, end.Err)
		}
		l.logged("whether a successor has written is not known")
		l.logged("no certain outcome")
	})
	t.Run("lease lost meanwhile", func(t *testing.T) {
		t.Parallel()
		w := newPubWorld(t)
		w.settings.StopGrace = driverconf.Duration(4 * time.Second)
		l := w.lead("writer-a", "team-a")
		l.release()
		l.lose()
		if end := l.end(); end.Cause != allowlist.EndLeaseLost {
			t.Errorf("ended by %s: %v", end.Cause, end.Err)
		}
		if _, h, ok := w.stored(); !ok || h.Reason != "" {
			t.Errorf("the last beat has reason %q (%t)", h.Reason, ok)
		}
	})
	t.Run("before the take-over", func(t *testing.T) {
		t.Parallel()
		w := newPubWorld(t)
		w.server.Stop()
		l := w.publisher("writer-a", w.conn, "team-a")
		l.begin()
		l.release()
		if end := l.end(); end.Cause != allowlist.EndStopped {
			t.Errorf("ended by %s: %v", end.Cause, end.Err)
		}
	})
}

// TestLeaseLostAtOnce begins a term whose Lease is gone already: nothing is written.
func TestLeaseLostAtOnce(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	l := w.publisher("writer-a", w.conn, "team-a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	end, err := l.Lead(ctx, l.source, nil)
	if err != nil || end.Cause != allowlist.EndLeaseLost {
		t.Errorf("ended by %s, %v", end.Cause, err)
	}
	if n := pubCount(t, l, "writes_total", "snapshot", "stored") + pubCount(t, l, "looks_total", "ok"); n != 0 {
		t.Errorf("%v reads and writes", n)
	}
}

// brokenSource does what a source must not.
type brokenSource struct {
	describe allowlist.Source
	run      func(ctx context.Context, report func(allowlist.Input)) error
}

func (s brokenSource) Describe() allowlist.Source { return s.describe }

func (s brokenSource) Run(ctx context.Context, _ <-chan struct{}, report func(allowlist.Input)) error {
	return s.run(ctx, report)
}

func TestBrokenSources(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	label := allowlist.Source{Kind: allowlist.SourceLabel, Selector: "team=a"}
	for _, test := range []struct {
		name string
		run  func(ctx context.Context, report func(allowlist.Input)) error
		want string
	}{
		{"gives up", func(context.Context, func(allowlist.Input)) error { return errors.New("no such cluster") }, "no such cluster"},
		{"returns nil", func(context.Context, func(allowlist.Input)) error { return nil }, "without an error"},
		{"reports the outcome of a write", func(ctx context.Context, report func(allowlist.Input)) error {
			report(allowlist.Written{Result: allowlist.WriteStored, Sequence: 1})
			<-ctx.Done()
			return nil
		}, "allowlist.Written"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := w.publisher("writer-a", w.conn)
			end, err := l.Lead(t.Context(), brokenSource{label, test.run}, nil)
			if err != nil || end.Cause != allowlist.EndDefect || !strings.Contains(end.Err.Error(), test.want) {
				t.Errorf("ended by %s: %v, %v", end.Cause, end.Err, err)
			}
		})
	}
	t.Run("describes nothing", func(t *testing.T) {
		t.Parallel()
		l := w.publisher("writer-a", w.conn)
		if _, err := l.Lead(t.Context(), brokenSource{}, nil); err == nil {
			t.Error("a term has begun")
		}
		if _, err := l.Lead(t.Context(), nil, nil); err == nil {
			t.Error("a term has begun without a source")
		}
	})
}

// TestUnprovenSource stops the beats when the source has proven nothing for too long, and changes nothing.
func TestUnprovenSource(t *testing.T) {
	t.Parallel()
	w := newPubWorld(t)
	w.settings.SourceMaxAge = driverconf.Duration(2 * time.Second)
	w.settings.LabelRelist = driverconf.Duration(500 * time.Millisecond)
	w.settings.FilePoll = driverconf.Duration(500 * time.Millisecond)
	l := w.publisher("writer-a", w.conn, "team-a")
	l.source.Every = 0 // answers what it is asked, and says nothing of its own accord
	l.begin()
	before := w.lists("team-a")
	l.logged("heartbeats stop")
	if n := pubCount(t, l, "findings_total", "none", "unproven"); n != 1 {
		t.Errorf("counted %v times", n)
	}
	l.source.Set(allowkvtest.List(t, "team-a"))
	if after := w.lists("team-a"); after.Revision != before.Revision {
		t.Errorf("revision %d after %d", after.Revision, before.Revision)
	}
	l.beats(1)
}
