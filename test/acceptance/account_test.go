package acceptance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// oneAccount has the writer and a reader side by side (NATS reference 5.2), the reader with the rights of a person with
// the stock CLI too.
const oneAccount = `
accounts {
  AUTHZ {
    jetstream { max_mem: 1MB, max_file: 2MB }
    users: [
      { nkey: WRITER }
      { nkey: READER, permissions: {
        publish: { allow: [
          "$JS.API.CONSUMER.CREATE.KV_portcullis_allowlist.*.$KV.portcullis_allowlist.>"
          "$JS.API.CONSUMER.MSG.NEXT.KV_portcullis_allowlist.*"
          "$JS.API.DIRECT.GET.KV_portcullis_allowlist"
          "$JS.API.STREAM.INFO.KV_portcullis_allowlist" ] }
        subscribe: { allow: ["_INBOX_gw.>"] } } } ]
  }
}`

// twoAccounts has the readers in an account of their own, which imports what they need (NATS reference 5.4). Their
// rights in it are wider than they need, so that only the second account stands in the way.
const twoAccounts = `
accounts {
  AUTHZ {
    jetstream { max_mem: 1MB, max_file: 2MB }
    users: [ { nkey: WRITER } ]
    exports: [
      { service: "$JS.API.CONSUMER.CREATE.KV_portcullis_allowlist.*.$KV.portcullis_allowlist.>", accounts: [READERS] }
      { service: "$JS.API.CONSUMER.MSG.NEXT.KV_portcullis_allowlist.*", response_type: Stream, accounts: [READERS] }
      { service: "$JS.API.DIRECT.GET.KV_portcullis_allowlist", accounts: [READERS] }
      { service: "$JS.API.STREAM.INFO.KV_portcullis_allowlist", accounts: [READERS] } ]
  }
  READERS {
    users: [ { nkey: READER, permissions: { publish: { allow: ["AZ.>"] }, subscribe: { allow: ["_INBOX_gw.>"] } } } ]
    imports: [
      { service: { account: AUTHZ, subject: "$JS.API.CONSUMER.CREATE.KV_portcullis_allowlist.*.$KV.portcullis_allowlist.>" },
        to: "AZ.CONSUMER.CREATE.KV_portcullis_allowlist.*.$KV.portcullis_allowlist.>" }
      { service: { account: AUTHZ, subject: "$JS.API.CONSUMER.MSG.NEXT.KV_portcullis_allowlist.*" },
        to: "AZ.CONSUMER.MSG.NEXT.KV_portcullis_allowlist.*" }
      { service: { account: AUTHZ, subject: "$JS.API.DIRECT.GET.KV_portcullis_allowlist" },
        to: "AZ.DIRECT.GET.KV_portcullis_allowlist" }
      { service: { account: AUTHZ, subject: "$JS.API.STREAM.INFO.KV_portcullis_allowlist" },
        to: "AZ.STREAM.INFO.KV_portcullis_allowlist" } ]
  }
}`

// configured runs a server under a configuration in which WRITER and READER stand for the two identities.
func configured(t testing.TB, text string, writer, reader identity) *natstest.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	text = strings.NewReplacer("nkey: WRITER", "nkey: "+writer.public, "nkey: READER", "nkey: "+reader.public).Replace(text)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return natstest.Start(t, func(o *server.Options) {
		parsed, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Fatalf("the configuration: %v", err)
		}
		o.Accounts, o.Nkeys = parsed.Accounts, parsed.Nkeys
	})
}

// intruder is a reader's identity in other hands: it asks for what it may ask for, and wants the answers elsewhere.
type intruder struct {
	t      testing.TB
	nc     *nats.Conn
	prefix string
}

// ask sends a request whose answer goes to a subject, and waits until the server has dealt with it.
func (i *intruder) ask(request, reply string, body any) {
	i.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		i.t.Fatal(err)
	}
	if err := i.nc.PublishRequest(i.prefix+"."+request, reply, data); err != nil {
		i.t.Fatal(err)
	}
	// The API answers one connection's requests of one kind in turn, so the answer to the next tells of this one.
	if _, err := i.nc.RequestWithContext(i.t.Context(), i.prefix+".STREAM.INFO."+allowkv.Stream, nil); err != nil {
		i.t.Fatalf("the intruder's own rights do not work, so that this test proves nothing: %v", err)
	}
}

// inject tries every way that is known to have the server store something on a key: an old message by a direct get, all
// old messages by a consumer, and the answer to an API request.
func (i *intruder) inject(key string, old uint64) {
	i.t.Helper()
	target := onKey(key)
	i.ask("DIRECT.GET."+allowkv.Stream, target, map[string]any{"seq": old})
	consumer := map[string]any{
		"stream_name": allowkv.Stream,
		"config": map[string]any{
			"name": "intruder", "deliver_policy": "all", "ack_policy": "none", "filter_subject": onKey(key),
			"mem_storage": true, "num_replicas": 1, "inactive_threshold": time.Minute,
		},
	}
	create := "CONSUMER.CREATE." + allowkv.Stream + ".intruder." + onKey(key)
	if _, err := i.nc.RequestWithContext(i.t.Context(), i.prefix+"."+create, encoded(i.t, consumer)); err != nil {
		i.t.Fatal(err)
	}
	i.ask("CONSUMER.MSG.NEXT."+allowkv.Stream+".intruder", target, map[string]any{"batch": 8, "no_wait": true})
	i.ask(create, target, consumer)
	i.ask("STREAM.INFO."+allowkv.Stream, target, map[string]any{})
}

func encoded(t testing.TB, body any) []byte {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A reader's identity asks the server for answers onto the keys of the bucket, which no permission forbids. With one
// account that is stored, an old list that verifies included, and no reader is widened by it; with two accounts the
// bucket is not touched and nothing closes.
func TestReplyInjection(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, config, prefix string
		lands                bool
	}{
		{"one account", oneAccount, "$JS.API", true},
		{"two accounts", twoAccounts, "AZ", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			writer, asReader := newIdentity(t), newIdentity(t)
			s := &scene{t: t, channel: newChannel(t, "gw-1", patient), server: configured(t, test.config, writer, asReader)}
			s.edits = []func(*natsconn.Config){writer.daemon}
			_, s.js = operate(t, s.server.URL(), writer.option(t))
			s.kv = bootstrap(t, s.js, 1)
			s.play()
			conn := connect(t, []string{s.server.URL()}, asReader.daemon, func(c *natsconn.Config) {
				c.JSAPIPrefix, c.InboxPrefix = test.prefix, "_INBOX_gw"
			})
			// An old list without the condition under which it was once stored, as an operator's mistake leaves it behind.
			s.revert(s.snapshot(), s.old[s.snapshot()])
			old, err := s.kv.Get(t.Context(), s.snapshot())
			if err != nil {
				t.Fatal(err)
			}
			w := s.write(connect(t, []string{s.server.URL()}, writer.daemon), "team-a")
			r := s.read(conn)
			r.answers("team-a", "")
			r.beats(2)
			w.kill()

			ends := s.neverWidened(r)
			before := s.lastSequence()
			nc, _ := operate(t, s.server.URL(), asReader.option(t), nats.CustomInboxPrefix("_INBOX_gw"))
			i := &intruder{t: t, nc: nc, prefix: test.prefix}
			untouched := func() {}
			if !test.lands {
				untouched = r.staysOpen("team-a")
			}
			i.inject(s.snapshot(), old.Revision())
			i.inject(s.heartbeat(), old.Revision())
			if landed := s.lastSequence() - before; landed > 0 != test.lands {
				t.Errorf("%d messages were injected, want any: %t", landed, test.lands)
			}
			if test.lands {
				r.until("the old list", func() bool { return r.count("findings_total", "rollback") > 0 })
				r.until("the garbage", func() bool { return r.count("findings_total", "malformed") > 0 })
				r.answers("team-a", verdict.Invalid)
			}
			untouched()
			s.write(connect(t, []string{s.server.URL()}, writer.daemon), "team-a")
			r.answers("team-a", "")
			r.beats(2)
			ends()
		})
	}
}

// lastSequence is that of the newest message in the bucket.
func (s *scene) lastSequence() uint64 {
	s.t.Helper()
	stream, err := s.js.Stream(s.t.Context(), allowkv.Stream)
	if err != nil {
		s.t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

// The reader's user is taken out of the server's configuration while the reader is connected, and put back later.
func TestUserIsRemoved(t *testing.T) {
	t.Parallel()
	writer, asReader := newIdentity(t), newIdentity(t)
	var running *server.Options
	s := natstest.Start(t, natstest.WithNKeys(writer.public, asReader.public), func(o *server.Options) { running = o })
	_, js := operate(t, s.URL(), writer.option(t))
	bootstrap(t, js, 1)
	c := newChannel(t, "gw-1", quick)
	w := c.write(connect(t, []string{s.URL()}, writer.daemon), "team-a", "team-b")
	r := c.read(connect(t, []string{s.URL()}, asReader.daemon))
	r.answers("team-b", "")
	reload := func(users ...string) {
		t.Helper()
		next := running.Clone()
		natstest.WithNKeys(users...)(next)
		if err := s.Raw().ReloadOptions(next); err != nil {
			t.Fatal(err)
		}
	}
	reload(writer.public)
	w.publish("team-a")
	r.answers("team-a", verdict.Stale)
	r.answers("team-b", verdict.Stale)
	reload(writer.public, asReader.public)
	r.answers("team-a", "")
	r.answers("team-b", verdict.NotListed)
}

// Somebody takes every consumer that the stream may have. A reader whose own breaks gets no other.
func TestConsumersAreExhausted(t *testing.T) {
	t.Parallel()
	s, js, _ := single(t, func(o *server.Options) { o.JetStreamLimits.DefaultMaxConsumers = 10 })
	c := newChannel(t, "gw-1", quick)
	w := c.write(connect(t, []string{s.URL()}), "team-a", "team-b")
	r := c.read(connect(t, []string{s.URL()}))
	r.answers("team-b", "")
	stream, err := js.Stream(t.Context(), allowkv.Stream)
	if err != nil {
		t.Fatal(err)
	}
	// The reader's own is taken away until every place is another's.
	var rogues []string
	until(t, "every consumer taken", func() bool {
		for info := range stream.ListConsumers(t.Context()).Info() {
			if info.Config.Durable == "" {
				_ = stream.DeleteConsumer(t.Context(), info.Name)
			}
		}
		rogue, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
			Durable: "rogue-" + string(rune('a'+len(rogues))), AckPolicy: jetstream.AckNonePolicy,
		})
		if err == nil {
			rogues = append(rogues, rogue.CachedInfo().Name)
		}
		return len(rogues) == 10
	})
	w.publish("team-a")
	r.answers("team-b", verdict.Stale)
	r.until("the cause", func() bool { return errors.Is(r.Ready(t.Context()), jetstream.ErrMaximumConsumersLimit) })
	for _, name := range rogues {
		if err := stream.DeleteConsumer(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	r.answers("team-a", "")
	r.answers("team-b", verdict.NotListed)
}

// Somebody fills the account's storage. A removal cannot be stored, and neither can a beat, so readers close.
func TestStorageIsFull(t *testing.T) {
	t.Parallel()
	writer, asReader := newIdentity(t), newIdentity(t)
	s := configured(t, oneAccount, writer, asReader)
	_, js := operate(t, s.URL(), writer.option(t))
	kv := bootstrap(t, js, 1)
	c := newChannel(t, "gw-1", quick)
	conn := connect(t, []string{s.URL()}, writer.daemon)
	// The list is larger than all beats that the bucket keeps, so that those which expire make no room for it.
	crowd := make([]string, 300)
	for i := range crowd {
		crowd[i] = fmt.Sprintf("crowd-%03d", i)
	}
	without := slices.Concat(crowd, []string{"team-a"})
	with := slices.Concat(without, []string{"team-b"})
	w, r := c.write(conn, with...), c.read(conn)
	r.answers("team-b", "")
	junk, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "JUNK", Subjects: []string{"junk"}})
	if err != nil {
		t.Fatal(err)
	}
	// The largest pieces first; at the end there is no room for a single byte.
	for _, size := range []int{256 << 10, 8 << 10, 256, 0} {
		for {
			_, err := js.Publish(t.Context(), "junk", make([]byte, size))
			if err != nil {
				var api *jetstream.APIError
				if !errors.As(err, &api) || api.ErrorCode != 10002 {
					t.Fatalf("fill the storage: %v", err)
				}
				break
			}
		}
	}
	before := r.Status().Marks
	w.publish(without...)
	r.answers("team-b", verdict.Stale)
	r.answers("team-a", verdict.Stale)
	if err := stillServes(t, c, kv, with...); err != nil {
		t.Errorf("the removal was stored after all (%v), so that this test proves nothing", err)
	}
	if after := r.Status().Marks; after.Revision != before.Revision {
		t.Errorf("the reader went from %+v to %+v", before, after)
	}
	if err := junk.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.answers("team-a", "")
	r.answers("team-b", verdict.NotListed)
}

// The bucket is deleted, and made again later. Nothing is remembered from it but what readers have seen.
func TestBucketIsDeleted(t *testing.T) {
	t.Parallel()
	s, js, _ := single(t)
	c := newChannel(t, "gw-1", quick)
	conn := connect(t, []string{s.URL()})
	w, r := c.write(conn, "team-a", "team-b"), c.read(conn)
	r.answers("team-b", "")
	before := r.Check("team-a")
	if err := js.DeleteKeyValue(t.Context(), allowkv.Bucket); err != nil {
		t.Fatal(err)
	}
	w.publish("team-a")
	r.until("a refusal", func() bool { return !r.Check("team-a").Allowed() && !r.Check("team-b").Allowed() })
	r.until("the cause", func() bool { return errors.Is(r.Ready(t.Context()), allowkv.ErrNoBucket) })
	shut := r.throughout("team-b", "allowed", allowlist.Answer.Allowed)
	bootstrap(t, js, 1)
	r.answers("team-a", "")
	r.answers("team-b", verdict.NotListed)
	if after := r.Check("team-a"); after.Revision <= before.Revision {
		t.Errorf("revision %d after %d", after.Revision, before.Revision)
	}
	shut()
}
