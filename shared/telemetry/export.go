package telemetry

import (
	"context"

	"github.com/rs/zerolog"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// reportingExporter logs when the export begins to fail and when it works again,
// and keeps the error from the SDK, which would print it through a process-wide
// handler in another format. The SDK calls ExportSpans from one goroutine at a
// time.
type reportingExporter struct {
	sdktrace.SpanExporter
	ctx context.Context // its end aborts every export
	log zerolog.Logger

	failures int // exports failed since the last success
}

// ExportSpans always returns nil; see the type.
func (e *reportingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.ctx, func() { cancel(context.Cause(e.ctx)) })()

	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil:
		if e.failures == 0 {
			e.log.Warn().Err(err).Msg("traces cannot be exported; spans are dropped until it works again")
		}
		e.failures++
	case e.failures > 0:
		e.log.Info().Int(KeyCount, e.failures).Msg("traces are exported again after failures")
		e.failures = 0
	}
	return nil
}
