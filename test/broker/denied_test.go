package broker_test

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// hostile are subjects that nobody may publish to, beside those that somebody else may: in the JetStream API under both prefixes, at
// the streams directly, in others' inboxes, and in what servers say to each other.
func hostile() []string {
	var all []string
	for _, stream := range []string{"KV_portcullis_allowlist", "PORTCULLIS_AUDIT"} {
		for _, prefix := range []string{"$JS.API.", apiPrefix + "."} {
			for _, endpoint := range []string{
				"STREAM.CREATE.", "STREAM.UPDATE.", "STREAM.INFO.", "STREAM.DELETE.", "STREAM.PURGE.", "STREAM.MSG.DELETE.", "STREAM.MSG.GET.",
				"STREAM.SNAPSHOT.", "STREAM.RESTORE.", "STREAM.LEADER.STEPDOWN.", "STREAM.PEER.REMOVE.",
				"CONSUMER.CREATE.", "CONSUMER.NAMES.", "CONSUMER.LIST.", "DIRECT.GET.",
			} {
				all = append(all, prefix+endpoint+stream)
			}
			for _, endpoint := range []string{
				"CONSUMER.CREATE.%s.own", "CONSUMER.DURABLE.CREATE.%s.own", "CONSUMER.CREATE.%s.own.>", "CONSUMER.CREATE.%s.own.$KV.portcullis_allowlist.other.*",
				"CONSUMER.CREATE.%s.own.$KV.portcullis_allowlist.*.heartbeat", "CONSUMER.CREATE.%s.own.$KV.portcullis_allowlist.>",
				"CONSUMER.CREATE.%s.own.portcullis.audit.>", "CONSUMER.INFO.%s.other", "CONSUMER.DELETE.%s.other", "CONSUMER.MSG.NEXT.%s.other",
				"CONSUMER.PAUSE.%s.other", "CONSUMER.UNPIN.%s.other", "CONSUMER.RESET.%s.other", "CONSUMER.LEADER.STEPDOWN.%s.other",
				"DIRECT.GET.%s.$KV.portcullis_allowlist.openshell.snapshot",
			} {
				all = append(all, prefix+fmt.Sprintf(endpoint, stream))
			}
		}
		all = append(all, "$JS.ACK."+stream+".other.1.1.1.1.0", "$JS.FC."+stream+".other.x", "$JS.SNAPSHOT.ACK."+stream+".x")
	}
	for _, prefix := range []string{"$JS.API.", apiPrefix + "."} {
		for _, endpoint := range []string{
			"INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.CREATE.other", "META.LEADER.STEPDOWN", "SERVER.REMOVE", "ACCOUNT.PURGE.ALLOWLIST", "ACCOUNT.STREAM.MOVE.ALLOWLIST.x",
		} {
			all = append(all, prefix+endpoint)
		}
	}
	return append(all,
		"$KV.portcullis_allowlist.openshell.snapshot", "$KV.portcullis_allowlist.openshell.heartbeat", "$KV.portcullis_allowlist.openshell.other",
		"$KV.portcullis_allowlist.other.snapshot", "$KV.portcullis_allowlist.other.heartbeat", "$KV.other.key", apiPrefix+".$KV.portcullis_allowlist.openshell.snapshot",
		"portcullis.audit.openshell.tokenauth", "portcullis.audit.openshell.lifecycle", "portcullis.audit.other.tokenauth",
		"_INBOX.x.y", "_INBOX_bootstrap.x", "_R_.x.y", "portcullis.deliver.x.y", "portcullis.js", "anything",
		"$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.SERVER.x.RELOAD", "$SYS.REQ.SERVER.x.LDM", "$SYS.REQ.ACCOUNT.ALLOWLIST.INFO",
		"$SYS.REQ.USER.INFO", "$SYS.ACCOUNT.ALLOWLIST.CONNECT", "$NRG.P.x", "$JSC.R.x", "$JS.EVENT.ADVISORY.STREAM.DELETED.KV_portcullis_allowlist", "$MQTT.x",
	)
}

// overheard are subjects that nobody may listen on, but for those that are among the identity's own.
var overheard = []string{
	">", "*", "*.>", "$KV.>", "$KV.portcullis_allowlist.>", "$KV.portcullis_allowlist.openshell.snapshot", "$JS.>", "$JS.API.>", "$JS.EVENT.>", "$JS.ACK.>",
	"$JS.FC.>", "$SYS.>", "$SYS.REQ.>", "$NRG.>", "$JSC.>", "_INBOX.>", "_INBOX", "_INBOX_bootstrap.>", "_R_.>", "portcullis.>", "portcullis.audit.>",
	"portcullis.audit.openshell.tokenauth", "portcullis.js.>", "portcullis.deliver.>", "portcullis.deliver", "anything",
}

// matches reports whether a subject, which may hold wildcards of its own, is wholly in a pattern.
func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s) || s[i] == ">" || token != "*" && token != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}

func among(grants []grant, subject string) bool {
	return slices.ContainsFunc(grants, func(g grant) bool { return matches(parts.Replace(g.asks), subject) })
}

// TestEverythingElseIsDenied: each identity tries every subject of every other, and the hostile ones. The server refuses each that the
// table does not give it, and none that it does; and what the streams hold is what they held.
func TestEverythingElseIsDenied(t *testing.T) {
	t.Parallel()
	tried := hostile()
	for r := range rights() {
		if r.verb == "publish" {
			tried = append(tried, strings.NewReplacer("*", "other", ">", "other.key").Replace(r.subject))
		}
	}
	slices.Sort(tried)
	tried = slices.Compact(tried)
	for _, who := range table() {
		t.Run(who.name, func(t *testing.T) {
			t.Parallel()
			b, err := stocked(t, single(t))
			if err != nil {
				t.Fatal(err)
			}
			before := b.state()
			attempts := 0
			publish, subscribe := b.refusals(who.name)
			for _, subject := range tried {
				if among(who.publishes, subject) {
					continue
				}
				attempts++
				if !publish(subject) {
					t.Errorf("it may publish to %s", subject)
				}
			}
			for _, subject := range overheard {
				want := among(who.subscribes, subject)
				if refused := subscribe(subject); refused == want {
					t.Errorf("may it listen on %s? %t, the table says %t", subject, !refused, want)
				}
			}
			if attempts < 100 {
				t.Errorf("only %d subjects were tried", attempts)
			}
			if after := b.state(); after != before {
				t.Errorf("the streams were %s, are %s", before, after)
			}
		})
	}
}

// refusals tell whether the server refuses that an identity publishes to a subject, or subscribes to it.
func (b *broker) refusals(who string) (publish, subscribe func(subject string) bool) {
	b.t.Helper()
	said := make(chan string, 16)
	nc, err := b.bare(who, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { said <- err.Error() }))
	if err != nil {
		b.t.Fatal(err)
	}
	// What nobody may publish to marks the end: the server answers in order.
	const end = "end.of.it"
	refused := func(what, subject string) (yes bool) {
		b.t.Helper()
		if err := nc.Publish(end, nil); err != nil {
			b.t.Fatal(err)
		}
		for {
			select {
			case text := <-said:
				if strings.Contains(text, fmt.Sprintf("Publish to %q", end)) {
					return yes
				}
				yes = yes || strings.Contains(text, fmt.Sprintf("%s to %q", what, subject))
			case <-time.After(patience):
				b.t.Fatal("the server says nothing")
			}
		}
	}
	inbox := nc.NewInbox()
	return func(subject string) bool {
			b.t.Helper()
			message := &nats.Msg{Subject: subject, Reply: inbox, Data: []byte("{}"), Header: nats.Header{"Nats-Rollup": {"all"}}}
			if err := nc.PublishMsg(message); err != nil {
				b.t.Fatal(err)
			}
			return refused("Publish", subject)
		}, func(subject string) bool {
			b.t.Helper()
			sub, err := nc.SubscribeSync(subject)
			if err != nil {
				b.t.Fatal(err)
			}
			yes := refused("Subscription", subject)
			if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrBadSubscription) && !errors.Is(err, nats.ErrPermissionViolation) {
				b.t.Fatal(err)
			}
			return yes
		}
}

// state is what the streams hold and how they are set, as the server itself has it.
func (b *broker) state() string {
	b.t.Helper()
	var all []string
	for _, stream := range b.streams() {
		config, err := json.Marshal(stream.Config)
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s: %d consumers, messages %d to %d, %d bytes, %s", stream.Name, len(stream.Consumer),
			stream.State.FirstSeq, stream.State.LastSeq, stream.State.Bytes, config))
	}
	return strings.Join(all, "\n")
}

// streams are the two, as the server itself has them.
func (b *broker) streams() (all []server.StreamDetail) {
	b.t.Helper()
	for _, name := range []string{"ALLOWLIST", "AUDIT"} {
		info, err := b.srv.Jsz(&server.JSzOptions{Account: name, Streams: true, Consumer: true, Config: true})
		if err != nil {
			b.t.Fatal(err)
		}
		for _, account := range info.AccountDetails {
			all = append(all, account.Streams...)
		}
	}
	if len(all) != 2 {
		b.t.Fatalf("there are %d streams: %+v", len(all), all)
	}
	return all
}

// TestStrangersStayOut: who has none of the keys is not let in, nor who speaks no TLS 1.3.
func TestStrangersStayOut(t *testing.T) {
	t.Parallel()
	b := start(t, single(t))
	public, unknown := natstest.NKey(t)
	pair, err := nkeys.FromSeed(unknown)
	if err != nil {
		t.Fatal(err)
	}
	trusting, key := nats.RootCAs(authority(t)), nats.Nkey(public, pair.Sign)
	for name, c := range map[string]struct {
		options []nats.Option
		says    string
	}{
		"no identity":    {[]nats.Option{trusting}, "Authorization Violation"},
		"a user name":    {[]nats.Option{trusting, nats.UserInfo("nswatch", "nswatch")}, "Authorization Violation"},
		"an unknown key": {[]nats.Option{trusting, key}, "Authorization Violation"},
		"an older TLS":   {[]nats.Option{nats.Secure(&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})}, "protocol version"},
	} {
		t.Run(name, func(t *testing.T) {
			nc, err := nats.Connect(b.url(), append(c.options, nats.NoReconnect(), nats.Timeout(patience))...)
			if err == nil {
				nc.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}
