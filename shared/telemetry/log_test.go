package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
)

func TestLogLine(t *testing.T) {
	var out bytes.Buffer
	zone := time.FixedZone("east", 2*60*60)
	now := func() time.Time { return time.Date(2026, 11, 29, 14, 0, 0, 120, zone) }
	log := newLogger(&out, zerolog.InfoLevel, "nswatch", now)

	log.Debug().Msg("below the level")
	component := Component(log, "source")
	component.Warn().Err(errors.New("refused")).Str(KeyAddress, "127.0.0.1:1").
		Float64(KeyDurationMS, DurationMS(1500*time.Microsecond)).Msg("cannot list namespaces")

	want := `{"level":"warn","daemon":"nswatch","component":"source","error":"refused","address":"127.0.0.1:1",` +
		`"duration_ms":1.5,"time":"2026-11-29T12:00:00.00000012Z","message":"cannot list namespaces"}` + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("log line (-want +got):\n%s", diff)
	}
}

func TestLoggerUsesTheClock(t *testing.T) {
	var out bytes.Buffer
	before := time.Now()
	log := NewLogger(&out, zerolog.TraceLevel, "tokenauth")
	log.Trace().Send()
	var line struct {
		Time time.Time `json:"time"`
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("line %q: %v", out.String(), err)
	}
	if line.Time.Before(before) || line.Time.After(time.Now()) {
		t.Errorf("line has the time %s", line.Time)
	}
}

// TestZerologDefaults pins the globals that our keys must agree with, since we do
// not set them.
func TestZerologDefaults(t *testing.T) {
	for got, want := range map[string]string{
		zerolog.LevelFieldName:   KeyLevel,
		zerolog.MessageFieldName: KeyMessage,
		zerolog.ErrorFieldName:   KeyError,
	} {
		if got != want {
			t.Errorf("zerolog writes %q, the key constant is %q", got, want)
		}
	}
}

func TestLinesDoNotMix(t *testing.T) {
	var out lockedBuffer
	log := NewLogger(&out, zerolog.InfoLevel, "lifecycle")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 50 {
				log.Info().Str(KeyCause, strings.Repeat("x", 300)).Msg("m")
			}
		})
	}
	wg.Wait()
	lines := strings.Split(strings.TrimSpace(out.buf.String()), "\n")
	if len(lines) != 1000 {
		t.Fatalf("got %d lines, want 1000", len(lines))
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Fatalf("line is not JSON: %s", line)
		}
	}
}

// lockedBuffer, as a file, takes each Write whole.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

var _ io.Writer = (*lockedBuffer)(nil)

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestParseLevel(t *testing.T) {
	for _, c := range []struct {
		text string
		want zerolog.Level
		ok   bool
	}{
		{"trace", zerolog.TraceLevel, true},
		{"debug", zerolog.DebugLevel, true},
		{"info", zerolog.InfoLevel, true},
		{"warn", zerolog.WarnLevel, true},
		{"error", zerolog.ErrorLevel, true},
		{"", zerolog.Disabled, false},
		{"INFO", zerolog.Disabled, false},
		{"1", zerolog.Disabled, false},
		{"fatal", zerolog.Disabled, false},
		{"disabled", zerolog.Disabled, false},
		{"warning\n", zerolog.Disabled, false},
	} {
		t.Run(c.text, func(t *testing.T) {
			got, err := ParseLevel(c.text)
			if got != c.want || (err == nil) != c.ok {
				t.Fatalf("ParseLevel(%q) = %v, %v", c.text, got, err)
			}
			if err != nil && !strings.Contains(err.Error(), "use one of trace, debug, info, warn, error") {
				t.Errorf("error does not list the choices: %v", err)
			}
		})
	}
}
