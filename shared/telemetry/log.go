package telemetry

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// levels is ordered from most to least talkative, for the error text.
var levels = [...]zerolog.Level{
	zerolog.TraceLevel, zerolog.DebugLevel, zerolog.InfoLevel, zerolog.WarnLevel, zerolog.ErrorLevel,
}

// ParseLevel turns the text of a setting into a level: trace, debug, info, warn or
// error, in lower case. zerolog's own parser also takes numbers, the empty string
// and levels that end the process. On error it returns zerolog.Disabled and the
// error lists the choices.
func ParseLevel(text string) (zerolog.Level, error) {
	names := make([]string, len(levels))
	for i, level := range levels {
		if text == level.String() {
			return level, nil
		}
		names[i] = level.String()
	}
	return zerolog.Disabled, fmt.Errorf("log level %q is unknown: use one of %s", text, strings.Join(names, ", "))
}

// NewLogger returns a logger that writes one JSON object per line to w, each in a
// single Write, for lines at level and above. Every line carries [KeyTime],
// [KeyLevel] and [KeyDaemon]. w must be safe for concurrent use, as os.Stderr is.
//
// The logger depends on no zerolog global except the names and default encodings
// that zerolog sets itself, which a test pins.
func NewLogger(w io.Writer, level zerolog.Level, daemon string) zerolog.Logger {
	return newLogger(w, level, daemon, time.Now)
}

func newLogger(w io.Writer, level zerolog.Level, daemon string, now func() time.Time) zerolog.Logger {
	// zerolog's Timestamp has its format and its zone in globals; a hook has not.
	stamp := zerolog.HookFunc(func(e *zerolog.Event, _ zerolog.Level, _ string) {
		e.Str(KeyTime, now().UTC().Format(time.RFC3339Nano))
	})
	return zerolog.New(w).Level(level).Hook(stamp).With().Str(KeyDaemon, daemon).Logger()
}

// Component returns a child of log whose lines carry [KeyComponent]. Wiring makes
// one per component; a component that makes children of its own uses a path such
// as "grpc/health", because a repeated key would appear twice in the line.
func Component(log zerolog.Logger, name string) zerolog.Logger {
	return log.With().Str(KeyComponent, name).Logger()
}

// DurationMS returns d in the unit of [KeyDurationMS]. zerolog's Dur takes its unit
// from a global.
func DurationMS(d time.Duration) float64 {
	return float64(d.Microseconds()) / 1e3
}
