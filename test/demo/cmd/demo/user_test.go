//go:build portcullis_long

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
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

	"github.com/portcullis-mesh/portcullis/test/demo"
)

// limit bounds one command of a user; the first of all builds the programs.
const limit = 10 * time.Minute

// person is somebody at a shell in the repository, with a temporary directory and a prefix of his own.
type person struct {
	t            *testing.T
	root, tmp    string
	prefix       string
	env          []string
	unprivileged bool
}

// newPerson is one whose demo runs where KUBE and KUBECONFIG say. An unprivileged one is no root, even where the test is. With a temporary
// directory of his own he finds no cluster of ours that runs already.
func newPerson(t *testing.T, kube, kubeconfig, tmp string, unprivileged bool) *person {
	t.Helper()
	root, err := demo.Root()
	if err != nil {
		t.Fatal(err)
	}
	id := make([]byte, 3)
	_, _ = rand.Read(id) // never fails
	p := &person{t: t, root: root, tmp: tmp, prefix: "up-" + hex.EncodeToString(id), unprivileged: unprivileged && os.Geteuid() == 0}
	own := map[string]string{"KUBE": kube, "KUBECONFIG": kubeconfig, "DEMO_PREFIX": p.prefix, "TMPDIR": tmp, "GATEWAY_HOST": "", "IMAGES": "", "MAKEFLAGS": "", "MFLAGS": "", "MAKELEVEL": ""}
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); !has(own, name) {
			p.env = append(p.env, pair)
		}
	}
	for name, value := range own {
		if value != "" {
			p.env = append(p.env, name+"="+value)
		}
	}
	t.Cleanup(p.end)
	return p
}

func has(m map[string]string, key string) bool {
	_, ok := m[key]
	return ok
}

// end sees to it that nothing outlives the test, whatever became of it.
func (p *person) end() {
	if len(p.processes()) > 0 || exists(p.place()) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), limit)
		defer cancel()
		if out, err := p.command(ctx, "make", "down").CombinedOutput(); err != nil && p.t.Failed() {
			p.t.Logf("make down: %v\n%s", err, out)
		}
	}
}

// ownTmp is a temporary directory whose path is short, since those of sockets must be.
func ownTmp(t *testing.T) string {
	t.Helper()
	tmp, err := os.MkdirTemp("", "up")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	return tmp
}

// command runs as this person. Who is not to be root is given a user namespace in which he is somebody else: the files are his still, and
// every right of root is gone.
func (p *person) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = p.root, p.env
	if p.unprivileged {
		const anybody = 1000
		c.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: anybody, HostID: 0, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: anybody, HostID: 0, Size: 1}},
		}
	}
	return c
}

// does runs a command that must succeed, and returns what it printed.
func (p *person) does(name string, args ...string) string {
	p.t.Helper()
	out, err := p.tries(name, args...)
	if err != nil {
		p.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func (p *person) tries(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	out, err := p.command(ctx, name, args...).CombinedOutput()
	return string(out), err
}

// doesElsewhere runs a line of the shell that must succeed, in a shell that has no variable of the demo's.
func (p *person) doesElsewhere(line string) string {
	p.t.Helper()
	other := *p
	other.env = slices.DeleteFunc(slices.Clone(p.env), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains([]string{"KUBE", "KUBECONFIG", "DEMO_PREFIX"}, name)
	})
	return other.does("sh", "-c", line)
}

// place is where the demo has its files.
func (p *person) place() string {
	uid := os.Geteuid()
	if p.unprivileged {
		uid = 1000
	}
	return filepath.Join(p.tmp, fmt.Sprintf("portcullis-%d", uid), "demo-"+p.prefix)
}

// keeper is the process that the state file names; 0 for none.
func (p *person) keeper() int {
	text, err := os.ReadFile(filepath.Join(p.place(), "lock"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

// processes are all of this person's that run, as their command lines: those that have his prefix, or his temporary directory if it is his own.
func (p *person) processes() (all []string) {
	marks := [][]byte{[]byte(p.prefix)}
	if p.tmp != os.TempDir() {
		marks = append(marks, []byte(p.tmp))
	}
	found, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is good
	for _, path := range found {
		environ, err1 := os.ReadFile(path)
		line, err2 := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err1 != nil || err2 != nil || len(line) == 0 { // it has ended
			continue
		}
		if slices.ContainsFunc(marks, func(m []byte) bool { return bytes.Contains(environ, m) || bytes.Contains(line, m) }) {
			all = append(all, filepath.Base(filepath.Dir(path))+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return all
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
