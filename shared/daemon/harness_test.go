package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/portcullis-mesh/portcullis/shared/telemetry"
)

// patience bounds waits for things that should come at once.
const patience = 30 * time.Second

// TestMain lets the test binary play a daemon for the tests in process_test.go.
func TestMain(m *testing.M) {
	if scenario := os.Getenv(scenarioVariable); scenario != "" {
		os.Exit(playDaemon(scenario))
	}
	os.Exit(m.Run())
}

// noLeaks must be called before anything registers a cleanup.
func noLeaks(t *testing.T) {
	t.Helper()
	known := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, known) })
}

// eventually waits until condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

// receive takes a value that should come at once.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		t.Fatalf("nothing came: %s", what)
		panic("unreachable")
	}
}

// logBuffer collects log lines.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *logBuffer) logger(level zerolog.Level) zerolog.Logger {
	return telemetry.NewLogger(b, level, "test")
}

// lines returns the lines with the message given.
func (b *logBuffer) lines(t *testing.T, message string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for text := range strings.Lines(b.String()) {
		line := map[string]any{}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("log line is not JSON: %v: %s", err, text)
		}
		if line[telemetry.KeyMessage] == message {
			found = append(found, line)
		}
	}
	return found
}

func newChecks(t *testing.T, probing Probing) *Checks {
	t.Helper()
	checks, err := NewChecks(probing, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return checks
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func passing(context.Context) error { return nil }

// start runs f and returns its result when asked.
func start(f func(context.Context) error) (cancel context.CancelCauseFunc, result <-chan error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	return cancel, done
}
