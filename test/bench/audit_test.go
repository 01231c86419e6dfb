package bench_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/secret"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

const (
	// auditEvents are recorded of each kind, auditBatch at once: less than waits at most.
	auditEvents, auditBatch = 20_000, 1000
)

// BenchmarkAudit runs once, whatever b.N is, and prints its table: what the audit stream and the NATS server, as it is shipped, take for one
// event. The events are recorded by the part that tokenauth has for it, with what tokenauth says of a decision in operator mode.
func BenchmarkAudit(b *testing.B) {
	server := newBroker(b)
	server.know("team-gateway")
	server.start()
	server.do("tokenauth", "audit", "bootstrap")
	conn := server.connect("tokenauth")
	trail, err := audit.New(audit.DefaultConfig(), audit.Origin{Daemon: "tokenauth", GatewayID: server.gatewayID}, conn, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.background(conn.Run, trail.Run))
	hasher, err := audit.NewHasher("")
	if err != nil {
		b.Fatal(err)
	}
	list := verdict.Evidence{Namespace: "team-00000-workloads", Epoch: 1_767_000_000, Revision: 12_345, Proven: true, Age: 412 * time.Millisecond}
	event := audit.Event{
		Call: "authenticate", Decision: verdict.Grant(list), Namespace: list.Namespace, PodUID: "6f1c1a3e-8f0e-4f57-9d5b-0f8f2f6f7a10",
		SandboxID: "0b54b1f4-63a7-4c55-8a54-93b7f1d0c2ee", Token: hasher.Fingerprint(secret.New([]byte(strings.Repeat("t", 1100)))),
		RequestID: "4bf92f3577b34da6a3ce929d0e0e4736", Caller: "spiffe://portcullis/lifecycle", Duration: 4_123_456 * time.Nanosecond,
	}
	refused, early := event, event
	refused.Decision = verdict.Refuse(verdict.PodReplaced, "pod", "").WithAllowlist(list)
	early.Decision, early.Namespace, early.PodUID, early.SandboxID = verdict.Refuse(verdict.CredentialMalformed, "credential", ""), "", "", ""
	rest := server.taken("rest", 10*time.Second)
	rows := []string{"| event | bytes of the stream | in 256 MiB | processor of NATS | NATS resident |", "| --- | --- | --- | --- | --- |"}
	for _, kind := range []struct {
		name  string
		event audit.Event
	}{{"granted", event}, {"refused at the Pod", refused}, {"refused at first sight", early}} {
		rows = append(rows, server.audited(kind.name, rest, trail, kind.event))
	}
	show(b, "audit", strings.Join(rows, "\n"))
}

// audited records events of one kind, and says what one of them took.
func (s *broker) audited(what string, rest natsRow, trail *audit.Trail, event audit.Event) string {
	s.b.Helper()
	before, pid := s.stored(), s.cmd.Process.Pid
	cpu, start := s.cpu(pid), time.Now()
	for n := auditBatch; n <= auditEvents; n += auditBatch {
		for range auditBatch {
			trail.Record(event)
		}
		for end := time.Now().Add(natsLimit); s.stored().Messages < before.Messages+n; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				s.b.Fatalf("of %d events the stream has %d", n, s.stored().Messages-before.Messages)
			}
		}
	}
	used := s.cpu(pid) - cpu - time.Duration(float64(rest.rest)*time.Since(start).Seconds())
	bytes := float64(s.stored().Bytes-before.Bytes) / auditEvents
	const bound = 256 << 20
	return fmt.Sprintf("| %s | %.0f | %.0f | %.3f ms | %.1f MiB |", what, bytes, bound/bytes, ms(max(used, 0))/auditEvents, mib(s.resident(resident(pid))))
}

// streamState is how much a stream holds.
type streamState struct{ Messages, Bytes int }

// stored is what the server says of the audit stream at its port for monitoring.
func (s *broker) stored() streamState {
	s.b.Helper()
	text, err := fetch(s.b.Context(), fmt.Sprintf("http://127.0.0.1:%d/jsz?acc=AUDIT&streams=true", s.monitor))
	if err != nil {
		s.b.Fatal(err)
	}
	var answer struct {
		Accounts []struct {
			Streams []struct{ State streamState } `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Accounts) != 1 || len(answer.Accounts[0].Streams) != 1 {
		s.b.Fatalf("the server does not say what one audit stream holds: %v\n%s", err, text)
	}
	return answer.Accounts[0].Streams[0].State
}
