//go:build portcullis_long

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// printed is what up says about how to look inside, by the beginning of the title above it.
type printed map[string][]string

var titles = []string{"The cluster", "The gateway", "The allowlist", "The same, raw", "Metrics", "Logs"}

// read takes the lines below each title. A title that is not known is an error: what stands below it is looked at by nobody.
func read(t *testing.T, out string) printed {
	t.Helper()
	_, out, found := strings.Cut(out, "\nThe cluster")
	if !found {
		t.Fatalf("it does not say how to look inside:\n%s", out)
	}
	all, title := printed{}, ""
	for line := range strings.Lines("The cluster" + out) {
		line = strings.TrimRight(line, "\n")
		switch entry, isEntry := strings.CutPrefix(line, "  "); {
		case isEntry:
			all[title] = append(all[title], entry)
		case line == "" || strings.HasPrefix(line, "It is up"):
			title = "nothing"
		default:
			title = ""
			for _, known := range titles {
				if strings.HasPrefix(line, known) {
					title = known
				}
			}
			if title == "" {
				t.Fatalf("nobody looks at what stands below %q", line)
			}
		}
	}
	for _, known := range titles {
		if len(all[known]) == 0 {
			t.Errorf("nothing stands below %q", known)
		}
	}
	return all
}

// expectations say what must come of a printed command. Each is tried until it holds: what the command asks for may take its time.
var expectations = []struct {
	command *regexp.Regexp
	holds   func(p *person, s *shell, out string) error
}{
	{regexp.MustCompile(`^kubectl -n \S+ get `), func(_ *person, _ *shell, out string) error {
		return contains(out, "sandbox", "/box", "service/", "secret/", "networkpolicy")
	}},
	{regexp.MustCompile(`^kubectl label namespace \S+ \S+-\s+#`), func(p *person, s *shell, _ string) error {
		return lacks(s.allowed(), p.prefix+"-team-a")
	}},
	{regexp.MustCompile(`^kubectl label namespace \S+ \S+=`), func(p *person, s *shell, _ string) error {
		return contains(s.allowed(), p.prefix+"-team-a")
	}},
	{regexp.MustCompile(` list `), func(_ *person, _ *shell, out string) error { return contains(out, "/box  Ready") }},
	{regexp.MustCompile(` create `), func(_ *person, s *shell, _ string) error { return contains(s.list(), "/another  Ready") }},
	{regexp.MustCompile(` exec .* echo hello$`), func(_ *person, _ *shell, out string) error { return contains(out, "hello") }},
	{regexp.MustCompile(` stop `), func(_ *person, s *shell, _ string) error { return contains(s.list(), "/box  Stopped") }},
	{regexp.MustCompile(` start `), func(_ *person, s *shell, _ string) error { return contains(s.list(), "/box  Ready") }},
	{regexp.MustCompile(` delete `), func(_ *person, s *shell, _ string) error { return lacks(s.list(), "/box ") }},
	{regexp.MustCompile(`/nswatch allowlist show `), func(p *person, _ *shell, out string) error { return contains(out, p.prefix+"-team-a", "heartbeat") }},
}

func contains(text string, parts ...string) error {
	for _, part := range parts {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(part)) {
			return fmt.Errorf("there is no %q in\n%s", part, text)
		}
	}
	return nil
}

func lacks(text, part string) error {
	if text == "" || strings.Contains(text, part) {
		return fmt.Errorf("%q is in\n%s", part, text)
	}
	return nil
}

// shell does what is printed, in its order.
type shell struct {
	p     *person
	said  printed
	setup []string // what changes the shell itself
}

// allowed is the list as it is now, without its history.
func (s *shell) allowed() string {
	now, _, _ := strings.Cut(s.asks(s.said["The allowlist"][0]), "\nCHANGES")
	return now
}

// asks runs a command and returns what it says, or "" when it fails.
func (s *shell) asks(command string) string {
	out, err := s.p.tries("bash", "-c", strings.Join(append(s.setup, command), "\n"))
	if err != nil {
		return ""
	}
	return out
}

func (s *shell) list() string {
	for _, line := range s.said["The gateway"] {
		if strings.Contains(line, " list ") {
			return s.asks(line)
		}
	}
	return ""
}

// followAll does everything that is printed.
func followAll(p *person, out string) {
	p.t.Helper()
	s := &shell{p: p, said: read(p.t, out)}
	told := s.events()
	for _, title := range []string{"The cluster", "The gateway", "The allowlist"} {
		for _, line := range s.said[title] {
			s.follow(line)
		}
	}
	if told := told(); !strings.Contains(told, "PhaseChanged") || !strings.Contains(told, "Removed") {
		p.t.Errorf("the events are\n%s", told)
	}
	for _, line := range s.said["The same, raw"] {
		s.readRaw(line)
	}
	for _, line := range s.said["Metrics"] {
		s.scrape(line)
	}
	for _, line := range s.said["Logs"] {
		s.readLog(line)
	}
}

// follow does one line.
func (s *shell) follow(line string) {
	t := s.p.t
	t.Helper()
	switch {
	case strings.HasPrefix(line, "#"), strings.Contains(line, "/cmd/gateway events "): // the one says nothing to do, the other runs beside
		return
	case strings.HasPrefix(line, "export "), strings.HasPrefix(line, "cd "):
		s.setup = append(s.setup, line)
		return
	}
	t.Log(line)
	out := s.p.does("bash", "-c", strings.Join(append(s.setup, line), "\n"))
	for _, e := range expectations {
		if e.command.MatchString(line) {
			cluster.Eventually(t, line, func(context.Context) error {
				err := e.holds(s.p, s, out)
				if err != nil && readsOnly(line) {
					out = s.asks(line)
				}
				return err
			})
			return
		}
	}
	t.Errorf("nobody knows what %q is to do", line)
}

// readsOnly reports whether a command can be repeated.
func readsOnly(line string) bool {
	return strings.Contains(line, " get ") || strings.Contains(line, " list ") || strings.Contains(line, " show ")
}

// events runs that command of the gateway beside all others, until it is asked what was told.
func (s *shell) events() (told func() string) {
	var lines []string
	for _, line := range s.said["The gateway"] {
		if strings.HasPrefix(line, "export ") || strings.HasPrefix(line, "cd ") || strings.Contains(line, " events ") {
			lines = append(lines, line)
		}
	}
	last := strings.TrimSpace(lines[len(lines)-1])
	if !strings.Contains(last, " events ") {
		s.p.t.Fatal("there is no command for events")
	}
	ctx, cancel := context.WithCancel(s.p.t.Context())
	c := s.p.command(ctx, "bash", "-c", strings.Join(append(lines[:len(lines)-1], "exec "+last), "\n"))
	var out bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &out, &out, limit
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Setpgid = true // it is ended as at a terminal: go run removes then what it built
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGINT) }
	if err := c.Start(); err != nil {
		s.p.t.Fatal(err)
	}
	return func() string {
		cancel()
		_ = c.Wait()
		return out.String()
	}
}

var natsLine = regexp.MustCompile(`^nats --server (\S+) kv (get|watch) (\S+) (\S+)( --raw)?$`)

// readRaw reads what the line names as that program does, which need not be installed.
func (s *shell) readRaw(line string) {
	t := s.p.t
	t.Helper()
	parts := natsLine.FindStringSubmatch(line)
	if parts == nil {
		t.Errorf("nobody knows what %q is to do", line)
		return
	}
	conn, err := nats.Connect(parts[1])
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	defer conn.Close()
	stream, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := stream.KeyValue(t.Context(), parts[3])
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if entry, err := bucket.Get(t.Context(), parts[4]); err != nil || len(entry.Value()) == 0 {
		t.Errorf("%s: %v", line, err)
	}
}

var metricsLine = regexp.MustCompile(`^(http://\S+)/metrics\s+(/readyz\?verbose)\s+# (\S+), process (\d+)$`)

// scrape reads both addresses, and looks whether the process is the daemon.
func (s *shell) scrape(line string) {
	t := s.p.t
	t.Helper()
	parts := metricsLine.FindStringSubmatch(line)
	if parts == nil {
		t.Errorf("nobody knows what %q is to do", line)
		return
	}
	for path, want := range map[string]string{"/metrics": "portcullis_build_info", parts[2]: "ok"} {
		body, err := fetch(t.Context(), parts[1]+path)
		if err == nil {
			err = contains(body, want)
		}
		if err != nil {
			t.Errorf("%s%s: %v", parts[1], path, err)
		}
	}
	pid, err := strconv.Atoi(parts[4])
	if err != nil {
		t.Fatal(err)
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.Contains(string(name), "/"+parts[3]+"\x00") {
		t.Errorf("process %d is %q, %v", pid, name, err)
	}
}

func fetch(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New(answer.Status))
	}
	return string(body), errors.Join(err, answer.Body.Close())
}

// readLog demands that the file has lines, those of a daemon JSON.
func (s *shell) readLog(path string) {
	t := s.p.t
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		t.Errorf("the log %s has %d bytes, %v", path, len(text), err)
		return
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	if !json.Valid(first) && filepath.Base(path) != "nats-server.log" {
		t.Errorf("the log %s begins with %s", path, first)
	}
}
