package broker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/certtest"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// readerFrom is a reader whose seed and authority are in a directory of its own, as in its Pod, with the connection that it has.
func (w *work) readerFrom(dir, who string, urls ...string) (*reading, *natsconn.Conn) {
	w.t.Helper()
	for name, from := range map[string]string{"seed": seed(w.t, who), "ca.crt": authority(w.t)} {
		text, err := os.ReadFile(from)
		if err != nil {
			w.t.Fatal(err)
		}
		certtest.Replace(w.t, filepath.Join(dir, name), text)
	}
	own := settings(w.t, who, urls...)
	own.NKeySeedFile, own.CAFile = filepath.Join(dir, "seed"), filepath.Join(dir, "ca.crt")
	conn, err := natsconn.New(own, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		w.t.Fatal(err)
	}
	background(w.t, "the connection of "+who, conn.Run)
	cfg := allowkv.ReaderConfig{GatewayID: gatewayID, Name: who, Config: allowkv.DefaultConfig()}
	cfg.Config.PublicKeysFile = w.publics
	reader, err := allowkv.NewReader(cfg, conn, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		w.t.Fatal(err)
	}
	background(w.t, "the reader of "+who, reader.Run)
	return &reading{Reader: reader, t: w.t, who: who}, conn
}

// TestIdentityIsReplacedWithoutClosing follows docs/nats.md, "One of them anew": the reader has its new seed first, and stays connected by the
// key of before; then the server has the new key, and sends it away. The reader, which is asked all the time, never says no to what is listed.
func TestIdentityIsReplacedWithoutClosing(t *testing.T) {
	t.Parallel()
	n := newNode(t, "nats-0", single(t))
	n.start()
	n.ready()
	bootstrap(t, 1, n.url())
	n.reloading() // which tells the server once at its start: the bootstrap is over by then
	w := newWork(t)
	w.lists("team-a")
	w.publish(n.url())
	mine := t.TempDir()
	r, conn := w.readerFrom(mine, "lifecycle", n.url())
	r.allows("team-a")
	end := r.watch("team-a", "team-b")

	others := seedsWithout(t, "lifecycle")
	fill(t, others, authority(t))
	give := func(name, to string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(others, name))
		if err != nil {
			t.Fatal(err)
		}
		certtest.Replace(t, to, text)
	}
	before, err := conn.Await(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	give("lifecycle.seed", filepath.Join(mine, "seed"))
	r.beats(3)
	if before.NATS.IsClosed() {
		t.Error("the seed alone has broken the connection")
	}
	give("identities.conf", filepath.Join(n.dir, "identities.conf"))
	cluster.Eventually(t, "it is connected as the new one", func(ctx context.Context) error {
		if !before.NATS.IsClosed() {
			return errors.New("the old connection is there")
		}
		_, err := conn.Await(ctx)
		return err
	})
	r.beats(3)
	seen := end()
	t.Logf("%d yes, %d no %v", seen.yes, seen.no, seen.reasons)
	if seen.no > 0 || seen.yes == 0 {
		t.Errorf("the gate was closed %d times: %v", seen.no, seen.reasons)
	}
	if err := n.login(seed(t, "lifecycle")); err == nil || !strings.Contains(fmt.Sprint(err), "Authorization Violation") {
		t.Errorf("the old key: %v", err)
	}
}
