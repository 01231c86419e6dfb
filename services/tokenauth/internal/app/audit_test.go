package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/services/tokenauth/internal/apitest"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/command/commandtest"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// maker is a settings file that is enough to make the stream, with keys of [portcullis.audit].
func maker(t *testing.T, url string, keys ...string) string {
	t.Helper()
	return write(t, "gateway.toml", fmt.Sprintf("[portcullis.nats]\nurls = [%q]\n[portcullis.audit]\n%s\n", url, strings.Join(keys, "\n")))
}

// TestAuditBootstrap goes through what an operator does, with a file that has nothing of the daemon's own.
func TestAuditBootstrap(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "nats://" + closed.Addr().String()
	_ = closed.Close()
	for _, step := range []struct {
		name, url string
		keys      []string
		args      []string
		code      int
		want      string
	}{
		{"makes it", server.URL(), []string{"max_bytes = 4194304", `max_age = "48h"`}, nil, 0, "created the stream PORTCULLIS_AUDIT: max_age 48h0m0s, max_bytes 4194304, replicas 1\n"},
		{"finds it", server.URL(), []string{"max_bytes = 4194304", `max_age = "48h"`}, nil, 0, "the stream PORTCULLIS_AUDIT is there and right\n"},
		{"raises a bound", server.URL(), []string{"max_bytes = 8388608", `max_age = "48h"`}, nil, 0, "changed the stream PORTCULLIS_AUDIT: max_bytes was 4194304, is 8388608\n"},
		{"lowers none", server.URL(), []string{"max_bytes = 8388608", `max_age = "24h"`}, nil, 1, "max_age was 48h0m0s, is 24h0m0s"},
		{"says how", server.URL(), []string{"max_bytes = 4194304", `max_age = "48h"`}, nil, 1, "--shrink"},
		{"lowers both", server.URL(), []string{"max_bytes = 4194304", `max_age = "24h"`}, []string{"--shrink"}, 0, "changed the stream PORTCULLIS_AUDIT: max_age was 48h0m0s, is 24h0m0s\nchanged the stream PORTCULLIS_AUDIT: max_bytes was 8388608, is 4194304\n"},
		{"asks for too much", server.URL(), []string{"replicas = 3", "max_bytes = 4194304", `max_age = "24h"`}, nil, 1, "change its bounds"},
		{"wrong settings", server.URL(), []string{"max_bytes = 1"}, nil, 1, "portcullis.audit.max_bytes"},
		{"nobody listens", nobody, nil, nil, 1, "not connected to NATS"},
	} {
		got := program.Run(t.Context(), append([]string{"audit", "bootstrap", "--config", maker(t, step.url, step.keys...)}, step.args...)...)
		if got.Code != step.code || (step.code == 0 && (got.Stdout != step.want || got.Stderr != "")) || (step.code != 0 && !strings.Contains(got.Stderr, step.want)) {
			t.Errorf("%s: %+v", step.name, got)
		}
	}
	for want, args := range map[string][]string{
		"portcullis.nats.urls": {"audit", "bootstrap", "--config", write(t, "gateway.toml", "[portcullis.audit]\n")},
		"needs a subcommand":   {"audit"},
	} {
		if got := program.Run(t.Context(), args...); got.Code != 1 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%v: %+v, want %q", args, got, want)
		}
	}
}

// auditTables are the settings of a daemon that publishes, with little commandtest.Patience, but for a connection that is silent: nobody
// shall find that out before the test is done.
func auditTables(url string) string {
	return fmt.Sprintf(`[portcullis.nats]
urls = [%q]
ping_interval = "30s"
[portcullis.audit]
buffer = 16
ack_timeout = "200ms"
flush_timeout = "100ms"
`, url)
}

// entries is what is in the stream.
func entries(t *testing.T, nc *nats.Conn) []audit.Entry {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), commandtest.Patience)
	defer cancel()
	stream, err := js.Stream(ctx, audit.Stream)
	if err != nil {
		t.Fatal(err)
	}
	var found []audit.Entry
	state := stream.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		m, err := stream.GetMsg(ctx, seq)
		if err != nil {
			t.Fatal(err)
		}
		var e audit.Entry
		if err := json.Unmarshal(m.Data, &e); err != nil || m.Subject != "portcullis.audit."+apitest.GatewayID+"."+e.Daemon {
			t.Errorf("%s on %s: %v", m.Data, m.Subject, err)
		}
		found = append(found, e)
	}
	return found
}

// TestEveryDecisionIsInTheStream: a grant and a refusal, with all that is known of them.
func TestEveryDecisionIsInTheStream(t *testing.T) {
	t.Parallel()
	nc := startAudit(t)
	s := newSite(t, driverconf.ModeShared)
	d := s.start(s.settings(driverconf.ModeShared, auditTables(nc.ConnectedUrl())))
	c := s.client(d)
	token := apitest.Valid(driverconf.ModeShared).Token
	began := time.Now()
	if _, err := authenticate(t, c, token); err != nil {
		t.Fatal(err)
	}
	s.Change(func(w *apitest.World) { w.Sandbox.Labels["openshell.ai/gateway-id"] = "another" })
	if _, err := authenticate(t, c, token); err == nil {
		t.Fatal("granted")
	}
	commandtest.Eventually(t, "both are there", func() bool { return len(entries(t, nc)) == 2 })
	got := entries(t, nc)
	grant := audit.Entry{
		Seq: 1, Daemon: "tokenauth", Gateway: apitest.GatewayID, Call: "authenticate", Outcome: "granted", Code: "OK",
		Namespace: apitest.NamespaceIn(driverconf.ModeShared), PodUID: apitest.PodUID, SandboxID: apitest.SandboxID,
		RequestID: "r-1", Caller: "lifecycle",
	}
	refusal := grant
	refusal.Seq, refusal.Outcome, refusal.Code, refusal.Reason, refusal.Step = 2, "denied", "PermissionDenied", "sandbox_other_gateway", "sandbox.gateway"
	refusal.SandboxID = got[1].SandboxID
	if diff := cmp.Diff([]audit.Entry{grant, refusal}, got, cmpopts.IgnoreFields(audit.Entry{}, "Time", "Instance", "Token", "TokenKey", "DurationMS")); diff != "" {
		t.Error(diff)
	}
	for _, e := range got {
		if len(e.Instance) != 16 || e.Instance != got[0].Instance || len(e.Token) != 32 || e.Token != got[0].Token || len(e.TokenKey) != 8 ||
			e.DurationMS <= 0 || e.Time.Before(began.Add(-time.Second)) || e.Time.After(time.Now().Add(time.Second)) {
			t.Errorf("%+v", e)
		}
	}
	if where := d.Logged("decisions are recorded in this log and in the stream", "subject"); where != "portcullis.audit."+apitest.GatewayID+".tokenauth" {
		t.Errorf("they go to %s", where)
	}
	if n := d.Metric("portcullis_audit_published_total"); n != 2 {
		t.Errorf("%v are counted", n)
	}
}
