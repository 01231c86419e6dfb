package program

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// client opens a connection per request: daemons stop and start under it.
var client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Entries are the log lines with the message so far, in order.
func (p *Process) Entries(message string) (entries []map[string]any) {
	for line := range strings.Lines(p.stderr.String()) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && entry["message"] == message {
			entries = append(entries, entry)
		}
	}
	return entries
}

// Logged waits for a log line with the message and returns the value of one of its keys.
func (p *Process) Logged(message, key string) string { p.t.Helper(); return p.logged(key, message) }

// Waiting is the message of a daemon that waits at its start.
const Waiting = "the start waits: not ready until what is said here is mended"

// logged waits for a log line with one of the messages, the first of which counts most.
func (p *Process) logged(key string, messages ...string) string {
	p.t.Helper()
	var value string
	cluster.Eventually(p.t, fmt.Sprintf("%s logs %q", p.name, messages), func(context.Context) error {
		for _, message := range messages {
			if entries := p.Entries(message); len(entries) > 0 {
				value, _ = entries[0][key].(string)
				return nil
			}
		}
		select {
		case <-p.done:
			p.t.Fatalf("%s ended: %v\n%s", p.name, p.cmd.ProcessState, p.stderr)
		default:
		}
		return errors.New("not yet")
	})
	return value
}

// AwaitLog waits until something that contains the text is logged.
func (p *Process) AwaitLog(text string) {
	p.t.Helper()
	cluster.Eventually(p.t, fmt.Sprintf("%s logs %q", p.name, text), func(context.Context) error {
		if !strings.Contains(p.stderr.String(), text) {
			return errors.New("not yet")
		}
		return nil
	})
}

// get asks the admin listener, once the daemon has said where that is; it stays there.
func (p *Process) get(ctx context.Context, path string) (status int, body string, err error) {
	url := "http://" + p.logged("address", "starting", Waiting) + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// Readiness asks for every readiness check.
func (p *Process) Readiness(ctx context.Context) (status int, body string, err error) {
	return p.get(ctx, "/readyz?verbose")
}

// AwaitReady waits until the daemon is ready.
func (p *Process) AwaitReady() {
	p.t.Helper()
	cluster.Eventually(p.t, p.name+" ready", func(ctx context.Context) error {
		status, body, err := p.Readiness(ctx)
		if err == nil && status != http.StatusOK {
			err = errors.New(body)
		}
		return err
	})
}

// AwaitNotReady waits until readiness is denied with a reason that contains want.
func (p *Process) AwaitNotReady(want string) {
	p.t.Helper()
	cluster.Eventually(p.t, p.name+" not ready: "+want, func(ctx context.Context) error {
		status, body, err := p.Readiness(ctx)
		if err == nil && (status != http.StatusServiceUnavailable || !strings.Contains(body, want)) {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	})
}

// Metric is the sum of the series of a metric whose labels contain all of the given texts, such as `cause="stale"`;
// zero when there is none. The error is that the daemon could not be asked.
func (p *Process) Metric(ctx context.Context, name string, labels ...string) (float64, error) {
	status, body, err := p.get(ctx, "/metrics")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("/metrics answers %d", status)
	}
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		series, value, found := strings.Cut(lines.Text(), " ")
		family, set, _ := strings.Cut(series, "{")
		if !found || family != name || !containsAll(set, labels) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s is %s", name, value)
		}
		sum += v
	}
	return sum, nil
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// AwaitMetric waits until the metric is at least so high.
func (p *Process) AwaitMetric(least float64, name string, labels ...string) {
	p.t.Helper()
	cluster.Eventually(p.t, fmt.Sprintf("%s has %s%v of at least %g", p.name, name, labels, least), func(ctx context.Context) error {
		value, err := p.Metric(ctx, name, labels...)
		if err == nil && value < least {
			err = fmt.Errorf("it is %g", value)
		}
		return err
	})
}

// Resident is the memory of the process in bytes that is in RAM, as the kernel counts it.
func (p *Process) Resident() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("the kernel does not say")
}
