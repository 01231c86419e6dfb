package companionstest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/companions/workload"
)

// asWorkload makes a test program play the workload.
const asWorkload = "play-the-workload"

// PlayWorkload plays the workload and exits, when the test program was called by Command.
func PlayWorkload() {
	if len(os.Args) < 2 || os.Args[1] != asWorkload {
		return
	}
	code, err := workload.Run(os.Args[:2], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// Command is what runs the workload with args.
func Command(t testing.TB, args ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{self, asWorkload}, args...)
}

// Address returns a loopback address that nothing listens on. Its host is one of sixteen million, and
// its port is none that the kernel gives away, so that it stays free until the test uses it.
func Address() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails
	return net.JoinHostPort(fmt.Sprintf("127.%d.%d.%d", 1+b[0]%254, b[1], 1+b[2]%254), "5500")
}

// Listen listens on an address.
func Listen(t testing.TB, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Limit returns a context that bounds everything a test waits for.
func Limit(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Output keeps what a process writes. Make it with NewOutput.
type Output struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{}
}

// NewOutput makes an Output.
func NewOutput() *Output { return &Output{changed: make(chan struct{})} }

// Write keeps b.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.b.Write(b)
}

// String returns everything so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Await waits until want was written, and returns everything so far.
func (o *Output) Await(ctx context.Context, t testing.TB, want string) string {
	t.Helper()
	for {
		o.mu.Lock()
		text, changed := o.b.String(), o.changed
		o.mu.Unlock()
		if strings.Contains(text, want) {
			return text
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("the output is %q, without %q", text, want)
		}
	}
}

// Child waits until the workload's family has a child, and returns that child's process id.
func (o *Output) Child(ctx context.Context, t testing.TB) int {
	t.Helper()
	_, after, _ := strings.Cut(o.Await(ctx, t, " lives\n"), "child ")
	pid, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// AwaitGone waits until a process runs no more. It may still be a zombie.
func AwaitGone(ctx context.Context, t testing.TB, pid int) {
	t.Helper()
	awaitState(ctx, t, pid, "ZX")
}

// AwaitStopped waits until a process is stopped, as by SIGSTOP.
func AwaitStopped(ctx context.Context, t testing.TB, pid int) {
	t.Helper()
	awaitState(ctx, t, pid, "T")
}

func awaitState(ctx context.Context, t testing.TB, pid int, states string) {
	t.Helper()
	for {
		is := state(pid)
		if strings.Contains(states, is) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("process %d is in state %s, not one of %s", pid, is, states)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// state returns the letter of a process's state; X when there is none.
func state(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "X"
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	letter, _, _ := strings.Cut(after, " ")
	return letter
}

// ChildOf returns the process id of the child of parent whose command line ends with word.
func ChildOf(t testing.TB, parent int, word string) int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		pids, _ := os.ReadFile(list) // a thread may end meanwhile
		for _, pid := range strings.Fields(string(pids)) {
			line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			if strings.HasSuffix(string(line), word+"\x00") {
				n, _ := strconv.Atoi(pid)
				return n
			}
		}
	}
	t.Fatalf("process %d has no child that runs %s", parent, word)
	return 0
}
