package broker_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// targets are where an answer would do harm.
func targets() []string {
	return []string{
		snapshot, heartbeat, subjectOf("other.snapshot"), audit.Subject(gatewayID, "tokenauth"), audit.Subject("other", "tokenauth"),
		"$JS.API.STREAM.PURGE." + allowkv.Stream, "$JS.API.STREAM.DELETE." + allowkv.Stream, "$JS.API.STREAM.DELETE." + audit.Stream,
		apiPrefix + ".STREAM.DELETE." + allowkv.Stream, apiPrefix + ".STREAM.CREATE." + allowkv.Stream, "$SYS.REQ.SERVER.PING",
	}
}

// bodies are what the endpoints of the JetStream API take, so that they answer with something worth storing.
func bodies(subject string) []string {
	switch {
	case strings.Contains(subject, ".DIRECT.GET.KV_portcullis_allowlist.$KV"):
		return []string{""}
	case strings.Contains(subject, ".GET."):
		return []string{`{"seq":1}`, `{"seq":2}`}
	case strings.Contains(subject, ".MSG.NEXT."):
		return []string{`{"batch":1}`, ""}
	default:
		return []string{"", "{}"}
	}
}

// TestAnswersGoNowhereElse: every request that an identity may make is made with the answer addressed to where it would do harm. A
// server publishes answers itself, and asks nobody whether the one who asked may (NATS reference 5.3).
func TestAnswersGoNowhereElse(t *testing.T) {
	t.Parallel()
	for _, who := range table() {
		t.Run(who.name, func(t *testing.T) {
			t.Parallel()
			if before, after := inject(t, single(t), who, targets()...); after != before {
				t.Errorf("the streams were\n%s\nare\n%s", before, after)
			}
		})
	}
}

// TestInjectionIsSeen: where an account imports one subject of the bucket more than it needs, what TestAnswersGoNowhereElse tries stores an
// answer there although its user may not publish to it, and that test sees it each time. So it can fail, for each identity.
func TestInjectionIsSeen(t *testing.T) {
	t.Parallel()
	for _, who := range table() {
		t.Run(who.name, func(t *testing.T) {
			t.Parallel()
			target := subjectOf("other.snapshot")
			if before, after := inject(t, importing(t, single(t), strings.ToUpper(who.name), target), who, target); after == before {
				t.Errorf("the streams stay\n%s", before)
			}
		})
	}
}

// importing is f with one subject of the bucket that an account imports beside what it needs.
func importing(t *testing.T, f files, account, subject string) files {
	t.Helper()
	const imports, exports = "    imports: [\n", "    exports: [\n"
	accounts := f["accounts.conf"]
	at := strings.Index(accounts, "\n  "+account+" {\n")
	if at < 0 || !strings.Contains(accounts[at:], imports) || !strings.Contains(accounts[:at], exports) {
		t.Fatalf("accounts.conf does not show where %s imports from the account of the bucket", account)
	}
	f = maps.Clone(f)
	f["accounts.conf"] = strings.Replace(accounts[:at], exports, fmt.Sprintf("%s      { service: %q, accounts: [%s] }\n", exports, subject, account), 1) +
		strings.Replace(accounts[at:], imports, fmt.Sprintf("%s      { service: { account: ALLOWLIST, subject: %q } }\n", imports, subject), 1)
	return f
}

// inject has an identity make its requests at a stocked server of these files, with the answers addressed to the targets. It returns what the
// streams hold before that, and when all of it has been answered and the answers have arrived.
func inject(t *testing.T, f files, who identity, targets ...string) (before, after string) {
	t.Helper()
	b, err := stocked(t, f)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := b.bare(who.name)
	if err != nil {
		t.Fatal(err)
	}
	own := b.consumers(who)
	before = b.state() + b.expected()
	for _, filled := range own.asks(who) {
		for _, target := range targets {
			if among(who.publishes, target) {
				continue // it may store there anyway
			}
			for _, body := range bodies(filled) {
				if err := nc.PublishRequest(filled, target, []byte(body)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	for range 2 { // what was asked, and what its answers ask
		b.settle(nc, own.asks(who))
	}
	return before, b.state() + b.next()
}

// asks are the requests that an identity may make and that change nothing, on its own consumers where there are any. For the others see
// TestAnswersToChangesGoNowhereElse.
func (m mine) asks(who identity) []string {
	var all []string
	for _, g := range who.publishes {
		if subject := parts.Replace(g.asks); !changes(subject) {
			all = append(all, m.fill(subject)...)
		}
	}
	return all
}

// settle returns when what was asked before, on these subjects, has been answered and each answer has reached the stream or the API that it
// is addressed to. The server takes requests up in any order, hence the wait; answers it hands out in the order in which it has
// them, so one more request on each subject has its answer after all others.
func (b *broker) settle(nc *nats.Conn, subjects []string) {
	b.t.Helper()
	b.idle()
	for _, subject := range subjects {
		body := bodies(subject)[0]
		if strings.Contains(subject, ".MSG.NEXT.") {
			body = `{"batch":1,"no_wait":true}`
		}
		if _, err := nc.Request(subject, []byte(body), patience); err != nil {
			b.t.Fatalf("%s answers nothing: %v", subject, err)
		}
	}
	b.idle()
}

// idle waits until the server has answered every request of the JetStream API.
func (b *broker) idle() {
	b.t.Helper()
	cluster.Eventually(b.t, "the server has answered every request", func(context.Context) error {
		info, err := b.srv.Jsz(nil)
		if err == nil && info.API.Inflight > 0 {
			err = fmt.Errorf("%d are not answered", info.API.Inflight)
		}
		return err
	})
}

// expected is what next returns while nothing is stored.
func (b *broker) expected() string {
	b.t.Helper()
	following := map[string]uint64{}
	for _, stream := range b.streams() {
		following[stream.Name] = stream.State.LastSeq + 1
	}
	return fmt.Sprint("\nstored next: ", following)
}

// next stores one message by right in each stream, and returns which it is: streams store messages in the order in which they come, so all
// before it are counted.
func (b *broker) next() string {
	b.t.Helper()
	following := map[string]uint64{}
	for subject, who := range map[string]string{heartbeat: "nswatch", audit.Subject(gatewayID, "tokenauth"): "tokenauth"} {
		js, err := b.as(who)
		if err != nil {
			b.t.Fatal(err)
		}
		ack, err := js.PublishMsg(b.patient(), &nats.Msg{Subject: subject, Data: []byte("{}")})
		if err != nil {
			b.t.Fatal(err)
		}
		following[ack.Stream] = ack.Sequence
	}
	return fmt.Sprint("\nstored next: ", following)
}

// patient is the time that one request has on a busy machine; the client's own default is short.
func (b *broker) patient() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

// mine are an identity's own consumers by stream.
type mine struct {
	js    jetstream.JetStream
	names map[string]string
	t     testing.TB
}

// consumers makes one consumer on each stream that an identity may read.
func (b *broker) consumers(who identity) mine {
	b.t.Helper()
	js, err := b.as(who.name)
	if err != nil {
		b.t.Fatal(err)
	}
	own := mine{js: js, names: map[string]string{}, t: b.t}
	for _, g := range who.publishes {
		subject := parts.Replace(g.asks)
		_, rest, makes := strings.Cut(subject, ".CONSUMER.CREATE.")
		if !makes {
			continue
		}
		stream, filter, _ := strings.Cut(rest, ".*.")
		name := "own-" + rand.Text()
		if _, err := js.CreateConsumer(b.patient(), stream, jetstream.ConsumerConfig{
			Name: name, FilterSubject: filter, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: time.Hour,
		}); err != nil {
			b.t.Fatal(err)
		}
		own.names[stream] = name
	}
	return own
}

// fill puts the own consumer's name in place of a wildcard.
func (m mine) fill(subject string) []string {
	if !strings.Contains(subject, "*") && !strings.HasSuffix(subject, ">") {
		return []string{subject}
	}
	if base, all := strings.CutSuffix(subject, "$KV.portcullis_allowlist.>"); all {
		return []string{base + snapshot, base + heartbeat}
	}
	var filled []string
	for stream, name := range m.names {
		if strings.Contains(subject, "."+stream+".") {
			filled = append(filled, strings.Replace(subject, "*", name, 1))
		}
	}
	return filled
}
