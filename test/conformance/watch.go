package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

func watchChecks() []Check {
	const lost = "the sandbox stays in a phase that it left, until the next sweep or for ever"
	return []Check{
		{
			ID: "watch.snapshot", Section: "2.8", Required: true, run: tellsAll,
			Says:   "a watch begins with every sandbox there is, with the gateway's name and a status",
			Breaks: "what happened while no watch was open is never learned",
		},
		{
			ID: "watch.life", Section: "2.8", Required: true, run: tellsLife,
			Says:   "a watch tells that a sandbox is Ready, is Stopped, is Ready again and is deleted",
			Breaks: lost,
		},
		{
			ID: "watch.order", Section: "2.8", Required: true, run: tellsInOrder,
			Says: "no older state comes after a newer one: a run that was Ready is not told to be bootstrapping again, nothing of it comes after the stop, " +
				"and the deletion comes once, when it was asked for, and nothing at all after it",
			Breaks: "a stopped sandbox is shown as Ready, or one that is gone comes back",
		},
		{
			ID: "watch.starting", Section: "15.8", Required: true, run: tellsStart,
			Says:   "a sandbox that is being started is told to be bootstrapping, and not to be suspended any more",
			Breaks: "the gateway takes it for Stopped while it comes up (Stopped is left only with Bootstrapping=True and without Suspended=True)",
		},
		{
			ID: "watch.transient", Section: "15.7", Required: true, run: tellsNoError,
			Says:   "a sandbox that comes up, stops and goes as it should is never told with a reason that means Error",
			Breaks: "the row is in Error, which no later snapshot ends",
		},
		{
			ID: "watch.several", Section: "2.8", Required: true, run: tellsEachOne,
			Says:   "every watch tells everything, and the end of one is none of the others' business",
			Breaks: "after a change of leader the new one is told nothing",
		},
		{
			ID: "watch.slow", Section: "2.8", Required: true, waits: true, run: tellsSlowly,
			Says: "a caller that does not read while hundreds of events come is told the newest state of every sandbox afterwards, or its watch ends with a code " +
				"that it opens it again for",
			Breaks: lost,
		},
		{
			ID: "watch.events", Section: "2.8", run: tellsPlatform,
			Says:   "events of the platform come for sandboxes that the watch told of, with a source, a reason and a time",
			Breaks: "a user sees a sandbox that does not come up, and not why",
		},
		{
			ID: "watch.republish", Section: "15.12", waits: true, run: tellsAnew,
			Says:   "every sandbox is told again about every 30 s, though nothing changes",
			Breaks: "a snapshot whose write was lost at the gateway is not repaired before the sweep",
		},
	}
}

func tellsAll(ctx context.Context, p *probe) error {
	const sandboxes = 2
	boxes, err := p.several(ctx, sandboxes)
	if err != nil {
		return err
	}
	s, err := p.watch(ctx)
	if err != nil {
		return err
	}
	for _, b := range boxes {
		if _, err := s.await(ctx, p.patience, b.id, 0, "there", func(t told) bool { return t.sandbox != nil }); err != nil {
			return err
		}
		first := s.of(b.id, 0)[slices.IndexFunc(s.of(b.id, 0), func(t told) bool { return t.sandbox != nil })]
		if err := same(b, first.sandbox); err != nil {
			return err
		}
	}
	return nil
}

// life is a watch over one sandbox's life, with the indexes behind its turns.
type life struct {
	*stream
	id                                              string
	ready, stopped, starting, again, deleting, gone int
}

// live takes a sandbox through its life under a watch, each step after the watch has told of the one before.
func (p *probe) live(ctx context.Context) (*life, error) {
	s, err := p.watch(ctx)
	if err != nil {
		return nil, err
	}
	b, err := p.create(ctx)
	if err != nil {
		return nil, err
	}
	l := &life{stream: s, id: b.id}
	if l.ready, err = p.tells(ctx, s, b.id, 0, phase.Ready); err != nil {
		return nil, err
	}
	if err := p.stop(ctx, b.id); err != nil {
		return nil, err
	}
	if l.stopped, err = p.tells(ctx, s, b.id, l.ready, phase.Stopped); err != nil {
		return nil, err
	}
	l.starting = s.length()
	if err := p.start(ctx, b); err != nil {
		return nil, err
	}
	if l.again, err = p.tells(ctx, s, b.id, l.starting, phase.Ready); err != nil {
		return nil, err
	}
	l.deleting = s.length()
	if _, err := p.delete(ctx, b.id); err != nil {
		return nil, err
	}
	if l.gone, err = p.tellsGone(ctx, s, b.id, l.again); err != nil {
		return nil, err
	}
	// What comes late comes before what is told of a sandbox that is made now.
	mark, err := p.create(ctx)
	if err != nil {
		return nil, err
	}
	_, err = p.tells(ctx, s, mark.id, l.gone, phase.Ready)
	return l, err
}

func tellsLife(ctx context.Context, p *probe) error {
	_, err := p.oneLife(ctx)
	return err
}

func tellsInOrder(ctx context.Context, p *probe) error {
	l, err := p.oneLife(ctx)
	if err != nil {
		return err
	}
	for _, one := range l.of(l.id, l.stopped) {
		if one.sandbox != nil && one.phase == phase.Ready && l.index(one) < l.starting {
			return fmt.Errorf("phase Ready was told after Stopped, before the start: %v", l.of(l.id, 0))
		}
	}
	// A delete may stop it first.
	for _, one := range l.of(l.id, l.again) {
		if one.sandbox != nil && one.phase == phase.Stopped && l.index(one) < l.deleting {
			return fmt.Errorf("phase Stopped was told after the start: %v", l.of(l.id, 0))
		}
	}
	for _, run := range [][2]int{{l.ready, l.stopped}, {l.again, l.gone}} {
		for _, one := range l.of(l.id, run[0]) {
			if l.index(one) < run[1] && has(one.sandbox, "Bootstrapping") {
				return fmt.Errorf("Bootstrapping=True was told of a run that was Ready: %v", l.of(l.id, 0))
			}
		}
	}
	for _, one := range l.of(l.id, 0) {
		if one.gone && l.index(one) < l.deleting {
			return fmt.Errorf("the deletion was told before it was asked for: %v", l.of(l.id, 0))
		}
	}
	for _, one := range l.of(l.id, l.gone) {
		switch {
		case one.gone:
			return fmt.Errorf("the deletion was told twice: %v", l.of(l.id, 0))
		case one.sandbox != nil:
			return fmt.Errorf("%s was told after the deletion: %v", one, l.of(l.id, 0))
		}
	}
	return l.backwards()
}

// has reports whether a condition is True in a report.
func has(s *computev1.DriverSandbox, kind string) bool {
	status, err := phase.FromDriver(s.GetStatus())
	return err == nil && status.Has(kind, "True")
}

// index of an event in all.
func (s *stream) index(of told) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.IndexFunc(s.all, func(t told) bool { return t == of })
}

// backwards finds a condition whose time of change goes back.
func (l *life) backwards() error {
	newest := map[string]time.Time{}
	for _, one := range l.of(l.id, 0) {
		for _, c := range one.sandbox.GetStatus().GetConditions() {
			if c.GetTransitionTime() == nil {
				continue
			}
			at := c.GetTransitionTime().AsTime()
			if at.Before(newest[c.GetType()]) {
				return fmt.Errorf("condition %s was told with the time %s after %s", c.GetType(), at, newest[c.GetType()])
			}
			newest[c.GetType()] = at
		}
	}
	return nil
}

func tellsStart(ctx context.Context, p *probe) error {
	l, err := p.oneLife(ctx)
	if err != nil {
		return err
	}
	begun, up := false, false
	for _, one := range l.of(l.id, l.starting) {
		if l.index(one) >= l.again || one.sandbox == nil {
			continue
		}
		suspended, bootstrapping := has(one.sandbox, "Suspended"), has(one.sandbox, "Bootstrapping")
		switch {
		case suspended && bootstrapping:
			return errors.New("Suspended=True was told together with Bootstrapping=True")
		case suspended && begun: // before that it is the stop, told late or told again
			return errors.New("Suspended=True was told after the start had begun")
		}
		begun, up = begun || !suspended, up || bootstrapping
	}
	if !up {
		return fmt.Errorf("phase Ready was told after the start, and before it never with Bootstrapping=True: %v", l.of(l.id, l.starting))
	}
	return nil
}

func tellsNoError(ctx context.Context, p *probe) error {
	l, err := p.oneLife(ctx)
	if err != nil {
		return err
	}
	for _, one := range l.of(l.id, 0) {
		if one.sandbox != nil && one.phase == phase.Error {
			return fmt.Errorf("phase Error was told, with %v", one.sandbox.GetStatus().GetConditions())
		}
	}
	return nil
}

func tellsEachOne(ctx context.Context, p *probe) error {
	one, err := p.watch(ctx)
	if err != nil {
		return err
	}
	other, err := p.watch(ctx)
	if err != nil {
		return err
	}
	b, err := p.create(ctx)
	if err != nil {
		return err
	}
	for _, s := range []*stream{one, other} {
		if _, err := p.tells(ctx, s, b.id, 0, phase.Ready); err != nil {
			return err
		}
	}
	one.close()
	from := other.length()
	if _, err := p.delete(ctx, b.id); err != nil {
		return err
	}
	_, err = p.tellsGone(ctx, other, b.id, from)
	return err
}

func tellsPlatform(ctx context.Context, p *probe) error {
	s, err := p.watch(ctx)
	if err != nil {
		return err
	}
	// The watch tells of what there is before it tells of what happens, and an event is not told again.
	first, err := p.create(ctx)
	if err != nil {
		return err
	}
	if _, err := s.await(ctx, p.patience, first.id, 0, "there", func(t told) bool { return t.sandbox != nil }); err != nil {
		return err
	}
	b, err := p.create(ctx)
	if err != nil {
		return err
	}
	at, err := s.await(ctx, p.patience, b.id, 0, "the subject of an event", func(t told) bool { return t.platform != nil })
	if err != nil {
		return err
	}
	s.mu.Lock()
	event := s.all[at-1].platform
	s.mu.Unlock()
	if event.GetSource() == "" || event.GetReason() == "" || event.GetEventTime().CheckValid() != nil {
		return fmt.Errorf("the event is %v", event)
	}
	return nil
}
