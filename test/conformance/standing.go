package conformance

import (
	"context"
	"sync"
)

// standing is what several checks look at and none changes, so that it is made once when many checks are made. A check that is made
// alone makes its own.
type standing struct {
	p     *probe
	taken *once[*life]
	idle  *once[*box]
	lost  *once[*box]
	alive *once[*box]
}

func newStanding(p *probe) *standing {
	return &standing{p: p, taken: new(once[*life]), idle: new(once[*box]), lost: new(once[*box]), alive: new(once[*box])}
}

// once is a value that the first who asks for it makes.
type once[T any] struct {
	do    sync.Once
	value T
	err   error
}

func (o *once[T]) get(first func() (T, error)) (T, error) {
	o.do.Do(func() { o.value, o.err = first() })
	return o.value, o.err
}

type standingKey struct{}

// withStanding lets the checks that are made with the context share. end removes what they share.
func withStanding(ctx context.Context, target Target) (shared context.Context, end func() error, err error) {
	p, err := newProbe(ctx, target)
	if err != nil {
		return nil, nil, err
	}
	c := newStanding(p)
	return context.WithValue(ctx, standingKey{}, c), func() error { return p.end(ctx) }, nil
}

// standingOf is what the check shares with others, or its own.
func standingOf(ctx context.Context, p *probe) *standing {
	if c, ok := ctx.Value(standingKey{}).(*standing); ok {
		return c
	}
	return newStanding(p)
}

// oneLife is the life of a sandbox under a watch.
func (p *probe) oneLife(ctx context.Context) (*life, error) {
	c := standingOf(ctx, p)
	return c.taken.get(func() (*life, error) { return c.p.live(ctx) })
}

// oneStopped is a stopped sandbox that no check may start.
func (p *probe) oneStopped(ctx context.Context) (*box, error) {
	c := standingOf(ctx, p)
	return c.idle.get(func() (*box, error) { return c.p.stopped(ctx) })
}

// oneUp is a sandbox that runs, and that no check may change.
func (p *probe) oneUp(ctx context.Context) (*box, error) {
	c := standingOf(ctx, p)
	return c.alive.get(func() (*box, error) { return c.p.up(ctx) })
}

// neighbour is oneUp for a check that works in the same workspace as it, and does what must not harm it.
func (p *probe) neighbour(ctx context.Context) (*box, error) {
	b, err := p.oneUp(ctx)
	if err == nil {
		p.workspace = b.wish.GetWorkspace()
	}
	return b, err
}

// oneDeleted is a sandbox that was, so that all that is known of it is right but that it is not there any more.
func (p *probe) oneDeleted(ctx context.Context) (*box, error) {
	c := standingOf(ctx, p)
	return c.lost.get(func() (*box, error) {
		b, err := c.p.create(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := c.p.delete(ctx, b.id); err != nil {
			return nil, err
		}
		return b, c.p.gone(ctx, b.id)
	})
}
