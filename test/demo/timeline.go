package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"
)

// Timeline tells people what happens while it happens. Its methods are safe for concurrent use.
type Timeline struct {
	out   io.Writer
	style Style
	live  bool
	now   func() time.Time
	began time.Time

	mu      sync.Mutex
	user    context.Context //nolint:containedctx // whose end is that of the user's patience, and no call's
	record  []Moment
	broken  int
	held    int
	skipped int
	waiting string // what the last line of a terminal says is under way
	since   time.Time
	end     chan struct{}
	ended   sync.WaitGroup
}

// NewTimeline makes one that begins now. Live says that out is a terminal, whose last line shows what is being waited for.
func NewTimeline(out io.Writer, style Style, live bool, now func() time.Time) *Timeline {
	t := &Timeline{out: out, style: style, live: live, now: now, began: now(), end: make(chan struct{})}
	if live {
		t.ended.Go(t.tick)
	}
	return t
}

// Obey has checks that fail once ctx is over be told as interrupted, since they show nothing.
func (t *Timeline) Obey(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.user = ctx
}

func (t *Timeline) interrupted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.user != nil && t.user.Err() != nil
}

// Close ends the live line.
func (t *Timeline) Close() {
	close(t.end)
	t.ended.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
}

const redraw = 100 * time.Millisecond

func (t *Timeline) tick() {
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	for {
		select {
		case <-t.end:
			return
		case <-ticker.C:
			t.mu.Lock()
			t.draw()
			t.mu.Unlock()
		}
	}
}

// wipe and draw are called with the lock.
func (t *Timeline) wipe() {
	if t.live && t.waiting != "" {
		_, _ = io.WriteString(t.out, "\r\x1b[K")
	}
}

func (t *Timeline) draw() {
	if !t.live || t.waiting == "" {
		return
	}
	now, what := t.now(), []rune(t.waiting)
	what = what[:min(len(what), whatColumn)]
	text := fmt.Sprintf("%9s  ..    %-*s %8s", clock(now.Sub(t.began)), whatColumn, string(what), span(now.Sub(t.since)))
	_, _ = io.WriteString(t.out, "\r\x1b[K"+t.style.paint(dim, text))
}

func (t *Timeline) add(m Moment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m.At = t.now().Sub(t.began)
	t.record = append(t.record, m)
	switch m.Kind {
	case Held:
		t.held++
	case Broken:
		t.broken++
	case NotShown:
		t.skipped++
	default:
	}
	t.wipe()
	_, _ = io.WriteString(t.out, t.style.Render(m))
	t.draw()
}

// Moments are all so far.
func (t *Timeline) Moments() []Moment {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Moment(nil), t.record...)
}

// Broken is how many checks did not hold.
func (t *Timeline) Broken() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.broken
}

// Title begins the whole.
func (t *Timeline) Title(what, detail string) { t.add(Moment{Kind: Title, What: what, Detail: detail}) }

// Step begins a step, and says what it proves.
func (t *Timeline) Step(title, proves string) { t.add(Moment{Kind: Step, What: title, Detail: proves}) }

// Note tells what happened and proves nothing.
func (t *Timeline) Note(what, detail string) { t.add(Moment{Kind: Note, What: what, Detail: detail}) }

// Quote shows what a program said.
func (t *Timeline) Quote(said string) {
	if said = strings.TrimRight(said, "\n"); said != "" {
		t.add(Moment{Kind: Output, Detail: said})
	}
}

// NotShown says what this cluster cannot show, and why.
func (t *Timeline) NotShown(what, why string) {
	t.add(Moment{Kind: NotShown, What: what, Detail: why})
}

// Waiting has the last line of a terminal say what is under way, until what it returns is called.
func (t *Timeline) Waiting(what string) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, since := t.waiting, t.since
	t.wipe()
	t.waiting, t.since = what, t.now()
	t.draw()
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.wipe()
		t.waiting, t.since = before, since
		t.draw()
	})
}

// Counted shows how many there were on the last line of a terminal, and now and then on a line of its own elsewhere.
func Counted(t *Timeline, what string) func(name string) {
	n := 0
	return func(name string) {
		n++
		if t.live {
			t.rename(fmt.Sprintf("%s %d: %s", what, n, path.Base(name)))
		} else if n%countEvery == 0 {
			t.Note(fmt.Sprintf("%s %d", what, n), name)
		}
	}
}

const countEvery = 100

// rename gives what is waited for another name.
func (t *Timeline) rename(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting != "" {
		t.waiting = what
	}
}

// Held says that a claim was checked, how long it took to come true, and what was seen.
func (t *Timeline) Held(what string, took time.Duration, seen string) {
	t.add(Moment{Kind: Held, What: what, Took: took, Detail: seen})
}

// Check does what shows a claim and tells what came of it: what was seen, or why it does not hold. The error is for the caller to end.
func (t *Timeline) Check(what string, do func() (seen string, err error)) error {
	done := t.Waiting(what)
	began := t.now()
	seen, err := do()
	done()
	took := t.now().Sub(began)
	if err != nil && t.interrupted() {
		t.Note(what, "interrupted")
		return &shown{err}
	}
	if err != nil {
		t.add(Moment{Kind: Broken, What: what, Took: took, Detail: err.Error()})
		return &shown{err}
	}
	t.Held(what, took, seen)
	return nil
}

// shown is an error that is on the timeline already.
type shown struct{ error }

func (s *shown) Unwrap() error { return s.error }

// Told reports whether an error is on a timeline already, so that it need not be told again in full.
func Told(err error) bool { return errors.As(err, new(*shown)) }

// End sums up.
func (t *Timeline) End(how string) {
	t.mu.Lock()
	held, broken, skipped, took := t.held, t.broken, t.skipped, t.now().Sub(t.began)
	t.mu.Unlock()
	text := fmt.Sprintf("%s %d checks held, %d did not", how, held, broken)
	if skipped > 0 {
		text += fmt.Sprintf(", %d not shown here", skipped)
	}
	t.add(Moment{Kind: Summary, What: fmt.Sprintf("%s (%.1f s)", text, took.Seconds())})
}
