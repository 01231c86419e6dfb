package allowlist_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/netfault"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
)

func TestNATSKilledAndRestarted(t *testing.T) {
	t.Parallel()
	i, server := setUp(t)
	i.Bounds = short
	kept, dropped := i.Labelled(), i.Labelled()
	i.Nswatch()
	r := i.Reader()
	r.AwaitAllowed(dropped)
	server.Stop()
	i.RemoveLabel(dropped)
	r.AwaitRefused(kept, verdict.Stale)
	server.Start()
	r.AwaitAllowed(kept)
	r.AwaitRefused(dropped, verdict.NotListed)
}

func TestNATSRestartedEmpty(t *testing.T) {
	t.Parallel()
	i, server := setUp(t)
	i.Bounds = short
	ns := i.Labelled()
	watcher := i.Nswatch()
	r := i.Reader()
	r.AwaitAllowed(ns)
	before := r.Check(ns)
	server.Stop()
	server.Wipe()
	server.Start()
	r.AwaitRefused(ns, verdict.Stale)
	watcher.AwaitNotReady("bootstrap")
	i.Bootstrap(1)
	r.AwaitAllowed(ns)
	if after := r.Check(ns); after.Epoch < before.Epoch || after.Revision < before.Revision {
		t.Errorf("the list went back from epoch %d, revision %d to epoch %d, revision %d", before.Epoch, before.Revision,
			after.Epoch, after.Revision)
	}
}

// The store is put back to an older state, in which a namespace is listed that is not any more.
func TestNATSRestoredFromAnOlderStore(t *testing.T) {
	t.Parallel()
	i, server := setUp(t)
	i.Bounds = short
	kept, dropped := i.Labelled(), i.Labelled()
	watcher := i.Nswatch()
	r := i.Reader()
	r.AwaitAllowed(dropped)
	server.Stop()
	old := server.Save()
	server.Start()
	i.RemoveLabel(dropped)
	r.AwaitRefused(dropped, verdict.NotListed)
	r.AwaitAllowed(kept)

	// With the writer gone nobody vouches for the old state: neither a reader that was there nor a new one opens.
	watcher.Kill()
	server.Stop()
	server.Restore(old)
	server.Start()
	r.AwaitRefused(dropped, verdict.Stale, verdict.NotListed)
	r.AwaitRefused(kept, verdict.Stale)
	fresh := i.Reader()
	cluster.Eventually(t, "the new reader holds the old list", func(context.Context) error {
		if fresh.Status().Epoch == 0 {
			return errors.New("none yet")
		}
		return nil
	})
	neverAllow(t, []*installation.Reader{fresh, r}, kept, dropped)

	// With a writer the list is right again, above everything that readers have seen.
	i.Nswatch()
	r.AwaitAllowed(kept)
	r.AwaitRefused(dropped, verdict.NotListed)
	fresh.AwaitAllowed(kept)
	fresh.AwaitRefused(dropped, verdict.NotListed)
}

// neverAllow looks at the answers for as long as a reader could need to be taken in.
func neverAllow(t *testing.T, readers []*installation.Reader, namespaces ...string) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for n, r := range readers {
			for _, ns := range namespaces {
				if a := r.Check(ns); a.Allowed() {
					t.Fatalf("nobody vouches for the list, and reader %d allows namespace %s: %+v", n, ns, a)
				}
			}
		}
	}
}

// The reader's own link dies without a word; the writer is well.
func TestReplayJ15ReaderIsCutOff(t *testing.T) {
	t.Parallel()
	i, server := setUp(t)
	i.Bounds = short
	kept, dropped := i.Labelled(), i.Labelled()
	i.Nswatch()
	proxy := netfault.Start(t, server.Addr())
	r := i.Reader("nats://" + proxy.Addr())
	other := i.Reader()
	r.AwaitAllowed(dropped)
	other.AwaitAllowed(dropped)
	proxy.Blackhole()
	i.RemoveLabel(dropped)
	r.AwaitRefused(dropped, verdict.Stale)
	other.AwaitRefused(dropped, verdict.NotListed)
	other.AwaitAllowed(kept)
	proxy.Pass()
	r.AwaitAllowed(kept)
	r.AwaitRefused(dropped, verdict.NotListed)
}

// Three servers: one of them may go at any time, two of them may not.
func TestNATSCluster(t *testing.T) {
	t.Parallel()
	servers := natstest.StartCluster(t, 3)
	i := installation.New(t, cluster.Start(t, cluster.ControlPlane), servers.URLs()...)
	i.Bounds = []string{`max_staleness = "15s"`}
	i.Bootstrap(3)
	ns, gone := i.Labelled(), i.Labelled()
	i.Nswatch()
	r := i.Reader()
	r.AwaitAllowed(ns)

	leader := servers.StreamLeader(allowkv.Stream)
	leader.Stop()
	i.RemoveLabel(gone)
	r.AwaitRefused(gone, verdict.NotListed)
	r.AwaitAllowed(ns)

	second := servers.StreamLeader(allowkv.Stream)
	second.Stop()
	r.AwaitRefused(ns, verdict.Stale)
	leader.Start()
	second.Start()
	r.AwaitAllowed(ns)
	r.AwaitRefused(gone, verdict.NotListed)
}
