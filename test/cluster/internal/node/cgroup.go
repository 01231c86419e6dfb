package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupRoot is the node's own branch of every control group hierarchy. It keeps the node's Pods
// apart from those of a kubelet that the machine may run itself, and makes them easy to remove.
const cgroupRoot = "portcullis-node"

// makeCgroups creates the branch; the kubelet demands that it exists.
func makeCgroups() error {
	points, err := cgroupMounts()
	if err != nil {
		return err
	}
	for _, p := range points {
		if err := os.Mkdir(filepath.Join(p, cgroupRoot), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("create the node's control group: %w", err)
		}
	}
	return nil
}

// The node's own programs, with the shims and what these start probes and commands with, are one group beside the Pods, as on a real
// node. Without it each shim would have as much of a busy machine as the kubelet, etcd and the API server have together (each session is
// a group of its own to the scheduler), and a node of thirty Pods would have no time left to be a node.
const (
	systemGroup  = "system"
	nodeShares   = 2048 // of the machine: a session of programs has 1024
	systemShares = 4096 // of the node: its Pods have 1024 for each processor
)

// joinSystem puts a program of the node, and all that it will start, into the system's group.
func joinSystem(pid int) error {
	points, err := cgroupMounts()
	if err != nil {
		return err
	}
	for _, point := range points {
		branch := filepath.Join(point, cgroupRoot)
		shares := filepath.Join(branch, "cpu.shares")
		if _, err := os.Stat(shares); err != nil {
			continue // not the hierarchy of the processor, or version 2, where this is left to the machine
		}
		system := filepath.Join(branch, systemGroup)
		if err := os.Mkdir(system, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("create the control group of the node's programs: %w", err)
		}
		for file, value := range map[string]int{
			shares: nodeShares, filepath.Join(system, "cpu.shares"): systemShares, filepath.Join(system, "cgroup.procs"): pid,
		} {
			if err := os.WriteFile(file, []byte(strconv.Itoa(value)), 0); err != nil {
				return fmt.Errorf("put process %d into the control group of the node's programs: %w", pid, err)
			}
		}
	}
	return nil
}

// emptyLimit bounds how long killed processes may take to leave their control groups.
const emptyLimit = 20 * time.Second

// removeCgroups ends whatever still runs in the branch and removes it. A process leaves its control
// group some time after it was killed, so a busy group is tried again.
func removeCgroups(ctx context.Context) error {
	points, err := cgroupMounts()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, emptyLimit)
	defer cancel()
	for _, point := range points {
		for {
			err := removeBranch(filepath.Join(point, cgroupRoot))
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("remove the node's control group: %w", err)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// removeBranch kills the branch's processes and removes its directories, deepest first. A control
// group is a directory whose files the kernel owns: only directories can and need be removed.
func removeBranch(branch string) error {
	var dirs []string
	err := filepath.WalkDir(branch, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		members, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, member := range strings.Fields(string(members)) {
			if pid, err := strconv.Atoi(member); err == nil && pid > 1 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// cgroupMounts returns where the hierarchies are mounted: several with version 1, one with 2.
func cgroupMounts() ([]string, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	var points []string
	for line := range strings.Lines(string(info)) {
		before, after, found := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if found && len(fields) > 4 && strings.HasPrefix(after, "cgroup") {
			points = append(points, fields[4])
		}
	}
	return points, nil
}
