package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mesh/portcullis/shared/udsock"
)

// otherUID owns nothing on a test machine.
const otherUID = 65531

// childRole names the environment variable that turns the test binary into another user's process:
// "serve" or "dial", followed by the socket's path.
const childRole = "PORTCULLIS_TEST_SOCKET_CHILD"

func TestMain(m *testing.M) {
	role, path, _ := strings.Cut(os.Getenv(childRole), " ")
	switch role {
	case "":
		os.Exit(m.Run())
	case "serve":
		fmt.Println(serveSocket(path))
	case "dial":
		fmt.Println(dialSocket(path))
	default:
		fmt.Println("unknown role", role)
	}
}

// serveSocket says "listening", greets every peer, and ends with standard input.
func serveSocket(path string) string {
	l, err := udsock.Listen(context.Background(), path, udsock.Options{})
	if err != nil {
		return "error: " + err.Error()
	}
	served := greet(l)
	fmt.Println("listening")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := l.Close(); err != nil {
		return "error: " + err.Error()
	}
	<-served
	return "closed"
}

// greet writes "hello" to every peer that the listener accepts, until it is closed.
func greet(l net.Listener) (done <-chan struct{}) {
	end := make(chan struct{})
	go func() {
		defer close(end)
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_, _ = io.WriteString(conn, "hello")
			_ = conn.Close()
		}
	}()
	return end
}

// dialSocket says how the server treated a plain client.
func dialSocket(path string) string {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return "error: " + err.Error()
	}
	defer func() { _ = conn.Close() }()
	answer, err := io.ReadAll(conn)
	return fmt.Sprintf("got %q, %v", answer, err)
}

// runAs starts the test binary in a role as the user. /proc/self/exe works also where that user may
// not read the directory of the binary. next returns the child's next line; end closes its standard
// input and waits.
func runAs(t *testing.T, uid uint32, role, path string) (next func() string, end func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), childRole+"="+role+" "+path)
	cmd.Stderr = os.Stderr
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("run as uid %d, which needs root: %v", uid, err)
	}
	lines := bufio.NewScanner(stdout)
	next = func() string {
		if !lines.Scan() {
			return ""
		}
		return lines.Text()
	}
	return next, func() {
		t.Helper()
		_ = stdin.Close()
		for line := next(); line != ""; line = next() {
			if strings.HasPrefix(line, "error: ") {
				t.Errorf("the child says %q", line)
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the child: %v", err)
		}
	}
}

// dialAs is what a plain client of that user says.
func dialAs(t *testing.T, uid uint32, path string) string {
	t.Helper()
	next, end := runAs(t, uid, "dial", path)
	said := next()
	end()
	return said
}

// openDir is a fresh directory that every user may pass, with a path short enough for a socket's.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "uds")
	noError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	noError(t, os.Chmod(dir, 0o755))
	return dir
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// foreignDrops is how many connections of other users the metric counts.
func foreignDrops(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	families, err := registry.Gather()
	noError(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if family.GetName() == "portcullis_udsock_peers_dropped_total" && label.GetValue() == "foreign_uid" {
					return metric.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}

// mustBeRoot fails: to pass without having played the other user would be a lie.
func mustBeRoot(t *testing.T) {
	t.Helper()
	if uid := os.Geteuid(); uid != 0 {
		t.Fatalf("this test plays other users and runs as uid %d: run it as root, with 'sudo make test-node'", uid)
	}
}

// Contract 2.2: directory and an existing socket must be owned by the effective uid.
func TestThingsOfAnotherUserAreRefused(t *testing.T) {
	mustBeRoot(t)
	dir := filepath.Join(openDir(t), "driver")
	path := filepath.Join(dir, "driver.sock")
	noError(t, os.Mkdir(dir, 0o700))
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	noError(t, err)
	dead.SetUnlinkOnClose(false)
	noError(t, dead.Close())
	noError(t, os.Chown(path, otherUID, otherUID))
	refused := func(what, path string) {
		t.Helper()
		l, err := udsock.Listen(t.Context(), path, udsock.Options{})
		if err == nil {
			_ = l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "belongs to uid 65531") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("socket", path)
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the foreign socket was touched: %v", err)
	}
	noError(t, os.Chown(dir, otherUID, otherUID))
	refused("directory", filepath.Join(dir, "other.sock"))
}

// Contract 2.2: the peer's uid must equal the driver's, also when the modes are lost.
func TestClientsOfAnotherUserAreDropped(t *testing.T) {
	mustBeRoot(t)
	dir := filepath.Join(openDir(t), "driver")
	path := filepath.Join(dir, "driver.sock")
	registry := prometheus.NewRegistry()
	l, err := udsock.Listen(t.Context(), path, udsock.Options{Registerer: registry})
	noError(t, err)
	served := greet(l)
	if said := dialAs(t, otherUID, path); !strings.Contains(said, "permission denied") {
		t.Errorf("with the modes in force the other user says %q", said)
	}
	noError(t, os.Chmod(dir, 0o711))
	noError(t, os.Chmod(path, 0o666))
	if said := dialAs(t, otherUID, path); strings.Contains(said, "hello") || !strings.HasPrefix(said, "got ") {
		t.Errorf("with the modes lost the other user says %q", said)
	}
	if n := foreignDrops(t, registry); n != 1 {
		t.Errorf("%v drops are counted, want 1", n)
	}
	if said := dialAs(t, 0, path); !strings.Contains(said, "hello") {
		t.Errorf("our own user says %q", said)
	}
	noError(t, l.Close())
	<-served
}

// Root passes all file modes and is a stranger all the same, on both ends.
func TestRootIsAStrangerToAnotherUsersServer(t *testing.T) {
	mustBeRoot(t)
	place := openDir(t)
	noError(t, os.Chown(place, otherUID, otherUID))
	path := filepath.Join(place, "driver", "driver.sock")
	next, end := runAs(t, otherUID, "serve", path)
	defer end()
	if said := next(); said != "listening" {
		t.Fatalf("the other user's server says %q", said)
	}
	conn, err := udsock.Dial(t.Context(), path)
	if err == nil {
		_ = conn.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "only one of uid 0 is accepted") {
		t.Errorf("our client and another user's server: %v", err)
	}
	if said := dialAs(t, 0, path); strings.Contains(said, "hello") || !strings.HasPrefix(said, "got ") {
		t.Errorf("the other user's server and root's plain client: %q", said)
	}
	if said := dialAs(t, otherUID, path); !strings.Contains(said, "hello") {
		t.Errorf("the other user's server and its own user: %q", said)
	}
}
