package nodelife_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/cluster"
)

const limit = 3 * time.Minute

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: inhabitant}
spec:
  containers: [{name: probe, image: %s, imagePullPolicy: IfNotPresent, readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}}]
`

// kube runs the command as a person would.
func kube(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", append([]string{"run", "../cmd/kube"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kube %v: %v\n%s", args, err, out)
	}
}

// machine lists what a node could leave behind.
func machine(t *testing.T) []string {
	t.Helper()
	var found []string
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
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
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range commands {
		args, err := os.ReadFile(file)
		if err == nil && (strings.Contains(string(args), "containerd-shim") || strings.Contains(string(args), os.Getenv("TMPDIR"))) {
			found = append(found, "process "+strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	routes, err := exec.Command("ip", "route", "show").CombinedOutput()
	if err != nil {
		t.Fatalf("list routes: %v: %s", err, routes)
	}
	for line := range strings.Lines(string(routes)) {
		found = append(found, "route "+strings.TrimSpace(line))
	}
	slices.Sort(found)
	return found
}

// inhabit runs a Pod on the node and leaves it there.
func inhabit(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.Start(t, cluster.Node)
	c.Apply(t, "default", fmt.Appendf(nil, pod, cluster.ProbeImage))
	c.AwaitPod(t, "default", "inhabitant")
	return c
}

// ofNode are the programs that share one control group of the processor beside the Pods, so that no shim has as much of it as the node has.
var ofNode = []string{"containerd", "kubelet", "containerd-shim-runc-v2"}

// demandGroups demands that. With control groups of version 2 nothing is promised.
func demandGroups(t *testing.T) {
	t.Helper()
	seen := map[string]bool{}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range commands {
		args, _ := os.ReadFile(file) // it may have ended since
		command, _, _ := strings.Cut(string(args), "\x00")
		name := filepath.Base(command)
		if !slices.Contains(ofNode, name) || !strings.Contains(string(args), os.Getenv("TMPDIR")) {
			continue
		}
		groups, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cgroup"))
		if err != nil {
			continue
		}
		seen[name] = true
		for line := range strings.Lines(string(groups)) {
			fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
			if slices.Contains(strings.Split(fields[1], ","), "cpu") && fields[2] != "/portcullis-node/system" {
				t.Errorf("%s is in the control group %s of the processor", name, fields[2])
			}
		}
	}
	if len(seen) != len(ofNode) {
		t.Errorf("of the node's programs only %v were seen", seen)
	}
}

func compare(t *testing.T, before []string) {
	t.Helper()
	for _, line := range machine(t) {
		if !slices.Contains(before, line) {
			t.Errorf("left behind: %s", line)
		}
	}
}

func TestNodeLeavesNothingBehind(t *testing.T) {
	// The place follows TMPDIR, also through a link.
	link := filepath.Join(t.TempDir(), "link")
	target, err := os.MkdirTemp("/tmp", "pc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(target) })
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", target)
	before := machine(t)

	t.Run("stopped", func(t *testing.T) {
		inhabit(t)
		demandGroups(t)
		kube(t, "down", "node")
		compare(t, before)
	})
	t.Run("keeper killed, started again, stopped", func(t *testing.T) {
		inhabit(t)
		kill(t)
		inhabit(t)
		kube(t, "down", "node")
		compare(t, before)
	})
	t.Run("keeper killed, stopped through a link", func(t *testing.T) {
		inhabit(t)
		kill(t)
		t.Setenv("TMPDIR", link)
		kube(t, "down", "node")
		t.Setenv("TMPDIR", target)
		compare(t, before)
	})
}

// kill ends the keeper as kill -9 does.
func kill(t *testing.T) {
	t.Helper()
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range commands {
		args, err := os.ReadFile(file)
		if err != nil || !strings.HasSuffix(string(args), "/kube\x00keep\x00node\x00") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		process, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Kill(); err != nil {
			t.Fatal(err)
		}
		cluster.Eventually(t, "the killed cluster is known to be down", func(ctx context.Context) error {
			if out, err := exec.CommandContext(ctx, "go", "run", "../cmd/kube", "kubeconfig", "node").CombinedOutput(); err == nil {
				return fmt.Errorf("still handed out: %s", out)
			}
			return nil
		})
		return
	}
	t.Fatal("no keeper of a node runs")
}
