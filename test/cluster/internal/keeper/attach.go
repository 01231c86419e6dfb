package keeper

import (
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
// packages, the start) is written to log. The context bounds the wait, not the cluster's life.
func Attach(ctx context.Context, p Profile, log io.Writer) (*Attachment, error) {
	pl, err := at(p)
	if err != nil {
		return nil, err
	}
	// Blocks only while a keeper is taking an unused cluster down.
	users, _, err := flock(pl.file("users"), unix.LOCK_SH, true)
	if err != nil {
		return nil, err
	}
	state, err := Current(p) // without asking the go command whether its binaries are current
	if err != nil {
		state, err = begin(ctx, pl, p, log)
	}
	if err != nil {
		_ = users.Close()
		return nil, fmt.Errorf("%s test cluster: %w", p, err)
	}
	return &Attachment{State: state, users: users}, nil
}

func begin(ctx context.Context, pl place, p Profile, log io.Writer) (State, error) {
	program, err := prepare(ctx, p, log)
	if err != nil {
		return State{}, err
	}
	return await(ctx, pl, p, program, log)
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
	root, err := binary.Root()
	if err != nil {
		return "", err
	}
	cache, err := binary.NewCache(root, log)
	if err != nil {
		return "", err
	}
	return cache.Own(ctx, "kube", "test", "./cluster/cmd/kube")
}

func await(ctx context.Context, pl place, p Profile, program string, log io.Writer) (State, error) {
	ours := false // whether a keeper that we started has been in charge
	for {
		free, err := keeperAbsent(pl)
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

func keeperAbsent(pl place) (bool, error) {
	f, free, err := flock(pl.file("keeper.lock"), unix.LOCK_SH, false)
	if err == nil && free {
		_ = f.Close()
	}
	return free, err
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
	return false, fmt.Errorf("the keeper ended before it took charge; see %s", pl.file("keeper.log"))
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
		free, err := keeperAbsent(pl)
		if err != nil {
			return err
		}
		if free {
			return clean(ctx, pl, p)
		}
		if s, err := pl.readState(); err == nil && s.PID > 0 {
			_ = unix.Kill(s.PID, unix.SIGTERM)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w while waiting for the %s cluster to stop; see %s", ctx.Err(), p, pl.file("keeper.log"))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Current returns the state of the profile's running cluster.
func Current(p Profile) (State, error) {
	pl, err := at(p)
	if err != nil {
		return State{}, err
	}
	free, err := keeperAbsent(pl)
	if err != nil {
		return State{}, err
	}
	s, err := pl.readState()
	if free || err != nil || s.Kubeconfig == "" {
		return State{}, fmt.Errorf("no %s cluster is running: start one with kube up %s", p, p)
	}
	return s, nil
}
