package bench_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// monotonic is the machine's monotonic clock.
func monotonic(b *testing.B) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		b.Error(err)
	}
	return time.Duration(now.Nano())
}

// grow makes labelled namespaces until there are so many.
func (f *field) grow(listed int) {
	f.b.Helper()
	key, value, _ := strings.Cut(f.i.Label, "=")
	todo := make(chan string)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for name := range todo {
				_, err := f.i.Cluster.Client().CoreV1().Namespaces().Create(f.b.Context(), &corev1.Namespace{
					ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{key: value}},
				}, metav1.CreateOptions{})
				if err != nil {
					f.b.Error(err)
				}
			}
		})
	}
	for len(f.names) < listed {
		name := fmt.Sprintf("team-%05d-workloads", len(f.names))
		f.names = append(f.names, name)
		todo <- name
	}
	close(todo)
	workers.Wait()
}

// load is what an installation uses while something goes on.
type load struct {
	took            time.Duration
	watcher, reader time.Duration
	bytes           float64
}

func (f *field) load(nswatch *program.Process, r *reader, during func()) load {
	f.b.Helper()
	bytes := func() float64 {
		v, err := f.server.Raw().Varz(nil)
		if err != nil {
			f.b.Fatal(err)
		}
		return float64(v.InBytes + v.OutBytes)
	}
	start, b0, w0, r0 := time.Now(), bytes(), f.cpu(nswatch.PID()), f.cpu(r.pid())
	during()
	return load{time.Since(start), f.cpu(nswatch.PID()) - w0, f.cpu(r.pid()) - r0, bytes() - b0}
}

// cpu is the processor time of a process.
func (f *field) cpu(pid int) time.Duration {
	f.b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		f.b.Fatal(err)
	}
	// The name may hold spaces; after it come the state and, as the 12th and 13th, the times in hundredths.
	fields := strings.Fields(string(stat)[strings.LastIndexByte(string(stat), ')')+1:])
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			f.b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func resident(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// reader is a listreader process.
type reader struct {
	b       *testing.B
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
}

func (f *field) startReader() *reader {
	f.b.Helper()
	path := cluster.Build(f.b, "listreader", "test", "./bench/cmd/listreader")
	cmd := exec.CommandContext(context.WithoutCancel(f.b.Context()), path,
		"-url", f.server.URL(), "-gateway", f.i.GatewayID, "-keys", f.i.PublicKeysFile())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		f.b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.b.Fatal(err)
	}
	f.b.Cleanup(func() { _ = cmd.Process.Kill() })
	return &reader{b: f.b, cmd: cmd, in: in, answers: bufio.NewScanner(out)}
}

func (r *reader) pid() int { return r.cmd.Process.Pid }

func (r *reader) tell(line string) {
	r.b.Helper()
	if _, err := fmt.Fprintln(r.in, line); err != nil {
		r.b.Fatal(err)
	}
}

func (r *reader) answer() string {
	r.b.Helper()
	if !r.answers.Scan() {
		r.b.Fatalf("listreader ended: %v", r.answers.Err())
	}
	return r.answers.Text()
}

// expect makes the reader wait for an answer to the namespace, from now on. The result waits for that and says when
// the reader first gave it.
func (r *reader) expect(ns string, trusted bool) (at func() time.Duration) {
	r.b.Helper()
	r.tell(fmt.Sprintf("await %s %t", ns, trusted))
	return func() time.Duration {
		r.b.Helper()
		nanoseconds, err := strconv.ParseInt(r.answer(), 10, 64)
		if err != nil {
			r.b.Fatal(err)
		}
		return time.Duration(nanoseconds)
	}
}

func (r *reader) check(ns string) (nanoseconds float64, allocations int) {
	r.b.Helper()
	r.tell("check " + ns)
	if _, err := fmt.Sscan(r.answer(), &nanoseconds, &allocations); err != nil {
		r.b.Fatal(err)
	}
	return nanoseconds, allocations
}

func (r *reader) stop() {
	r.b.Helper()
	_ = r.in.Close()
	if err := r.cmd.Wait(); err != nil {
		r.b.Errorf("listreader: %v", err)
	}
}
