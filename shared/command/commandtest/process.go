package commandtest

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Process is a running program. Its methods belong to the test's goroutine.
type Process struct {
	t              testing.TB
	Stdout, Stderr Transcript
	// Stop ends it as a signal does, and returns the exit code; again and again the same.
	Stop func() int
}

// Line waits for a log line with that message, and returns its fields.
func (p *Process) Line(message string) map[string]any { p.t.Helper(); return p.lineOf(message) }

// lineOf waits for a line with one of the messages.
func (p *Process) lineOf(messages ...string) (found map[string]any) {
	p.t.Helper()
	Eventually(p.t, "a line says "+strings.Join(messages, " or "), func() bool {
		for line := range strings.Lines(p.Stderr.String()) {
			var fields map[string]any
			if json.Unmarshal([]byte(line), &fields) != nil {
				continue
			}
			if message, _ := fields["message"].(string); slices.Contains(messages, message) {
				found = fields
				return true
			}
		}
		return false
	})
	return found
}

// Logged waits for a log line with that message, and returns the text of one of its fields; none is empty.
func (p *Process) Logged(message, key string) string {
	p.t.Helper()
	text, _ := p.Line(message)[key].(string)
	return text
}

// Waiting is the message of a daemon that waits at its start.
const Waiting = "the start waits: not ready until what is said here is mended"

// Get asks the admin listener, also of a daemon that waits at its start; code 0 comes with why there is no answer.
func (p *Process) Get(path string) (code int, body string) {
	p.t.Helper()
	address, _ := p.lineOf("starting", Waiting)["address"].(string)
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	client := &http.Client{Timeout: Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// AwaitReady waits until the readiness check says so.
func (p *Process) AwaitReady() {
	p.t.Helper()
	Eventually(p.t, "it is ready", func() bool { code, _ := p.Get("/readyz"); return code == http.StatusOK })
}

// Metric reads one series, written as the program does; 0 when there is none.
func (p *Process) Metric(series string) float64 {
	p.t.Helper()
	_, text := p.Get("/metrics")
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				p.t.Fatalf("%s: %v", line, err)
			}
			return n
		}
	}
	return 0
}
