package tokenauth

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// Trail is the audit stream as an auditor sees it.
type Trail struct {
	site *Site
	js   jetstream.JetStream
}

// Audit has the daemon use these NATS servers, or those that its mode needs anyway when none are given, and makes the audit stream
// there, as an installation does before the daemons start.
func (s *Site) Audit(urls ...string) *Trail {
	s.t.Helper()
	if len(urls) > 0 {
		s.nats = urls
	}
	conn, err := nats.Connect(strings.Join(s.nats, ","), nats.MaxReconnects(-1))
	s.must("connect to NATS", err)
	s.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	s.must("speak to JetStream", err)
	bootstrap := program.Command(s.t, daemon, "audit", "bootstrap", "--config", program.Settings(s.t, s.Settings()))
	if out, err := bootstrap.CombinedOutput(); err != nil {
		s.t.Fatalf("make the audit stream: %v\n%s", err, out)
	}
	return &Trail{site: s, js: js}
}

// Entries are the events of the site's gateway that are in the stream, by request. What the stream holds is watched for tokens, too.
func (t *Trail) Entries(ctx context.Context) (map[string]audit.Entry, error) {
	stream, err := t.js.Stream(ctx, audit.Stream)
	if err != nil {
		return nil, fmt.Errorf("read the audit stream: %w", err)
	}
	found := map[string]audit.Entry{}
	var text strings.Builder
	for seq := stream.CachedInfo().State.FirstSeq; seq <= stream.CachedInfo().State.LastSeq && seq > 0; seq++ {
		message, err := stream.GetMsg(ctx, seq)
		if err != nil {
			return nil, fmt.Errorf("read event %d of the audit stream: %w", seq, err)
		}
		text.Write(message.Data)
		if message.Subject != audit.Subject(t.site.GatewayID, daemon) {
			continue
		}
		var entry audit.Entry
		if err := json.Unmarshal(message.Data, &entry); err != nil {
			return nil, fmt.Errorf("event %d of the audit stream is no JSON: %w", seq, err)
		}
		if _, twice := found[entry.RequestID]; twice {
			return nil, fmt.Errorf("request %s has two events", entry.RequestID)
		}
		found[entry.RequestID] = entry
	}
	t.site.Watch(text.String)
	return found, nil
}
