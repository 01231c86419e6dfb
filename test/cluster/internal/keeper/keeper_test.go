package keeper_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/keeper"
)

// limit ends a wait for something that will never happen.
const limit = 3 * time.Minute

// ownPlace gives the test a cluster of its own: the place follows TMPDIR.
func ownPlace(t *testing.T) context.Context {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := keeper.Down(ctx, keeper.ControlPlane); err != nil {
			t.Error(err)
		}
	})
	return ctx
}

func attach(ctx context.Context, t *testing.T) *keeper.Attachment {
	t.Helper()
	a, err := keeper.Attach(ctx, keeper.ControlPlane, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Release)
	return a
}

func ready(ctx context.Context, t *testing.T, kubeconfig string) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var status int
	client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&status)
	if status != http.StatusOK {
		t.Fatalf("the API server's /readyz answers %d", status)
	}
}

// programsBelow returns the processes whose command line names a path below dir.
func programsBelow(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		args, err := os.ReadFile(file) // empty for what has ended and was not waited for
		if err == nil && bytes.Contains(args, []byte(dir)) {
			found = append(found, string(bytes.ReplaceAll(args, []byte{0}, []byte{' '})))
		}
	}
	return strings.Join(found, "\n")
}

func gone(ctx context.Context, t *testing.T, dir string) {
	t.Helper()
	for programsBelow(t, dir) != "" {
		select {
		case <-ctx.Done():
			t.Fatalf("programs are left:\n%s", programsBelow(t, dir))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// reaped waits for the end of a killed keeper that this process started. Its programs die with its threads, its lock
// goes with the last of them, and until then the keeper counts as being in charge.
func reaped(ctx context.Context, t *testing.T, pid int) {
	t.Helper()
	for unix.Kill(pid, 0) == nil {
		select {
		case <-ctx.Done():
			t.Fatalf("the killed keeper %d is still there", pid)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestClusterIsSharedRestartedAndRemoved(t *testing.T) {
	ctx := ownPlace(t)
	first := attach(ctx, t)
	ready(ctx, t, first.Kubeconfig)

	second := attach(ctx, t)
	if second.PID != first.PID || second.Kubeconfig != first.Kubeconfig {
		t.Fatalf("a second user got another cluster: %+v, then %+v", first.State, second.State)
	}

	// A keeper that dies without a word takes its programs along and does not block the next.
	if err := unix.Kill(first.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	reaped(ctx, t, first.PID)
	gone(ctx, t, filepath.Join(os.Getenv("TMPDIR"), "portcullis-"))
	third := attach(ctx, t)
	if third.PID == first.PID {
		t.Fatal("a killed keeper's cluster is still handed out")
	}
	ready(ctx, t, third.Kubeconfig)

	if err := keeper.Down(ctx, keeper.ControlPlane); err != nil {
		t.Fatal(err)
	}
	gone(ctx, t, filepath.Join(os.Getenv("TMPDIR"), "portcullis-"))
	if _, err := os.Stat(third.Kubeconfig); !os.IsNotExist(err) {
		t.Errorf("the cluster's files are left: %v", err)
	}
	if _, err := keeper.Current(keeper.ControlPlane); err == nil {
		t.Error("a stopped cluster is reported as running")
	}
}

func TestStartThatFailsSaysWhy(t *testing.T) {
	ctx := ownPlace(t)
	// A directory where a file should go makes the keeper fail, at the first thing that it writes.
	dir := filepath.Join(os.Getenv("TMPDIR"), "portcullis-"+strconv.Itoa(os.Geteuid()), "controlplane")
	obstacle := filepath.Join(dir, "state.json.tmp")
	if err := os.MkdirAll(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := keeper.Attach(ctx, keeper.ControlPlane, os.Stderr)
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "state.json.tmp") {
		t.Fatalf("got %v, want an error that names the cause, before the deadline", err)
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
}

func TestDirectoryOfAnotherKindIsRefused(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	parent := filepath.Join(os.Getenv("TMPDIR"), "portcullis-"+strconv.Itoa(os.Geteuid()))
	if err := os.Mkdir(parent, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(parent, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := keeper.Pin(keeper.ControlPlane); err == nil {
		t.Fatal("a directory that others may write to was used")
	}
}

func TestParse(t *testing.T) {
	for name, want := range map[string]bool{"controlplane": true, "node": true, "": false, "Node": false} {
		if _, err := keeper.Parse(name); (err == nil) != want {
			t.Errorf("Parse(%q): %v", name, err)
		}
	}
}
