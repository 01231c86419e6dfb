package demo

import (
	"context"
	"fmt"
)

// Act is one step of a story.
type Act struct {
	Title string
	// Proves is what a reader may believe afterwards.
	Proves string
	// Do shows it. It fails when something claimed was not seen.
	Do func(ctx context.Context, t *Timeline) error
}

// Play plays the acts in their order. An act that fails ends it, since the next ones build on it: the error says which.
func Play(ctx context.Context, t *Timeline, acts []Act) error {
	for i, act := range acts {
		t.Step(fmt.Sprintf("%d  %s", i+1, act.Title), act.Proves)
		err := act.Do(ctx, t)
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			continue
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if !Told(err) {
			t.add(Moment{Kind: Broken, What: act.Title, Detail: err.Error()})
			err = &shown{err}
		}
		return fmt.Errorf("step %d, %s: %w", i+1, act.Title, err)
	}
	return nil
}
