package telemetry

import (
	"fmt"

	"github.com/go-logr/logr"
	"github.com/rs/zerolog"
)

// OTelLog stands between the OpenTelemetry libraries and the log. What they report quotes the OTEL_ variables that they
// read on their own, such as headers with credentials, and goes to standard error in a format of theirs unless a
// program tells them otherwise. Here the fixed text of a message and the type of an error pass; texts of errors and
// values are withheld.
//
// The program that owns the process gives it to the libraries, before anything of theirs is made:
//
//	o := telemetry.OTelLog{Log: log}
//	otel.SetLogger(o.Logger())
//	otel.SetErrorHandler(o)
//
// The zero OTelLog writes nothing.
type OTelLog struct {
	Log zerolog.Logger
}

// Handle fulfils otel.ErrorHandler.
func (o OTelLog) Handle(err error) { o.problem(err, "an error") }

// Logger is for otel.SetLogger. Errors become warnings, everything else debug lines.
func (o OTelLog) Logger() logr.Logger { return logr.New(otelSink{o}) }

func (o OTelLog) problem(err error, text string) {
	o.Log.Warn().Str(KeyKind, fmt.Sprintf("%T", err)).Str(KeyCause, text).
		Msg("OpenTelemetry reports a problem; its text is withheld, as it may quote the environment: check the OTEL_ variables")
}

// otelSink is the logr side of an OTelLog.
type otelSink struct{ OTelLog }

var _ logr.LogSink = otelSink{}

// Init fulfils logr.LogSink.
func (otelSink) Init(logr.RuntimeInfo) {}

// Enabled fulfils logr.LogSink. The libraries' warnings have level 1, the rest is for their developers.
func (s otelSink) Enabled(level int) bool { return level <= 1 }

// Info fulfils logr.LogSink.
func (s otelSink) Info(_ int, text string, _ ...any) {
	s.Log.Debug().Str(KeyCause, text).Msg("OpenTelemetry reports; the details are withheld, as they may quote the environment")
}

// Error fulfils logr.LogSink.
func (s otelSink) Error(err error, text string, _ ...any) { s.problem(err, text) }

// WithValues fulfils logr.LogSink.
func (s otelSink) WithValues(...any) logr.LogSink { return s }

// WithName fulfils logr.LogSink.
func (s otelSink) WithName(string) logr.LogSink { return s }
