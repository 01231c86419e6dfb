package crd

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// settle bounds each operation of this package. An API server on two busy cores needs under a second.
	settle = time.Minute
	poll   = 50 * time.Millisecond
)

// refusal is an error that another attempt cannot mend.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// retry calls try until it reports done, refuses, or the bound is reached; then the error holds the last obstacle.
func retry(ctx context.Context, what string, try func(context.Context) (bool, error)) error {
	last := errors.New("no answer")
	err := wait.PollUntilContextTimeout(ctx, poll, settle, true, func(ctx context.Context) (bool, error) {
		done, err := try(ctx)
		if done {
			return true, nil
		}
		if _, refused := errors.AsType[refusal](err); refused || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return false, err
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return false, nil
	})
	switch {
	case err == nil:
		return nil
	case wait.Interrupted(err):
		return fmt.Errorf("%s: gave up, the last obstacle was: %w", what, last)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}
