package keeper

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Profile chooses what a cluster consists of.
type Profile string

// The profiles. ControlPlane needs no root; its Pods are never run. Node adds a real node.
const (
	ControlPlane Profile = "controlplane"
	Node         Profile = "node"
)

// Parse reads a profile's name.
func Parse(s string) (Profile, error) {
	switch p := Profile(s); p {
	case ControlPlane, Node:
		return p, nil
	}
	return "", fmt.Errorf("profile %q is not one of %q, %q", s, ControlPlane, Node)
}

// State is what the keeper tells its users.
type State struct {
	PID        int    // the keeper's
	Kubeconfig string // of an administrator; empty if the start did not succeed
	Logs       string // directories of log files, for people
	Socket     string // of the node's containerd; node profile only
	Built      string // digest of the binaries it runs
	Error      string // why the cluster did not start or no longer runs
}

// place is a profile's directory and the files in it.
type place struct{ dir string }

// at returns the profile's place, private to this user. The directory lies directly below the
// temporary directory because Unix socket paths are short.
func at(p Profile) (place, error) {
	parent := filepath.Join(os.TempDir(), fmt.Sprintf("portcullis-%d", os.Geteuid()))
	dir := filepath.Join(parent, string(p))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return place{}, fmt.Errorf("create the cluster's directory: %w", err)
	}
	// The mount table has resolved paths, and cleaning up compares with it.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return place{}, fmt.Errorf("find the cluster's directory: %w", err)
	}
	info, err := os.Lstat(parent)
	if err != nil {
		return place{}, err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return place{}, fmt.Errorf("%s is not a private directory of this user: remove it or set TMPDIR", parent)
	}
	return place{dir: dir}, nil
}

func (p place) file(name string) string { return filepath.Join(p.dir, name) }
func (p place) run() string             { return p.file("run") }

func (p place) pinned() bool {
	_, err := os.Stat(p.file("pinned"))
	return err == nil
}

func (p place) readState() (State, error) {
	var s State
	body, err := os.ReadFile(p.file("state.json"))
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(body, &s)
}

func (p place) writeState(s State) error {
	body, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	tmp := p.file("state.json.tmp")
	if err := os.WriteFile(tmp, body, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, p.file("state.json"))
}
