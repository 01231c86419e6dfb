//go:build portcullis_long

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// TestRun is `make demo`, as people have it who are not root, and those with a cluster: it says that all went well, tells the story from its
// first line to its last, says what it cannot show, and leaves nothing.
func TestRun(t *testing.T) {
	t.Run("without root", func(t *testing.T) { // which has a cluster of its own
		p := newPerson(t, "", "", ownTmp(t), true)
		p.demandStory("standins", p.does("make", "demo"))
		p.demandGone()
	})
	t.Run("current kubeconfig", func(t *testing.T) {
		c := cluster.StartPrivate(t).Cluster
		p := newPerson(t, "", c.Kubeconfig(), ownTmp(t), false)
		p.demandStory("standins", p.does("make", "demo", "KUBE=current"))
		p.demandGone()
		p.demandClean(c)
	})
}

// TestRunOnANode is the same as root has it: the node is the demo's, and goes with it. Two nodes do not fit on a machine, so no other may run.
func TestRunOnANode(t *testing.T) {
	if os.Geteuid() != 0 || exists("/run/netns/portcullis-node") {
		t.Fatal("a node of its own needs root, and no other node on this machine: go run ./test/cluster/cmd/kube down node")
	}
	before := machine(t)
	p := newPerson(t, "", "", ownTmp(t), false)
	p.demandStory("node", p.does("make", "demo"))
	p.demandGone()
	for _, one := range machine(t) {
		if !slices.Contains(before, one) {
			t.Errorf("left behind: %s", one)
		}
	}
}

// machine lists what a node with Pods could leave of a machine's own.
func machine(t *testing.T) []string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(mounts)) {
		found = append(found, "mount "+strings.Fields(line)[4])
	}
	for _, pattern := range []string{
		"/run/netns/*", "/sys/class/net/*", "/var/lib/cni/results/*", "/run/containerd/s/*",
		"/sys/fs/cgroup/portcullis*", "/sys/fs/cgroup/*/portcullis*", "/sys/fs/cgroup/*/kubepods*",
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, paths...)
	}
	return found
}

// TestRunThatEndsEarly: however a demo ends, it says so, fails, and leaves nothing.
func TestRunThatEndsEarly(t *testing.T) {
	c := cluster.StartPrivate(t).Cluster
	for name, one := range map[string]struct {
		upon    string // a line of the story
		happens func(t *testing.T, p *person, demo *exec.Cmd)
		says    []string
		never   string
	}{
		"interrupted at the terminal": {
			"\n2  A sandbox is created", func(t *testing.T, _ *person, demo *exec.Cmd) { kill(t, -demo.Process.Pid, syscall.SIGINT) },
			[]string{"interrupted: everything that was made is removed", "ok    gateway, daemons and NATS stop when asked", "ok    cleaned up", "\nInterrupted. "},
			"FAIL",
		},
		"a daemon dies": {
			"\n1  A namespace", func(t *testing.T, p *person, _ *exec.Cmd) { kill(t, p.daemon("lifecycle"), syscall.SIGKILL) },
			[]string{"FAIL  gateway, daemons and NATS stop when asked", "lifecycle ended: signal: killed", "ok    cleaned up", "\nFAILED. ", "\ndemo: step "},
			"\nDone. ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPerson(t, "current", c.Kubeconfig(), ownTmp(t), false)
			out, err := p.meddles(one.upon, func(demo *exec.Cmd) { one.happens(t, p, demo) })
			if err == nil || strings.Contains(out, one.never) {
				t.Errorf("it ends with %v, and says\n%s", err, out)
			}
			if err := contains(out, one.says...); err != nil {
				t.Error(err)
			}
			p.demandGone()
			p.demandClean(c)
		})
	}
}

func kill(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		t.Errorf("%s to process %d: %v", signal, pid, err)
	}
}

// daemon is the process of one of this person's daemons.
func (p *person) daemon(name string) int {
	for _, line := range p.processes() {
		pid, words, _ := strings.Cut(line, " ")
		if number, err := strconv.Atoi(pid); err == nil && strings.Contains(words, "/"+name+" --config") {
			return number
		}
	}
	p.t.Fatalf("%s does not run, only\n%s", name, strings.Join(p.processes(), "\n"))
	return 0
}

// meddles runs the demo in a group of processes of its own, as a terminal does, and has something happen once it has said something.
func (p *person) meddles(upon string, happens func(demo *exec.Cmd)) (said string, failure error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	path := filepath.Join(p.t.TempDir(), "said")
	screen, err := os.Create(path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = screen.Close() }()
	c := p.command(ctx, "make", "demo")
	c.Stdout, c.Stderr, c.SysProcAttr = screen, screen, &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for waiting := true; waiting; {
		text, err := os.ReadFile(path)
		switch {
		case err != nil:
			p.t.Error(err)
			waiting = false
		case bytes.Contains(text, []byte(upon)):
			happens(c)
			waiting = false
		default:
		}
		select {
		case failure = <-ended:
			if waiting {
				p.t.Errorf("it ended before it said %q: %v", upon, failure)
			}
			ended <- failure
			waiting = false
		case <-time.After(lookAgain):
		}
	}
	failure = <-ended
	text, err := os.ReadFile(path)
	if err = errors.Join(err, p.awaitGroup(ctx, c.Process.Pid)); err != nil {
		p.t.Error(err)
	}
	return string(text), failure
}

// awaitGroup waits until no process of a group is left.
func (p *person) awaitGroup(ctx context.Context, group int) error {
	for !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process group %d has not ended: %w", group, context.Cause(ctx))
		case <-time.After(lookAgain):
		}
	}
	return nil
}

// TestRunThatCannotBegin: what is wrong is said before anything is made.
func TestRunThatCannotBegin(t *testing.T) {
	for name, one := range map[string]struct{ argument, says string }{
		"no such cluster": {"KUBE=elsewhere", `demo: KUBE is "elsewhere": it is one of node, controlplane, current`},
		"no name":         {"DEMO_PREFIX=Not_A_Name", `demo: DEMO_PREFIX is "Not_A_Name"`},
		"no kubeconfig":   {"KUBE=current", "demo: "},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPerson(t, "", filepath.Join(t.TempDir(), "none"), ownTmp(t), false)
			out, err := p.tries("make", "demo", one.argument)
			if err == nil || !strings.Contains(out, one.says) {
				t.Errorf("it ends with %v, and says\n%s", err, out)
			}
			p.demandGone()
		})
	}
}
