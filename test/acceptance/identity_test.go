package acceptance_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// identity is a user by its NKEY.
type identity struct{ public, seedFile string }

func newIdentity(t testing.TB) identity {
	t.Helper()
	public, seed := natstest.NKey(t)
	file := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	return identity{public, file}
}

// option lets the stock client connect as the identity.
func (id identity) option(t testing.TB) nats.Option {
	t.Helper()
	option, err := nats.NkeyOptionFromSeed(id.seedFile)
	if err != nil {
		t.Fatal(err)
	}
	return option
}

// daemon lets a daemon's connection be the identity's.
func (id identity) daemon(cfg *natsconn.Config) { cfg.NKeySeedFile = id.seedFile }

// short is the time for a request that is refused by silence.
func short(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
