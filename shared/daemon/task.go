package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// task is one member of a Group. err may be read once done is closed.
type task struct {
	name   string
	run    func(context.Context) error
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error
}

// start runs the task in a goroutine. ended must have room for it.
func (t *task) start(ctx context.Context, ended chan<- *task, log zerolog.Logger) {
	// Not a child of ctx: the group decides when each task is cancelled, and only
	// the values of ctx pass on.
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	t.done = make(chan struct{})
	go func() {
		// The task may end by runtime.Goexit, which only deferred calls see.
		defer func() {
			close(t.done)
			ended <- t
		}()
		t.err = fmt.Errorf("task %q ended its goroutine without returning", t.name)
		t.err = t.call(log)
	}()
}

// call runs the function and turns a panic into an error. The stack goes to the
// log, since the error is for a person.
func (t *task) call(log zerolog.Logger) (err error) {
	defer func() {
		if value := recover(); value != nil {
			log.Error().Str(telemetry.KeyTask, t.name).Str(telemetry.KeyPanic, panicText(value)).
				Bytes(telemetry.KeyStack, debug.Stack()).Msg("task panicked")
			err = fmt.Errorf("task %q panicked: %s", t.name, panicText(value))
		}
	}()
	if err := t.run(t.ctx); err != nil {
		return fmt.Errorf("task %q: %w", t.name, err)
	}
	return nil
}

func (t *task) hasEnded() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// endedByCancel reports that the task's error only repeats that it was cancelled.
func (t *task) endedByCancel() bool {
	cause := context.Cause(t.ctx)
	return cause != nil && (errors.Is(t.err, context.Canceled) || errors.Is(t.err, cause))
}

// maxPanicText cuts the text of panic values, in bytes; they can be anything.
const maxPanicText = 256

func panicText(value any) string {
	text := fmt.Sprint(value)
	if len(text) > maxPanicText {
		text = text[:maxPanicText] + "..."
	}
	return text
}
