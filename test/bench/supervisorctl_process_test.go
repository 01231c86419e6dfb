package bench_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/program"
)

// process is a supervisorctl that may live longer than package program lets one live.
type process struct {
	b    *testing.B
	cmd  *exec.Cmd
	log  string
	http string // where its metrics are
}

// longRun starts a daemon with the settings and waits until it is ready.
func longRun(b *testing.B, settings string) *process {
	b.Helper()
	p := &process{b: b, log: filepath.Join(b.TempDir(), "log")}
	file, err := os.Create(p.log)
	if err != nil {
		b.Fatal(err)
	}
	p.cmd = exec.CommandContext(context.WithoutCancel(b.Context()), program.Path(b, "supervisorctl"), "--config", program.Settings(b, settings))
	p.cmd.Env, p.cmd.Stderr = []string{"HOME=" + b.TempDir()}, file
	err = errors.Join(p.cmd.Start(), file.Close())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.stop)
	p.await("it is not ready", func() error {
		if err := p.listening(); err != nil {
			return err
		}
		return p.get("/readyz", func(*bufio.Scanner) error { return nil })
	})
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// listening reads from the log where the process listens.
func (p *process) listening() error {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		var entry struct{ Message, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "starting" {
			p.http = "http://" + entry.Address
			return nil
		}
	}
	return errors.New("it has not said where it listens")
}

// stop ends the process; more than once is as good as once.
func (p *process) stop() {
	if p.cmd.ProcessState == nil && p.cmd.Process.Signal(syscall.SIGTERM) == nil {
		_ = p.cmd.Wait()
	}
}

func (p *process) get(path string, read func(*bufio.Scanner) error) error {
	ctx, cancel := context.WithTimeout(p.b.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.http+path, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d", path, answer.StatusCode)
	}
	return read(bufio.NewScanner(answer.Body))
}

// metric is the sum of the series of a metric with the label; "" is any.
func (p *process) metric(name, label string) (sum float64, err error) {
	return sum, p.get("/metrics", func(lines *bufio.Scanner) error {
		for lines.Scan() {
			series, value, _ := strings.Cut(lines.Text(), " ")
			if family, set, _ := strings.Cut(series, "{"); family == name && strings.Contains(set, label) {
				v, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return err
				}
				sum += v
			}
		}
		return lines.Err()
	})
}

// await waits for longer than a test would.
func (p *process) await(what string, condition func() error) {
	p.b.Helper()
	for end := time.Now().Add(15 * time.Minute); ; time.Sleep(250 * time.Millisecond) {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(p.log)
			p.b.Fatalf("%s: %v\n%s", what, err, text)
		}
	}
}

// memory is a line of what the kernel says about the process, in bytes.
func (p *process) memory(line string) int64 {
	p.b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid()))
	if err != nil {
		p.b.Fatal(err)
	}
	for text := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(text, line); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				p.b.Fatal(err)
			}
			return kib << 10
		}
	}
	p.b.Fatalf("the kernel does not say %s", line)
	return 0
}
