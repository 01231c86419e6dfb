package filelock_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/filelock"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, ok, err := filelock.Try(path, filelock.Shared)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	second, ok, err := filelock.Try(path, filelock.Shared)
	if err != nil || !ok {
		t.Fatalf("a second shared lock: %v, %v", ok, err)
	}
	if _, ok, err := filelock.Try(path, filelock.Exclusive); err != nil || ok {
		t.Fatalf("exclusive beside shared: %v, %v", ok, err)
	}
	_ = second.Close()

	// Waiting ends with the context ...
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := filelock.Take(ctx, path, filelock.Exclusive); !errors.Is(err, context.Canceled) {
		t.Fatalf("waiting ended with %v", err)
	}
	// ... or with the lock.
	time.AfterFunc(10*time.Millisecond, func() { _ = first.Close() })
	held, err := filelock.Take(t.Context(), path, filelock.Exclusive)
	if err != nil {
		t.Fatal(err)
	}
	_ = held.Close()
}
