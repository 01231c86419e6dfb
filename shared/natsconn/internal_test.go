package natsconn

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

func TestClassify(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	timeout := &net.OpError{Op: "read", Net: "tcp", Err: context.DeadlineExceeded}
	for _, c := range []struct {
		err  error
		want kind
	}{
		{fmt.Errorf("%w: %w", errFiles, syscall.ENOENT), kindFiles},
		{errors.Join(dial, dial), kindDial},
		{nats.ErrNoServers, kindDial},
		{fmt.Errorf("%w: %w", nats.ErrTLS, io.EOF), kindTLS},
		{x509.UnknownAuthorityError{}, kindTLS},
		{nats.ErrSecureConnWanted, kindTLS},
		{errors.New("remote error: tls: certificate required"), kindTLS},
		{nats.ErrAuthorization, kindAuth},
		{nats.ErrAuthExpired, kindAuth},
		{nats.ErrAuthRevoked, kindAuth},
		{nats.ErrAccountAuthExpired, kindAuth},
		{timeout, kindTimeout},
		{nats.ErrTimeout, kindTimeout},
		{nats.ErrStaleConnection, kindStale},
		{io.EOF, kindLost},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, kindLost},
		{nats.ErrConnectionClosed, kindLost},
		{fmt.Errorf("%w: publish", nats.ErrPermissionViolation), kindPermission},
		{fmt.Errorf("subscription: %w", nats.ErrSlowConsumer), kindSlow},
		{nats.ErrDrainTimeout, kindDrain},
		{errors.New("something new"), kindOther},
	} {
		if got := classify(pemfile.OneLine(c.err)); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
		if !slices.Contains(kinds, c.want) {
			t.Errorf("%s is not in kinds: its series would not exist from the start", c.want)
		}
	}
}

func TestLogLimit(t *testing.T) {
	var l logLimit
	start := time.Unix(1000, 0)
	for i, step := range []struct {
		at   time.Duration
		kind kind
		held int
		ok   bool
	}{
		{0, kindDial, 0, true},
		{0, kindAuth, 0, true},
		{time.Second, kindDial, 0, false},
		{logEvery - 1, kindDial, 0, false},
		{logEvery, kindDial, 2, true},
		{logEvery + 1, kindDial, 0, false},
		{2 * logEvery, kindDial, 1, true},
		{3 * logEvery, kindDial, 0, true},
		{3 * logEvery, kindAuth, 0, true},
	} {
		held, ok := l.allow(start.Add(step.at), step.kind)
		if held != step.held || ok != step.ok {
			t.Errorf("step %d: held %d, %v; want %d, %v", i, held, ok, step.held, step.ok)
		}
	}
}

// TestBackoffGrowsIsJitteredAndNeverEnds holds the wait between rounds to its bounds.
func TestBackoffGrowsIsJitteredAndNeverEnds(t *testing.T) {
	c := &Conn{cfg: DefaultConfig()}
	wait, limit := c.backoff(), c.cfg.ReconnectWaitMax.Std()
	first := wait.NextBackOff()
	if base := c.cfg.ReconnectWait.Std(); first < base/2 || first > base*3/2 {
		t.Errorf("first wait %s, want about %s", first, base)
	}
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := wait.NextBackOff()
		if d == backoff.Stop || d > limit*3/2 {
			t.Fatalf("wait %s, want at most %s and never a stop", d, limit*3/2)
		}
		seen[d] = true
	}
	if len(seen) < 500 {
		t.Errorf("%d different waits of 1000: no jitter", len(seen))
	}
	last := wait.NextBackOff()
	if last < limit/2 {
		t.Errorf("wait after many failures %s, want at least %s", last, limit/2)
	}
	wait.Reset()
	if again := wait.NextBackOff(); again > limit/2 {
		t.Errorf("wait after a reset %s, want about the first", again)
	}
}

// TestMaterialShowsNoSecret formats what a round of connection attempts holds, in every way that could reach a log.
func TestMaterialShowsNoSecret(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	const token = "eyJhunter2.eyJhunter2.hunter2"
	cfg := DefaultConfig()
	cfg.CredsFile = filepath.Join(t.TempDir(), "creds")
	content := "-----BEGIN NATS USER JWT-----\n" + token + "\n------END NATS USER JWT------\n\n" +
		"-----BEGIN USER NKEY SEED-----\n" + string(seed) + "\n------END USER NKEY SEED------\n"
	if err := os.WriteFile(cfg.CredsFile, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := cfg.loadFiles()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.token(); err != nil || got != token {
		t.Errorf("token %q, %v", got, err)
	}
	signature, err := m.sign([]byte("nonce"))
	if err != nil || pair.Verify([]byte("nonce"), signature) != nil {
		t.Errorf("the signature does not verify: %v", err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		for _, holder := range []any{m, *m} {
			text := fmt.Sprintf(verb, holder)
			for _, secret := range []string{token, string(seed), fmt.Sprintf("%x", seed), fmt.Sprint(seed), fmt.Sprintf("%x", token)} {
				if strings.Contains(text, secret) {
					t.Errorf("%s shows a secret: %s", verb, text)
				}
			}
		}
	}
	m.wipe()
	if _, err := m.sign([]byte("nonce")); err == nil || m.identity() != nil {
		t.Error("the seed survives the wipe")
	}
}
