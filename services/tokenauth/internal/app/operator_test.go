package app_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tokenauthv1 "github.com/portcullis-mesh/portcullis/proto/portcullis/tokenauth/v1"
	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/apitest"
	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/handbook"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/netfault"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// writer publishes a list and vouches for it, as nswatch does, until it is stopped.
type writer struct {
	t      *testing.T
	conn   *nats.Conn
	signer *allowlist.Signer
	public string
	url    string

	mu       sync.Mutex
	revision uint64
	beat     uint64
	digest   allowlist.Digest
	began    time.Time
}

func startWriter(t *testing.T) *writer {
	t.Helper()
	server := natstest.Start(t)
	signer, err := allowlist.GenerateSigner(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{t: t, signer: signer, url: server.URL(), began: time.Now(), public: write(t, "keys.pub", signer.Public().FileLine())}
	if w.conn, err = nats.Connect(server.URL()); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(w.conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := allowkv.Bootstrap(t.Context(), js, 1); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				w.vouch()
			case <-stop:
				return
			}
		}
	})
	t.Cleanup(func() { close(stop); beating.Wait(); w.conn.Close() })
	return w
}

// tables are the settings of who reads.
func (w *writer) tables() string {
	return fmt.Sprintf("[portcullis.nats]\nurls = [%q]\n[portcullis.allowlist]\npublic_keys_file = %q\n", w.url, w.public)
}

func (w *writer) put(key string, record []byte, err error) {
	if err == nil {
		var reply *nats.Msg
		if reply, err = w.conn.Request("$KV."+allowkv.Bucket+"."+key, record, commandtest.Patience); err == nil && strings.Contains(string(reply.Data), `"error"`) {
			err = fmt.Errorf("%s", reply.Data)
		}
	}
	if err != nil {
		w.t.Errorf("put %s: %v", key, err)
	}
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// publish replaces the list.
func (w *writer) publish(entries ...allowlist.Entry) {
	w.t.Helper()
	list, err := allowlist.NewList(entries)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.revision++
	record, digest, err := allowlist.SealSnapshot(allowlist.Snapshot{
		GatewayID: apitest.GatewayID, Epoch: 1, Revision: w.revision, Writer: "writer", PublishedAt: now(), Namespaces: list,
		Source: allowlist.Source{Kind: allowlist.SourceLabel, Selector: "a=b", Version: "1"},
	}, w.signer)
	w.digest = digest
	w.put(allowlist.SnapshotKey(apitest.GatewayID), record, err)
	w.mu.Unlock()
	w.vouch()
}

// vouch writes one heartbeat for the list; none when there is no list.
func (w *writer) vouch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.revision == 0 {
		return
	}
	w.beat++
	record, err := allowlist.SealHeartbeat(allowlist.Heartbeat{
		GatewayID: apitest.GatewayID, Epoch: 1, Revision: w.revision, Digest: w.digest, Beat: w.beat, PublishedAt: now(), Writer: "writer",
		Issued: time.Since(w.began).Truncate(time.Millisecond),
		Proof:  allowlist.Proof{Kind: allowlist.ProofList}, TTL: 5 * time.Second,
	}, w.signer)
	w.put(allowlist.HeartbeatKey(apitest.GatewayID), record, err)
}

func authenticate(t *testing.T, c tokenauthv1.TokenAuthServiceClient, token string) (*tokenauthv1.AuthenticateResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandtest.Patience)
	defer cancel()
	return c.Authenticate(ctx, &tokenauthv1.AuthenticateRequest{Credential: token, GatewayId: apitest.GatewayID, RequestId: "r-1"})
}

// TestOperatorMode: nothing is accepted, and the daemon is not ready, before the list is proven; then the list decides.
func TestOperatorMode(t *testing.T) {
	t.Parallel()
	w := startWriter(t)
	s := newSite(t, driverconf.ModeOperator)
	settings := s.settings(driverconf.ModeOperator, w.tables())
	d := s.start(settings)
	c := s.client(d)
	token := apitest.Valid(driverconf.ModeOperator).Token

	_, err := authenticate(t, c, token)
	if v, _ := verdict.FromError(err); status.Code(err) != codes.Unavailable || v.Reason != verdict.Unsynced || !v.Retryable() {
		t.Errorf("before there is a list: %v", err)
	}
	commandtest.Eventually(t, "readiness says that the list is missing", func() bool {
		code, text := d.Get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(text, "allowlist")
	})

	w.publish(apitest.Entry())
	d.AwaitReady()
	commandtest.Eventually(t, "the bearer is accepted", func() bool {
		resp, err := authenticate(t, c, token)
		return err == nil && resp.GetRuntimeIdentity() == apitest.Identity(driverconf.ModeOperator) && resp.GetAllowlist().GetRevision() == 1
	})
	explained := program.Run(t.Context(), "explain", "--config", settings, "--token-file", write(t, "token", token))
	if explained.Code != 0 || !strings.Contains(explained.Stdout, "granted") || !strings.Contains(explained.Stdout, "still listed") {
		t.Errorf("%+v", explained)
	}

	_, metrics := d.Get("/metrics")
	handbook.NewMetrics().DemandMetrics(t, docs, metrics)

	w.publish(allowlist.Entry{Name: apitest.Team, UID: "5e5e5e5e-0000-4000-8000-00000000dead"})
	commandtest.Eventually(t, "an entry with another uid is refused", func() bool {
		_, err := authenticate(t, c, token)
		v, _ := verdict.FromError(err)
		return v.Reason == verdict.NamespaceReplaced
	})
	w.publish()
	commandtest.Eventually(t, "a namespace that has left the list is refused", func() bool {
		_, err := authenticate(t, c, token)
		v, _ := verdict.FromError(err)
		return v.Reason == verdict.NotListed && status.Code(err) == codes.PermissionDenied && v.Allowlist.Revision == 3
	})
	if code := d.Stop(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, d.Stderr.String())
	}
}

// TestReadinessFollowsTheListAlone: while NATS is away and the list still Fresh, calls are answered and the daemon stays ready;
// when the list is no longer, readiness says both.
func TestReadinessFollowsTheListAlone(t *testing.T) {
	t.Parallel()
	w := startWriter(t)
	w.publish(apitest.Entry())
	proxy := netfault.Start(t, strings.TrimPrefix(w.url, "nats://"))
	s := newSite(t, driverconf.ModeOperator)
	d := s.start(s.settings(driverconf.ModeOperator, strings.Replace(w.tables(), w.url, "nats://"+proxy.Addr(), 1)+"max_staleness = \"5s\"\nheartbeat_ttl = \"5s\"\n"))
	c := s.client(d)
	d.AwaitReady()
	proxy.Blackhole()
	proxy.Cut()
	commandtest.Eventually(t, "the connection is lost", func() bool { return d.Metric("portcullis_nats_connected") == 0 })
	_, verbose := d.Get("/readyz?verbose")
	_, err := authenticate(t, c, apitest.Valid(driverconf.ModeOperator).Token)
	code, _ := d.Get("/readyz")
	if d.Metric(`portcullis_allowlist_reader_state{state="fresh"}`) == 1 && (err != nil || code != http.StatusOK) {
		t.Errorf("the list is fresh, the call says %v, readiness %d:\n%s", err, code, verbose)
	}
	if strings.Contains(verbose, "nats") {
		t.Errorf("the connection is a part of readiness:\n%s", verbose)
	}
	commandtest.Eventually(t, "readiness says that the list is stale, and why", func() bool {
		code, text := d.Get("/readyz?verbose")
		return code == http.StatusServiceUnavailable && strings.Contains(text, "stale") && strings.Contains(text, "not connected to NATS")
	})
	proxy.Pass()
	d.AwaitReady()
}
