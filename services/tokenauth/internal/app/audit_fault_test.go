package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/apitest"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/netfault"
)

// fault keeps events from the stream, which nc looks at.
type fault struct {
	// url is where the daemon connects.
	url string
	// spoil begins the fault once the daemon is connected, mend ends it.
	spoil, mend func()
	// cause is what the metrics call it.
	cause string
}

func streams(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// wipe takes the stream away.
func wipe(t *testing.T, nc *nats.Conn) {
	t.Helper()
	if err := streams(t, nc).DeleteStream(t.Context(), audit.Stream); err != nil {
		t.Fatal(err)
	}
}

// remake makes the stream with the command.
func remake(t *testing.T, nc *nats.Conn) {
	t.Helper()
	if got := program.Run(t.Context(), "audit", "bootstrap", "--config", maker(t, nc.ConnectedUrl(), "max_bytes = 4194304")); got.Code != 0 {
		t.Errorf("%+v", got)
	}
}

// fill makes the stream take no more.
func fill(t *testing.T, nc *nats.Conn) {
	t.Helper()
	js := streams(t, nc)
	stream, err := js.Stream(t.Context(), audit.Stream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.Discard, cfg.MaxMsgs = jetstream.DiscardNew, 1
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "portcullis.audit.x.y", []byte("{}")); err != nil {
		t.Fatal(err)
	}
}

func direct(nc *nats.Conn, cause string, spoil, mend func()) fault {
	return fault{url: nc.ConnectedUrl(), spoil: spoil, mend: mend, cause: cause}
}

// proxied is a fault of the network between the daemon and a server that is well.
func proxied(t *testing.T, nc *nats.Conn, cause string, spoil func(*netfault.Proxy)) fault {
	t.Helper()
	proxy := netfault.Start(t, strings.TrimPrefix(nc.ConnectedUrl(), "nats://"))
	// What was swallowed is lost to its connection, so that one must end.
	return fault{url: "nats://" + proxy.Addr(), spoil: func() { spoil(proxy) }, mend: func() { proxy.Pass(); proxy.Cut() }, cause: cause}
}

// TestNoDecisionWaitsForTheStream: whatever is wrong with it, decisions are what they are with it, what fails and what is
// dropped is counted by its cause, every decision is in the log, and events arrive again once it is well.
func TestNoDecisionWaitsForTheStream(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]func(*testing.T, *nats.Conn) fault{
		"absent": func(t *testing.T, nc *nats.Conn) fault {
			return direct(nc, "no_stream", func() { wipe(t, nc) }, func() { remake(t, nc) })
		},
		"full": func(t *testing.T, nc *nats.Conn) fault {
			return direct(nc, "refused", func() { fill(t, nc) }, func() { wipe(t, nc); remake(t, nc) })
		},
		"silent": func(t *testing.T, nc *nats.Conn) fault {
			return proxied(t, nc, "unanswered", (*netfault.Proxy).Blackhole)
		},
		"cut off": func(t *testing.T, nc *nats.Conn) fault {
			return proxied(t, nc, "disconnected", func(p *netfault.Proxy) { p.Blackhole(); p.Cut() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc := startAudit(t)
			broken := breaks(t, nc)
			s := newSite(t, driverconf.ModeShared)
			d := s.start(s.settings(driverconf.ModeShared, auditTables(broken.url)))
			d.AwaitReady()
			commandtest.Eventually(t, "it is connected", func() bool { return d.Metric("portcullis_nats_connected") == 1 })
			broken.spoil()
			c := s.client(d)
			token := apitest.Valid(driverconf.ModeShared).Token
			calls := 0
			decide := func() {
				calls++
				if resp, err := authenticate(t, c, token); err != nil || resp.GetSandboxId() != apitest.SandboxID {
					t.Fatalf("call %d: %v %v", calls, resp, err)
				}
			}
			failed := func(what string) float64 {
				return d.Metric(fmt.Sprintf("portcullis_audit_%s_total{cause=%q}", what, broken.cause))
			}
			for range 2 * room {
				decide()
			}
			commandtest.Eventually(t, "a failure is counted", func() bool { return failed("failures") > 0 })
			// What does not find room now is dropped because of it.
			commandtest.Eventually(t, "a drop is counted", func() bool { decide(); return failed("dropped") > 0 })
			if n := strings.Count(d.Stderr.String(), `"message":"decision"`); n != calls {
				t.Errorf("%d decisions of %d are in the log", n, calls)
			}
			broken.mend()
			commandtest.Eventually(t, "events arrive", func() bool { return d.Metric("portcullis_audit_published_total") > 0 && len(entries(t, nc)) > 0 })
			if code, text := d.Get("/readyz"); code != 200 {
				t.Errorf("readiness is %d:\n%s", code, text)
			}
			if code := d.Stop(); code != 0 {
				t.Errorf("exit code %d:\n%s", code, d.Stderr.String())
			}
		})
	}
}

// room is more events than wait and are on their way with the buffer of auditTables.
const room = 100
