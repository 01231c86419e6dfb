package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Clean removes what a node in dir left behind: container processes, mounts, control groups, the
// network, files. It works from what it finds on the machine, so it also serves after a crash.
func Clean(ctx context.Context, dir string) error {
	killContainers(socketPath(dir))
	if err := errors.Join(removeCgroups(ctx), unmountBelow(dir), removeStrays(dir), NetworkDown(ctx)); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// killContainers ends every containerd shim of the containerd at socket, and all that runs under it.
// Shims detach from containerd on purpose, so no parent-death signal reaches them.
func killContainers(socket string) {
	parents := map[int]int{}
	var shims []int
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		parents[pid] = parentOf(pid)
		args, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && bytes.Contains(args, []byte("containerd-shim")) && bytes.Contains(args, []byte(socket)) {
			shims = append(shims, pid)
		}
	}
	for _, shim := range shims {
		for pid := range parents {
			if descends(parents, pid, shim) {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		_ = unix.Kill(shim, unix.SIGKILL)
	}
}

const cniResults = "/var/lib/cni/results/"

// removeStrays removes what containerd keeps outside of dir whatever it is told: the sockets of its
// shims, which each task's directory names, and the results of our network's plug-ins.
func removeStrays(dir string) error {
	addresses, err := filepath.Glob(filepath.Join(dir, "containerd/state/io.containerd.runtime.v2.task/*/*/address"))
	if err != nil {
		return err
	}
	// A result is named after the network, the Pod's sandbox and the interface; the loopback network
	// of our sandboxes is not ours by name.
	ours, err := filepath.Glob(cniResults + cniNetwork + "-*-eth0")
	if err != nil {
		return err
	}
	strays := slices.Clone(ours)
	for _, path := range ours {
		sandbox := strings.TrimSuffix(strings.TrimPrefix(path, cniResults+cniNetwork+"-"), "-eth0")
		strays = append(strays, cniResults+"cni-loopback-"+sandbox+"-lo")
	}
	for _, file := range addresses {
		address, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if socket, ok := strings.CutPrefix(strings.TrimSpace(string(address)), "unix://"); ok {
			strays = append(strays, socket)
		}
	}
	var errs []error
	for _, path := range strays {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The command in parentheses may hold anything; the fields after it do not.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

func descends(parents map[int]int, pid, from int) bool {
	for p := parents[pid]; p > 1; p = parents[p] {
		if p == from {
			return true
		}
	}
	return false
}

// unmountBelow detaches every mount at or below dir, deepest first.
func unmountBelow(dir string) error {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read the mount table: %w", err)
	}
	var points []string
	for line := range strings.Lines(string(info)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && (fields[4] == dir || strings.HasPrefix(fields[4], dir+"/")) {
			points = append(points, fields[4])
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(points)))
	var errs []error
	for _, p := range points {
		if err := unix.Unmount(p, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}
