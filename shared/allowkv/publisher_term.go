package allowkv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// term is one term of a Publisher. Three goroutines: run owns the Writer, carry does the one leader-read or write that
// is on its way, and feed runs the source.
type term struct {
	*Publisher
	writer *allowlist.Writer
	report *termReport

	// jobs and outcomes hold at most one each: the Writer plans nothing before the outcome of what it planned last.
	jobs     chan allowlist.Action
	outcomes chan allowlist.Input
	// inputs come from the source, relist goes to it, and broken says that it gave up.
	inputs chan allowlist.Input
	relist chan struct{}
	broken chan error
	timer  *time.Timer
}

func newTerm(p *Publisher, writer *allowlist.Writer) *term {
	return &term{
		Publisher: p, writer: writer, report: newTermReport(p),
		jobs: make(chan allowlist.Action, 1), outcomes: make(chan allowlist.Input, 1),
		inputs: make(chan allowlist.Input), relist: make(chan struct{}, 1), broken: make(chan error, 1),
		timer: time.NewTimer(0),
	}
}

// run steps the Writer until its term is over, and waits for the others.
func (t *term) run(ctx context.Context, source Source, released <-chan struct{}) allowlist.End {
	inner, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	defer t.timer.Stop()
	others.Go(func() { t.carry(inner) })
	others.Go(func() { t.feed(inner, source) })
	keys := time.NewTicker(keysPoll)
	defer keys.Stop()
	t.readKeys()
	var input allowlist.Input = allowlist.Rekeyed{Keys: t.keys}
	for {
		if ctx.Err() != nil {
			input = allowlist.LeaseLost{}
		}
		if _, looked := input.(allowlist.Looked); looked && t.readKeys() {
			// Whoever was found may have written with a key that came since.
			if end := t.step(allowlist.Rekeyed{Keys: t.keys}); end != nil {
				return *end
			}
		}
		if end := t.step(input); end != nil {
			return *end
		}
		select {
		case <-ctx.Done():
		case <-released:
			released, input = nil, allowlist.Released{}
		case input = <-t.outcomes:
		case input = <-t.inputs:
		case <-t.timer.C:
			input = allowlist.Tick{}
		case <-keys.C:
			input = allowlist.Tick{}
			if t.readKeys() {
				input = allowlist.Rekeyed{Keys: t.keys}
			}
		case err := <-t.broken:
			return allowlist.End{Cause: allowlist.EndDefect, Err: err}
		}
	}
}

// step tells the Writer one input and sees to what it plans. It returns the end of the term, or nil.
func (t *term) step(input allowlist.Input) *allowlist.End {
	at := t.clock()
	plan := t.writer.Step(at, input)
	switch action := plan.Action.(type) {
	case allowlist.Look, allowlist.Write:
		t.jobs <- action
	case allowlist.Relist:
		select {
		case t.relist <- struct{}{}:
		default: // the source has not taken the last wish yet: it is the same one
		}
	}
	status := t.writer.Status(at)
	t.status.Store(&publisherStatus{WriterStatus: status, at: at.Mono})
	t.report.step(at, input, plan, status)
	if end, over := plan.Action.(allowlist.End); over {
		t.report.farewell(end.Farewell, t.writer.Epoch())
		return &end
	}
	t.timer.Stop()
	if plan.Wake > 0 {
		t.timer.Reset(plan.Wake - t.clock().Mono)
	}
	return nil
}

// readKeys reads the public keys and reports whether they have changed. A file that cannot be used changes nothing.
func (t *term) readKeys() (changed bool) {
	set, changed, err := t.keyFile.poll()
	t.metrics.keysUsable.Set(truth(err == nil))
	logKeysTrouble(&t.log, err, t.keyFile.broken)
	t.keyFile.broken = err != nil
	if err != nil || !changed {
		return false
	}
	t.keys = set
	t.log.Info().Strs(logKeyIDs, keyIDs(set)).Msg("the public keys have changed")
	return true
}

// feed runs the source. A source that returns before it is told to is broken.
func (t *term) feed(ctx context.Context, source Source) {
	err := source.Run(ctx, t.relist, func(input allowlist.Input) {
		switch input.(type) {
		case allowlist.Listed, allowlist.Proved, allowlist.SourceFailed:
		default:
			t.breakOff(fmt.Errorf("the source reported a %T, which is nothing that a source may report", input))
			return
		}
		select {
		case t.inputs <- input:
		case <-ctx.Done():
		}
	})
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		err = errors.New("it returned without an error")
	}
	t.breakOff(fmt.Errorf("the source gave up, which it must not: %w", err))
}

// breakOff ends the term for a defect of the source; the first one counts.
func (t *term) breakOff(err error) {
	select {
	case t.broken <- err:
	default:
	}
}
