package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

// removeCgroups removes the branch, whose processes must be gone. A control group is a directory
// whose files the kernel owns: only directories can and need be removed, deepest first.
func removeCgroups() error {
	points, err := cgroupMounts()
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range points {
		var dirs []string
		err := filepath.WalkDir(filepath.Join(p, cgroupRoot), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		errs = append(errs, err)
		for i := len(dirs) - 1; i >= 0; i-- {
			if err := os.Remove(dirs[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove control group: %w", err))
			}
		}
	}
	return errors.Join(errs...)
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
