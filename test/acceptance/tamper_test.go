package acceptance_test

import (
	"crypto/rand"
	"errors"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/natsconn"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// scene is a bucket whose writer has died: it listed team-a and team-old, and then team-a only. Nothing puts right what
// is done to the bucket, and the bounds are such that nothing goes stale.
type scene struct {
	*channel
	t      *testing.T
	server *natstest.Server
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	open   *reader
	// old are the two records of the list with team-old, and current the newest ones, by key.
	old, current map[string][]byte
	// edits make connections those of an identity.
	edits []func(*natsconn.Config)
}

func newScene(t *testing.T, options ...natstest.Option) *scene {
	t.Helper()
	s := &scene{t: t, channel: newChannel(t, "gw-1", patient)}
	s.server, s.js, s.kv = single(t, options...)
	s.play()
	return s
}

// dial is a connection for readers and writers alike.
func (s *scene) dial() *natsconn.Conn {
	s.t.Helper()
	return connect(s.t, []string{s.server.URL()}, s.edits...)
}

// play has the writer live and die.
func (s *scene) play() {
	s.t.Helper()
	conn := s.dial()
	w := s.write(conn, "team-a", "team-old")
	s.open = s.read(conn)
	s.open.answers("team-old", "")
	s.old = s.records()
	w.publish("team-a")
	s.open.answers("team-old", verdict.NotListed)
	s.open.beats(2)
	w.kill()
	s.current = s.records()
}

func (s *scene) records() map[string][]byte {
	s.t.Helper()
	found := map[string][]byte{}
	for _, key := range []string{s.snapshot(), s.heartbeat()} {
		entry, err := s.kv.Get(s.t.Context(), key)
		if err != nil {
			s.t.Fatal(err)
		}
		found[key] = entry.Value()
	}
	return found
}

// put does what "nats kv put" does.
func (s *scene) put(key string, value []byte) {
	s.t.Helper()
	if _, err := s.kv.Put(s.t.Context(), key, value); err != nil {
		s.t.Fatal(err)
	}
}

// revert does what "nats kv revert" does: it puts the value of an old revision again.
func (s *scene) revert(key string, value []byte) {
	s.t.Helper()
	history, err := s.kv.History(s.t.Context(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, entry := range history {
		if string(entry.Value()) == string(value) {
			s.put(key, entry.Value())
			return
		}
	}
	s.t.Fatalf("the history of %s does not go back to the record", key)
}

// elsewhere is a record of another gateway on the same bucket, signed with a key that is trusted here too.
func (s *scene) elsewhere(key func(*channel) string) []byte {
	s.t.Helper()
	other := *s.channel
	other.gateway = "gw-2"
	conn := s.dial()
	w, r := other.write(conn, "team-other"), other.read(conn)
	r.answers("team-other", "")
	w.kill()
	entry, err := s.kv.Get(s.t.Context(), key(&other))
	if err != nil {
		s.t.Fatal(err)
	}
	return entry.Value()
}

// forged is a list with team-forged by somebody else's key.
func (s *scene) forged() []byte {
	s.t.Helper()
	stranger, err := allowlist.GenerateSigner(rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	keys, err := allowlist.NewKeySet(s.signer.Public())
	if err != nil {
		s.t.Fatal(err)
	}
	list, _, err := allowlist.OpenSnapshot(s.current[s.snapshot()], keys, s.gateway)
	if err != nil {
		s.t.Fatal(err)
	}
	list.Revision++
	list.Namespaces, list.Changes = allowkvtest.List(s.t, "team-a", "team-forged"), allowlist.Changes{}
	record, _, err := allowlist.SealSnapshot(list, stranger)
	if err != nil {
		s.t.Fatal(err)
	}
	return record
}

// Each case does one thing to the bucket behind the dead writer's back. A reader that was there keeps to what it knows,
// or refuses everything; one that starts afterwards opens to nothing until there is a writer again.
func TestTampering(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		tamper func(*scene)
		want   verdict.Reason // what the open reader says about team-a then; empty is a yes
		found  []string       // what it counts
	}{
		{"list reverted", func(s *scene) { s.revert(s.snapshot(), s.old[s.snapshot()]) }, "", []string{"rollback"}},
		{"heartbeat replayed", func(s *scene) { s.put(s.heartbeat(), s.old[s.heartbeat()]) }, "", []string{"rollback"}},
		{"both replayed", func(s *scene) {
			s.put(s.snapshot(), s.old[s.snapshot()])
			s.put(s.heartbeat(), s.old[s.heartbeat()])
		}, "", []string{"rollback"}},
		{"list of another gateway", func(s *scene) {
			s.put(s.snapshot(), s.elsewhere((*channel).snapshot))
		}, verdict.Invalid, []string{"rejected", "foreign_gateway"}},
		{"heartbeat of another gateway", func(s *scene) {
			s.put(s.heartbeat(), s.elsewhere((*channel).heartbeat))
		}, verdict.Invalid, []string{"rejected", "foreign_gateway"}},
		{"heartbeat as the list", func(s *scene) {
			s.put(s.snapshot(), s.current[s.heartbeat()])
		}, verdict.Invalid, []string{"rejected", "bad_signature"}},
		{"list by an unknown key", func(s *scene) {
			s.put(s.snapshot(), s.forged())
		}, verdict.Invalid, []string{"rejected", "unknown_key"}},
		{"list emptied", func(s *scene) { s.put(s.snapshot(), nil) }, verdict.Withdrawn, []string{"gone"}},
		{"heartbeat emptied", func(s *scene) { s.put(s.heartbeat(), nil) }, verdict.Withdrawn, []string{"gone"}},
		{"list purged", func(s *scene) { s.must(s.kv.Purge(s.t.Context(), s.snapshot())) }, verdict.Withdrawn, []string{"gone"}},
		{"heartbeat purged", func(s *scene) { s.must(s.kv.Purge(s.t.Context(), s.heartbeat())) }, verdict.Withdrawn, []string{"gone"}},
		{"list deleted", func(s *scene) { s.must(s.kv.Delete(s.t.Context(), s.snapshot())) }, verdict.Withdrawn, []string{"gone"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			ends := s.neverWidened(s.open)
			test.tamper(s)
			s.open.until("the finding", func() bool { return s.open.count("findings_total", test.found...) > 0 })
			s.open.answers("team-a", test.want)
			s.recovers()
			ends()
		})
	}
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// neverWidened fails the test when a reader grants anything but team-a before the end.
func (s *scene) neverWidened(r *reader) (end func()) {
	var ends []func()
	for _, name := range []string{"team-old", "team-other", "team-forged"} {
		ends = append(ends, r.staysShut(name))
	}
	return func() {
		s.t.Helper()
		for _, end := range ends {
			end()
		}
	}
}

// recovers starts a reader, which must open to nothing before there is a writer, and then a writer, which must put
// everything right.
func (s *scene) recovers() {
	s.t.Helper()
	dead := s.open.Status().Marks.Epoch
	conn := s.dial()
	cold := s.read(conn)
	early := cold.throughout("team-a", "allowed without a writer", func(a allowlist.Answer) bool { return a.Allowed() && a.Epoch <= dead })
	ends := s.neverWidened(cold)
	cold.until("its consumer", func() bool { return cold.count("consumers_total") > 0 })
	s.write(conn, "team-a")
	s.open.until("the next term", func() bool { return s.open.Check("team-a").Epoch > dead })
	s.open.answers("team-a", "")
	cold.answers("team-a", "")
	early()
	ends()
}

// An identity that may write one key, the heartbeat, wipes the bucket with a rollup of everything, and leaves a beat
// there that is signed and new.
func TestRollupOfEverything(t *testing.T) {
	t.Parallel()
	admin, narrow := newIdentity(t), newIdentity(t)
	s := &scene{t: t, channel: newChannel(t, "gw-1", patient)}
	s.server = natstest.Start(t, func(o *server.Options) {
		o.Nkeys = []*server.NkeyUser{
			{Nkey: admin.public},
			{Nkey: narrow.public, Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{onKey(s.heartbeat())}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}},
		}
	})
	_, s.js = operate(t, s.server.URL(), admin.option(t))
	s.kv = bootstrap(t, s.js, 1)
	s.edits = append(s.edits, admin.daemon)
	s.play()
	ends := s.neverWidened(s.open)

	_, js := operate(t, s.server.URL(), narrow.option(t))
	msg := nats.NewMsg(onKey(s.snapshot()))
	if _, err := js.PublishMsg(short(t), msg); err == nil {
		t.Fatal("the identity may write the list, so that this test proves nothing")
	}
	msg = nats.NewMsg(onKey(s.heartbeat()))
	msg.Data = s.current[s.heartbeat()]
	msg.Header.Set("Nats-Rollup", "all")
	if _, err := js.PublishMsg(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	if _, err := s.kv.Get(t.Context(), s.snapshot()); !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Fatalf("the list is still there (%v), so that this test proves nothing", err)
	}
	s.open.until("the finding", func() bool { return s.open.count("findings_total", "gone") > 0 })
	s.open.answers("team-a", verdict.Withdrawn)
	s.recovers()
	ends()
}

// onKey is the subject of a key.
func onKey(key string) string { return "$KV." + allowkv.Bucket + "." + key }
