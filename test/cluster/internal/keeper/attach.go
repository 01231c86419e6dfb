package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/binary"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/node"
)

// Attachment keeps a shared cluster alive until it is released or the process ends.
type Attachment struct {
	State
	users *os.File
}

// Release gives the cluster up.
func (a *Attachment) Release() { _ = a.users.Close() }

// Attach returns the profile's running cluster, starting it if need be. Progress (builds, installed
// packages, the start) is written to log. The context bounds the wait, not the cluster's life. A
// cluster that runs other binaries than this checkout pins is refused.
func Attach(ctx context.Context, p Profile, log io.Writer) (*Attachment, error) {
	pl, err := at(p)
	if err != nil {
		return nil, err
	}
	users, err := use(ctx, pl)
	if err != nil {
		return nil, err
	}
	state, err := attach(ctx, pl, p, log)
	if err != nil {
		_ = users.Close()
		return nil, fmt.Errorf("%s test cluster: %w", p, err)
	}
	return &Attachment{State: state, users: users}, nil
}

func attach(ctx context.Context, pl place, p Profile, log io.Writer) (State, error) {
	state, err := Current(p) // no need to build what runs already
	if err != nil {
		program, err := prepare(ctx, p, log)
		if err != nil {
			return State{}, err
		}
		if state, err = await(ctx, pl, p, program, log); err != nil {
			return State{}, err
		}
	}
	cache, err := newCache(log)
	if err != nil {
		return State{}, err
	}
	built, err := cache.Digest(ctx, wanted(p)...)
	if err == nil && built != state.Built {
		err = fmt.Errorf("what runs was built from other versions than this checkout pins: stop it with kube down %s", p)
	}
	return state, err
}

// Prepare builds and installs everything that the profile needs, and starts nothing.
func Prepare(ctx context.Context, p Profile, log io.Writer) error {
	_, err := prepare(ctx, p, log)
	return err
}

func prepare(ctx context.Context, p Profile, log io.Writer) (keeper string, err error) {
	if p == Node {
		if err := node.Require(ctx, log); err != nil {
			return "", err
		}
	}
	if _, err := binaries(ctx, p, log); err != nil {
		return "", err
	}
	cache, err := newCache(log)
	if err != nil {
		return "", err
	}
	if p == Node { // the name server is no part of what runs until somebody asks for it, but nobody should wait for its build then
		if _, err := cache.Paths(ctx, binary.CoreDNS); err != nil {
			return "", err
		}
	}
	return cache.Own(ctx, "kube", "test", "./cluster/cmd/kube")
}

func await(ctx context.Context, pl place, p Profile, program string, log io.Writer) (State, error) {
	ours := false // whether a keeper that we started has been in charge
	for {
		free, err := vacant(pl)
		if err != nil {
			return State{}, err
		}
		s, err := pl.readState()
		switch {
		case !free && err == nil && s.Kubeconfig != "":
			return s, nil
		case free && ours && err == nil && s.Error != "":
			return State{}, errors.New(s.Error)
		case free && ours:
			return State{}, fmt.Errorf("the keeper ended without saying why; see %s", pl.file("keeper.log"))
		case free:
			fmt.Fprintf(log, "starting the %s test cluster\n", p)
			if ours, err = spawn(ctx, pl, p, program); err != nil {
				return State{}, err
			}
		}
		select {
		case <-ctx.Done():
			return State{}, fmt.Errorf("%w while waiting for the start; see %s", ctx.Err(), pl.file("keeper.log"))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// spawn starts a keeper and reports whether it took charge; another one may have been faster.
func spawn(ctx context.Context, pl place, p Profile, program string) (bool, error) {
	out, err := os.OpenFile(pl.file("keeper.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	defer func() { _ = out.Close() }()
	root, err := binary.Root()
	if err != nil {
		return false, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return false, err
	}
	defer func() { _ = r.Close() }()
	cmd := exec.Command(program, "keep", string(p))
	cmd.Dir = root
	cmd.Stdout, cmd.Stderr = out, out
	cmd.ExtraFiles = []*os.File{w}
	// A session of its own: the keeper outlives the test that happened to start it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return false, fmt.Errorf("start the keeper: %w", err)
	}
	go func() { _ = cmd.Wait() }() // reaps it if we outlive it
	if deadline, ok := ctx.Deadline(); ok {
		_ = r.SetReadDeadline(deadline)
	}
	answer, err := io.ReadAll(r)
	if err != nil {
		return false, fmt.Errorf("wait for the keeper to take charge: %w", err)
	}
	switch string(answer) {
	case inCharge:
		return true, nil
	case notInCharge:
		return false, nil
	}
	return false, fmt.Errorf("the keeper cannot take charge: %s", answer)
}

// Pin keeps the cluster running without users until Down.
func Pin(p Profile) error {
	pl, err := at(p)
	if err != nil {
		return err
	}
	return os.WriteFile(pl.file("pinned"), nil, 0o600)
}

// Down stops the profile's cluster, even if it is in use, and returns once nothing of it is left. It
// is not an error if none runs.
func Down(ctx context.Context, p Profile) error {
	pl, err := at(p)
	if err != nil {
		return err
	}
	if err := os.Remove(pl.file("pinned")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for {
		c, ours, err := takeCharge(pl, p)
		if err != nil {
			return err
		}
		if ours {
			defer c.giveUp()
			return clean(ctx, pl, p)
		}
		if s, err := pl.readState(); err == nil && isKeeper(s.PID) {
			_ = unix.Kill(s.PID, unix.SIGTERM)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w while waiting for the %s cluster to stop; see %s", ctx.Err(), p, pl.file("keeper.log"))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// isKeeper guards against a process that was given a dead keeper's number.
func isKeeper(pid int) bool {
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return pid > 1 && err == nil && bytes.Contains(args, []byte("\x00keep\x00"))
}

// Current returns the state of the profile's running cluster.
func Current(p Profile) (State, error) {
	pl, err := at(p)
	if err != nil {
		return State{}, err
	}
	free, err := vacant(pl)
	if err != nil {
		return State{}, err
	}
	s, err := pl.readState()
	if free || err != nil || s.Kubeconfig == "" {
		return State{}, fmt.Errorf("no %s cluster is running: start one with kube up %s", p, p)
	}
	return s, nil
}
