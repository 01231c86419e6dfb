package acceptance_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// replicated is a cluster with the bucket, a writer of team-a, and a reader that grants it.
func replicated(t testing.TB, servers *natstest.Cluster, urls ...string) (jetstream.JetStream, *writer, *reader) {
	t.Helper()
	_, js := operate(t, servers.URLs()[0])
	bootstrap(t, js, 3)
	c := newChannel(t, "gw-1", stated)
	w := c.write(connect(t, urls), "team-a")
	r := c.read(connect(t, urls))
	r.answers("team-a", "")
	return js, w, r
}

// moves publishes a list with one more name, waits for the answer, and then for more beats: the whole way works.
func moves(w *writer, r *reader, name string) {
	w.t.Helper()
	w.publish("team-a", name)
	r.answers(name, "")
	r.beats(2)
}

// replicasCurrent waits until every replica of the stream has all there is.
func replicasCurrent(t testing.TB, js jetstream.JetStream) {
	t.Helper()
	until(t, "three current replicas", func() bool {
		stream, err := js.Stream(t.Context(), allowkv.Stream)
		if err != nil || stream.CachedInfo().Cluster == nil {
			return false
		}
		cluster := stream.CachedInfo().Cluster
		for _, peer := range cluster.Replicas {
			if !peer.Current || peer.Offline {
				return false
			}
		}
		return cluster.Leader != "" && len(cluster.Replicas) == 2
	})
}

// The leader of the stream, and that of JetStream, hand over, as often as they are asked.
func TestLeaderStepsDown(t *testing.T) {
	t.Parallel()
	servers := natstest.StartCluster(t, 3)
	js, w, r := replicated(t, servers, servers.URLs()...)
	open := r.staysOpen("team-a")
	for _, name := range []string{"team-b", "team-c", "team-d"} {
		var before *natstest.Server
		until(t, "a leader of the stream", func() bool { before = servers.StreamLeader(allowkv.Stream); return before != nil })
		if err := before.Raw().JetStreamStepdownStream("$G", allowkv.Stream); err != nil {
			t.Fatal(err)
		}
		until(t, "another leader of the stream", func() bool {
			after := servers.StreamLeader(allowkv.Stream)
			return after != nil && after != before
		})
		moves(w, r, name)
		replicasCurrent(t, js)
	}
	open()
}

// One server after the other is put into lame duck mode, goes, and comes back: a rollout of the servers.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	servers := natstest.StartCluster(t, 3, func(o *server.Options) {
		// The shortest that a configuration file allows is half a minute. What happens is the same.
		o.LameDuckDuration, o.LameDuckGracePeriod = 500*time.Millisecond, 100*time.Millisecond
	})
	js, w, r := replicated(t, servers, servers.URLs()...)
	open := r.staysOpen("team-a")
	made := r.count("consumers_total")
	for i, name := range []string{"team-b", "team-c", "team-d"} {
		s := servers.Servers[i]
		s.Raw().LameDuckShutdown()
		s.Stop()
		moves(w, r, name)
		s.Start()
		servers.WaitReady()
		replicasCurrent(t, js)
	}
	moves(w, r, "team-e")
	open()
	if r.count("consumers_total") <= made {
		t.Error("the reader has noticed nothing, so that this test proves nothing")
	}
}

// The only server restarts, which takes much less than max_staleness.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	s, _, _ := single(t)
	c := newChannel(t, "gw-1", stated)
	w, r := c.write(connect(t, []string{s.URL()}), "team-a"), c.read(connect(t, []string{s.URL()}))
	r.answers("team-a", "")
	open := r.staysOpen("team-a")
	made := r.count("consumers_total")
	s.Restart()
	moves(w, r, "team-b")
	open()
	if r.count("consumers_total") <= made {
		t.Error("the reader has noticed nothing, so that this test proves nothing")
	}
}

// The leader of the stream falls silent without a word to anyone, as one that is killed: the others have to miss it and
// to vote.
func TestLeaderFallsSilent(t *testing.T) {
	t.Parallel()
	o := startOutpost(t)
	_, w, r := replicated(t, o.Cluster, o.near()...)
	o.leads(true)
	open := r.staysOpen("team-a")
	r.beats(2)
	o.kill()
	w.publish("team-a", "team-b")
	r.answers("team-b", "")
	if !o.Servers[0].Raw().JetStreamIsStreamLeader("$G", allowkv.Stream) && !o.Servers[1].Raw().JetStreamIsStreamLeader("$G", allowkv.Stream) {
		t.Error("the others have not voted, so that this test proves nothing")
	}
	moves(w, r, "team-c")
	open()
}

// One server is lost, for good: each of the three in turn, so that leaders, followers and hosts of consumers are among
// them. The reader and the writer know all addresses.
func TestOneNodeIsLost(t *testing.T) {
	t.Parallel()
	servers := natstest.StartCluster(t, 3)
	js, w, r := replicated(t, servers, servers.URLs()...)
	open := r.staysOpen("team-a")
	for i, name := range []string{"team-b", "team-c", "team-d"} {
		servers.Servers[i].Stop()
		moves(w, r, name)
		servers.Servers[i].Start()
		servers.WaitReady()
		replicasCurrent(t, js)
	}
	open()
}
