package allowkv_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// pubNoConnection is never connected.
type pubNoConnection struct{}

func (pubNoConnection) Session() (natsconn.Session, <-chan struct{}) { return natsconn.Session{}, nil }

func contextFor(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

// pubIdentity gives a connection an NKEY and an inbox of its own.
func pubIdentity(t testing.TB, seed []byte, inbox string) func(*natsconn.Config) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	return func(cfg *natsconn.Config) { cfg.NKeySeedFile, cfg.InboxPrefix = file, inbox }
}

// pubRestricted is a world whose server has an administrator, which the world uses, and one user who may publish to the
// given subjects only and listen on _INBOX_w.
func pubRestricted(t testing.TB, publish ...string) (w *pubWorld, seed []byte) {
	t.Helper()
	admin, adminSeed := natstest.NKey(t)
	user, seed := natstest.NKey(t)
	srv := natstest.Start(t, func(o *server.Options) {
		o.Nkeys = []*server.NkeyUser{
			{Nkey: admin},
			{Nkey: user, Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: publish},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_w.>"}},
			}},
		}
	})
	w = &pubWorld{t: t, server: srv, settings: pubSettings(), conn: pubConnect(t, pubIdentity(t, adminSeed, ""), srv.URL())}
	w.makeKeys()
	w.bootstrap(1)
	return w, seed
}
