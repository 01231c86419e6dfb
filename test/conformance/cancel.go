package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/test/gateway/phase"
)

// points is how many times a call is cut short, each at another part of the time that it takes.
const points = 4

func cancelChecks() []Check {
	return []Check{
		{
			ID: "cancel.create", Section: "2.6", Required: true, run: cutsCreates,
			Says:   "a create that is cancelled rolls itself back, wherever it was",
			Breaks: "the row is removed and the sandbox stays: it leaks",
		},
		{
			ID: "cancel.stop", Section: "2.12", Required: true, run: cutsStops,
			Says:   "a stop that is cancelled, wherever it was, is resumed by the next one",
			Breaks: "the reclaim, which gives up after 30 s and calls again, never ends",
		},
		{
			ID: "cancel.start", Section: "2.12", Required: true, needs: []ability{authenticates}, run: cutsStarts,
			Says:   "after a start that is cancelled, wherever it was, a start with the same credentials succeeds",
			Breaks: "the sandbox is neither up nor stopped, and no call gets it out of there",
		},
		{
			ID: "cancel.delete", Section: "2.6", Required: true, run: cutsDeletes,
			Says:   "a delete that is cancelled, wherever it was, is completed by the next one",
			Breaks: "the sandbox, or a part of it, leaks",
		},
		{
			ID: "cancel.watch", Section: "2.8", Required: true, run: cutsWatches,
			Says:   "a watch that its caller leaves takes nothing along",
			Breaks: "the driver serves no more after some restarts of the gateway",
		},
	}
}

// cut calls with a context that ends after a part of the time.
func cut(ctx context.Context, whole time.Duration, part int, call func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(whole*time.Duration(part)/points, cancel)
	defer timer.Stop()
	return call(ctx)
}

// cutsCreates judges each point by itself: a driver may leak at one alone.
func cutsCreates(ctx context.Context, p *probe) error {
	began := time.Now()
	if _, err := p.create(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	return together(points, func(i int) error {
		if err := p.abandoned(ctx, took, i); err != nil {
			return fmt.Errorf("after a create that was cut at %d/%d: %w", i, points, err)
		}
		return nil
	})
}

// The answer of one call may cross its cancellation, and then the sandbox is there by right. So what happens at a point is said by that which
// came of decisive tries first: one that leaves something decides nothing, nor does one that leaves nothing. tries are made at most: some are
// answered before they are cut.
const decisive, tries = 3, 12

// triesInPatience is how often what a try left can be waited for within the patience.
const triesInPatience = 3

// abandoned creates and goes away until it can be said what then becomes of the sandbox.
func (p *probe) abandoned(ctx context.Context, took time.Duration, part int) error {
	var left error
	var clean, leaks int
	for range tries {
		wish, err := p.wish()
		if err != nil {
			return err
		}
		began := time.Now()
		err = cut(ctx, took, part, func(ctx context.Context) error {
			_, err := p.driver.CreateSandbox(ctx, &computev1.CreateSandboxRequest{Sandbox: wish})
			return err
		})
		switch {
		case err == nil: // it was quicker than the one that was measured
			took = min(took, time.Since(began))
			continue
		case status.Code(err) != codes.Canceled:
			return fmt.Errorf("CreateSandbox of a good sandbox, before it was cut: %w", err)
		}
		if err := p.goneWithin(ctx, p.patience/triesInPatience, wish.GetId()); err != nil {
			left = err
			leaks++
		} else {
			clean++
		}
		switch {
		case leaks == decisive:
			return fmt.Errorf("%d of %d left something that is there, as of the last one: %w", leaks, leaks+clean, left)
		case clean == decisive:
			return nil
		}
	}
	return notMade(fmt.Sprintf("a create that can be cut short at %d/%d of its time: of %d tries, %d were", part, points, tries, leaks+clean))
}

func cutsStops(ctx context.Context, p *probe) error {
	b, err := p.up(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := p.stop(ctx, b.id); err != nil {
		return err
	}
	took := time.Since(began)
	for i := range points {
		if err := p.start(ctx, b); err != nil {
			return fmt.Errorf("after stop %d: %w", i, err)
		}
		_ = cut(ctx, took, i, func(ctx context.Context) error { return p.stop(ctx, b.id) }) // whatever it says, the next one decides
		if err := errors.Join(p.stop(ctx, b.id), p.over(ctx, b.id)); err != nil {
			return fmt.Errorf("after a stop that was cut at %d/%d: %w", i, points, err)
		}
	}
	return nil
}

func cutsStarts(ctx context.Context, p *probe) error {
	b, err := p.stopped(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := p.start(ctx, b); err != nil {
		return err
	}
	took := time.Since(began)
	for i := range points {
		if err := p.stop(ctx, b.id); err != nil {
			return err
		}
		request, err := p.starting(b)
		if err != nil {
			return err
		}
		call := func(ctx context.Context) error {
			answer, err := p.driver.StartSandbox(ctx, request)
			if err == nil {
				b.identity = answer.GetRuntimeIdentity()
			}
			return err
		}
		_ = cut(ctx, took, i, call) // whatever it says, the next one decides
		// What is still being undone may be met by the next call, which then says to try again.
		err = p.eventually(ctx, "the start can be repeated", func() error { return call(ctx) })
		if err := errors.Join(err, p.reach(ctx, b.id, phase.Ready)); err != nil {
			return fmt.Errorf("after a start that was cut at %d/%d: %w", i, points, err)
		}
	}
	return nil
}

func cutsDeletes(ctx context.Context, p *probe) error {
	first, err := p.create(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := p.ends(ctx, first.id); err != nil {
		return err
	}
	took := time.Since(began)
	return together(points, func(i int) error {
		b, err := p.create(ctx)
		if err != nil {
			return err
		}
		_ = cut(ctx, took, i, func(ctx context.Context) error { _, err := p.delete(ctx, b.id); return err }) // the next one decides
		_, err = p.delete(ctx, b.id)
		if err := errors.Join(err, p.gone(ctx, b.id)); err != nil {
			return fmt.Errorf("after a delete that was cut at %d/%d: %w", i, points, err)
		}
		return nil
	})
}

func cutsWatches(ctx context.Context, p *probe) error {
	const watches = 40
	there, err := p.oneUp(ctx)
	if err != nil {
		return err
	}
	err = together(watches, func(int) error {
		s, err := p.watch(ctx)
		if err != nil {
			return err
		}
		defer s.close() // once the driver has begun with it
		_, err = s.await(ctx, p.patience, there.id, 0, "there", func(t told) bool { return t.sandbox != nil })
		return err
	})
	if err != nil {
		return err
	}
	s, err := p.watch(ctx)
	if err != nil {
		return err
	}
	b, err := p.create(ctx)
	if err != nil {
		return err
	}
	if _, err := p.tells(ctx, s, b.id, 0, phase.Ready); err != nil {
		return err
	}
	_, err = p.get(ctx, b.id)
	return expect("GetSandbox", err, codes.OK)
}
