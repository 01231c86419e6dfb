package broker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/freeport"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// ensemble is the three servers of components/nats-ha.
type ensemble struct {
	t     testing.TB
	nodes []*node
}

// three prepares the servers, with their routes on this machine.
func three(t testing.TB) *ensemble {
	t.Helper()
	e := &ensemble{t: t}
	peers := []int{freeport.Loopback(t), freeport.Loopback(t), freeport.Loopback(t)}
	for i := range peers {
		f := members(t).with(t, "nats.conf", "port: 6222", "port: "+strconv.Itoa(peers[i]))
		for j, peer := range peers {
			f = f.with(t, "nats.conf", fmt.Sprintf("nats-%d.nats.portcullis.svc:6222", j), "localhost:"+strconv.Itoa(peer))
		}
		e.nodes = append(e.nodes, newNode(t, fmt.Sprintf("nats-%d", i), f))
	}
	return e
}

// start runs all of them, and waits until they are ready.
func (e *ensemble) start() {
	e.t.Helper()
	for _, n := range e.nodes {
		n.start()
	}
	for _, n := range e.nodes {
		n.ready()
	}
}

func (e *ensemble) urls() (urls []string) {
	for _, n := range e.nodes {
		urls = append(urls, n.url())
	}
	return urls
}

// leader is the server that leads the stream of the bucket.
func (e *ensemble) leader() (found *node) {
	e.t.Helper()
	cluster.Eventually(e.t, "the bucket's stream has a leader", func(ctx context.Context) error {
		for _, n := range e.nodes {
			if n.cmd != nil && n.leads(ctx) {
				found = n
				return nil
			}
		}
		return errors.New("none says so")
	})
	return found
}

// beats waits until the reader has taken so many heartbeats more.
func (r *reading) beats(more uint64) {
	r.t.Helper()
	before := r.Status().Marks
	cluster.Eventually(r.t, "the heart beats", func(context.Context) error {
		if now := r.Status().Marks; now.Epoch == before.Epoch && now.Beat < before.Beat+more {
			return fmt.Errorf("beat %d of epoch %d", now.Beat, now.Epoch)
		}
		return nil
	})
}

// TestServersAreReplaced: under a reader that asks all the time one of three servers dies, and then each is replaced, as an update does.
// Nothing is allowed that must not be; neither closes anything. Without a majority the gate falls, and lifts by itself.
func TestServersAreReplaced(t *testing.T) {
	t.Parallel()
	e := three(t)
	e.start()
	bootstrap(t, 3, e.urls()...)
	w := newWork(t)
	w.lists("team-a", "team-b")
	w.publish(e.urls()...)
	r := w.reader("lifecycle", e.urls()...)
	r.allows("team-b")
	w.lists("team-a")
	r.refuses("team-b", verdict.NotListed)

	t.Log("the leader dies")
	end := r.watch("team-a", "team-b")
	dead := e.leader()
	dead.kill()
	r.beats(3)
	r.allows("team-a")
	seen := end()
	t.Logf("while the leader died: %d yes, %d no %v", seen.yes, seen.no, seen.reasons)
	if seen.no > 0 {
		t.Errorf("one server of three closed the gate %d times: %v", seen.no, seen.reasons)
	}
	dead.start()
	dead.ready()

	t.Log("all are replaced, one after the other")
	end = r.watch("team-a", "team-b")
	for _, n := range e.nodes {
		n.drain()
		n.start()
		n.ready()
		r.beats(2)
	}
	seen = end()
	t.Logf("while all were replaced: %d yes, %d no %v", seen.yes, seen.no, seen.reasons)
	if seen.no > 0 {
		t.Errorf("an update closed the gate %d times: %v", seen.no, seen.reasons)
	}

	t.Log("two of three are gone")
	end = r.watch("team-a", "team-b")
	e.nodes[0].kill()
	e.nodes[1].kill()
	r.refuses("team-a", verdict.Stale)
	last := e.nodes[2]
	if err := last.probe(t.Context(), liveness); err != nil {
		t.Errorf("the last one would be killed, which helps nobody: %v", err)
	}
	e.nodes[0].start()
	e.nodes[1].start()
	r.allows("team-a")
	end()
	for _, n := range e.nodes {
		n.ready()
	}
}

// TestTheOnlyServerIsReplaced: with its volume, and then without. Nothing is allowed that must not be, and what is listed is allowed again,
// in the second case after the bootstrap, in a list that is not older than the lost one (docs/nats.md, "A new beginning").
func TestTheOnlyServerIsReplaced(t *testing.T) {
	t.Parallel()
	n := newNode(t, "nats-0", single(t))
	n.start()
	n.ready()
	bootstrap(t, 1, n.url())
	w := newWork(t)
	w.lists("team-a", "team-b")
	w.publish(n.url())
	r := w.reader("lifecycle", n.url())
	r.allows("team-b")
	w.lists("team-a")
	r.refuses("team-b", verdict.NotListed)
	end := r.watch("team-a", "team-b")
	n.drain()
	n.start()
	n.ready()
	r.beats(2)
	r.allows("team-a")
	seen := end()
	t.Logf("with its volume: %d yes, %d no %v", seen.yes, seen.no, seen.reasons)

	end = r.watch("team-a", "team-b")
	n.kill()
	if err := os.RemoveAll(filepath.Join(n.dir, "data")); err != nil {
		t.Fatal(err)
	}
	n.start()
	n.ready()
	r.refuses("team-a", verdict.Stale)
	former := r.Status()
	bootstrap(t, 1, n.url())
	r.allows("team-a")
	if now := r.Status(); now.Epoch < former.Epoch || now.Epoch == former.Epoch && now.Revision < former.Revision {
		t.Errorf("the new list has epoch %d, revision %d, and the lost one had %d, %d", now.Epoch, now.Revision, former.Epoch, former.Revision)
	}
	seen = end()
	t.Logf("without: %d yes, %d no %v", seen.yes, seen.no, seen.reasons)
}

// TestForeignServersStayOut: a certificate of the servers' authority is not enough to be one of them: it must be for the name of one.
func TestForeignServersStayOut(t *testing.T) {
	t.Parallel()
	e := three(t)
	foreign := e.nodes[2]
	vouching(t).issue(t, filepath.Join(foreign.dir, "tls"), "tokenauth.portcullis.svc")
	for _, n := range e.nodes {
		n.start()
	}
	cluster.Eventually(t, "the foreign server is refused", func(context.Context) error {
		// Whoever dials, the other finds the name wrong.
		for _, n := range e.nodes[:2] {
			if log := n.log(); !strings.Contains(log, "not localhost") && !strings.Contains(log, "Router connection closed: Authentication Failure") && !strings.Contains(log, "Authorization Violation") {
				return errors.New("not yet")
			}
		}
		return nil
	})
	if err := foreign.probe(t.Context(), readiness); err == nil {
		t.Error("the foreign server has joined")
	}
}
