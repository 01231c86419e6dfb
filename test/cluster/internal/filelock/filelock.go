// Package filelock takes advisory locks on files. They belong to the process, so the kernel gives them
// up when it dies, however it dies.
//
// Invariant: waiting ends with the caller's context, never later.
//
// Callers: the builder, the keeper and the image loader of test/cluster.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Mode says who may hold the lock at the same time.
type Mode int

// The modes. There is no zero mode.
const (
	Shared    Mode = unix.LOCK_SH
	Exclusive Mode = unix.LOCK_EX
)

// retry is the pause between two tries while waiting.
const retry = 50 * time.Millisecond

// Try takes the lock on the file, which it creates, unless another process excludes it: then it
// returns false. Closing the file gives the lock up.
func Try(path string, mode Mode) (*os.File, bool, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	for {
		err = unix.Flock(int(f.Fd()), int(mode)|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		return f, true, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("lock %s: %w", path, err)
}

// Take takes the lock, waiting for it until ctx ends.
func Take(ctx context.Context, path string, mode Mode) (*os.File, error) {
	for {
		f, ok, err := Try(path, mode)
		if err != nil || ok {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the lock %s, which another process holds: %w", path, ctx.Err())
		case <-time.After(retry):
		}
	}
}
