package broker_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/audit"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// insider is somebody in the account of the bucket, which nobody is as it is shipped, at a stocked server.
func insider(t *testing.T) (*broker, *nats.Conn) {
	t.Helper()
	public, unknown := natstest.NKey(t)
	b, err := stocked(t, single(t).with(t, "accounts.conf", "  ALLOWLIST {", "  ALLOWLIST {\n    users: [ { nkey: "+public+" } ]"))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := nkeys.FromSeed(unknown)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(b.url(), nats.Nkey(public, pair.Sign), nats.RootCAs(authority(t)), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return b, nc
}

// TestTheTrickWorks: what TestAnswersGoNowhereElse tries does store something, for whoever is in the account of the bucket. So that
// test can fail.
func TestTheTrickWorks(t *testing.T) {
	t.Parallel()
	b, nc := insider(t)
	before := b.state()
	if err := nc.PublishRequest("$JS.API.DIRECT.GET."+allowkv.Stream, snapshot, []byte(`{"seq":2}`)); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, "an answer is stored", func(context.Context) error {
		if b.state() == before {
			return errors.New("not yet")
		}
		return nil
	})
}

// TestConsumersDeliverNowhereElse: a reader asks for consumers that would see more than its gateway's keys, or have messages delivered
// to where they would do harm.
func TestConsumersDeliverNowhereElse(t *testing.T) {
	t.Parallel()
	const create = apiPrefix + ".CONSUMER.CREATE." + allowkv.Stream + ".own."
	filter := subjectOf(gatewayID + ".*")
	consumer := func(stream, config string) string {
		return fmt.Sprintf(`{"stream_name":%q,"config":{"name":"own",%s}}`, stream, config)
	}
	tries := map[string]string{
		"all keys":                consumer(allowkv.Stream, `"filter_subject":"$KV.portcullis_allowlist.>"`),
		"no filter":               consumer(allowkv.Stream, `"deliver_policy":"all"`),
		"several filters":         consumer(allowkv.Stream, fmt.Sprintf(`"filter_subjects":[%q,"$KV.portcullis_allowlist.other.*"]`, filter)),
		"another stream":          consumer(audit.Stream, fmt.Sprintf(`"filter_subject":%q`, filter)),
		"deliver into the stream": consumer(allowkv.Stream, fmt.Sprintf(`"filter_subject":%q,"deliver_subject":%q`, filter, snapshot)),
	}
	for i, target := range targets() {
		tries[fmt.Sprintf("deliver %d", i)] = consumer(allowkv.Stream, fmt.Sprintf(`"filter_subject":%q,"deliver_subject":%q,"inactive_threshold":3600000000000`, filter, target))
	}
	for _, name := range slices.Sorted(maps.Keys(tries)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := stocked(t, single(t))
			if err != nil {
				t.Fatal(err)
			}
			nc, err := b.bare("lifecycle")
			if err != nil {
				t.Fatal(err)
			}
			reply, err := nc.Request(create+filter, []byte(tries[name]), patience)
			if err != nil {
				t.Fatal(err)
			}
			refused := strings.Contains(string(reply.Data), `"error"`)
			if !refused && !strings.HasPrefix(name, "deliver ") {
				t.Errorf("the server makes it: %s", reply.Data)
			}
			// Time for what it would deliver: the reader sees the same messages.
			cluster.Eventually(t, "the list is read", func(ctx context.Context) error { return readList("lifecycle")(ctx, b) })
			state := b.state()
			for _, stays := range []string{"KV_portcullis_allowlist:", "messages 1 to 16,", "PORTCULLIS_AUDIT:", "messages 1 to 1,"} {
				if !strings.Contains(state, stays) {
					t.Errorf("%q is gone:\n%s", stays, state)
				}
			}
		})
	}
}

// TestConsumersAreBounded: a reader can take the room of the others, and no more than that. Who finds none is closed.
func TestConsumersAreBounded(t *testing.T) {
	t.Parallel()
	b := start(t, single(t))
	if err := empty["bootstrap makes the bucket"](t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w := newWork(t)
	w.lists("team-a")
	w.publish(b.url())
	first := w.reader("tokenauth", b.url())
	first.allows("team-a")
	js, err := b.as("gateway")
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for ; made < 1000; made++ {
		_, err = js.CreateConsumer(t.Context(), allowkv.Stream, jetstream.ConsumerConfig{
			Name: "own-" + rand.Text(), FilterSubject: subjectOf(gatewayID + ".*"), AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: time.Hour,
		})
		if err != nil {
			break
		}
	}
	if made > 199 || !strings.Contains(fmt.Sprint(err), "maximum consumers limit reached") {
		t.Errorf("%d were made, then: %v", made, err)
	}
	late := w.reader("lifecycle", b.url())
	late.refuses("team-a", verdict.Unsynced)
	if a := first.Check("team-a"); !a.Allowed() {
		t.Errorf("who has a consumer is closed: %s", a.Reason)
	}
}

// TestStolenWriter: somebody has the seed of nswatch, and not the signing key. They store what was signed before, what is not signed, and
// wipe the bucket with the rollup header. Readers close or stay right, and the writer puts the list back.
func TestStolenWriter(t *testing.T) {
	t.Parallel()
	b := start(t, single(t))
	if err := empty["bootstrap makes the bucket"](t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w := newWork(t)
	w.lists("team-a", "team-b")
	w.publish(b.url())
	r := w.reader("tokenauth", b.url())
	r.allows("team-b")
	thief, err := b.as("nswatch")
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := b.as("operator")
	if err != nil {
		t.Fatal(err)
	}
	kv, err := watcher.KeyValue(t.Context(), allowkv.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	record := func(subject string) []byte {
		e, err := kv.Get(t.Context(), strings.TrimPrefix(subject, "$KV."+allowkv.Bucket+"."))
		if err != nil {
			t.Fatal(err)
		}
		return e.Value()
	}
	oldList, oldBeat := record(snapshot), record(heartbeat)
	w.lists("team-a")
	r.refuses("team-b", verdict.NotListed)
	end := r.watch("team-a", "team-b")
	for _, header := range []nats.Header{nil, {"Nats-Rollup": {"sub"}}, {"Nats-Rollup": {"all"}}} {
		for _, message := range []struct {
			subject string
			data    []byte
		}{{snapshot, oldList}, {heartbeat, oldBeat}, {snapshot, []byte("{}")}, {heartbeat, nil}} {
			if _, err := thief.PublishMsg(t.Context(), &nats.Msg{Subject: message.subject, Data: message.data, Header: header}); err != nil {
				t.Fatalf("the test itself is wrong: nswatch may do this: %v", err)
			}
		}
		r.allows("team-a") // again
	}
	seen := end()
	t.Logf("team-a: %d yes, %d no %v", seen.yes, seen.no, seen.reasons)
}

// TestEventsCannotBeRemoved: tokenauth may write events, and can neither wipe nor replace those that are there.
func TestEventsCannotBeRemoved(t *testing.T) {
	t.Parallel()
	b, err := stocked(t, single(t))
	if err != nil {
		t.Fatal(err)
	}
	js, err := b.as("tokenauth")
	if err != nil {
		t.Fatal(err)
	}
	before := b.state()
	for _, how := range []string{"sub", "all"} {
		_, err := js.PublishMsg(context.WithoutCancel(t.Context()), &nats.Msg{
			Subject: audit.Subject(gatewayID, "tokenauth"), Data: []byte("{}"), Header: nats.Header{"Nats-Rollup": {how}},
		})
		if err == nil || !strings.Contains(err.Error(), "rollup not permitted") {
			t.Errorf("%s: %v", how, err)
		}
	}
	if after := b.state(); after != before {
		t.Errorf("the streams were\n%s\nare\n%s", before, after)
	}
}
