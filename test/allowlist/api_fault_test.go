package allowlist_test

import (
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/netfault"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
)

// short are bounds that make a closing gate visible within seconds.
var short = []string{
	`max_staleness = "3s"`, `heartbeat_ttl = "2s"`, `heartbeat_interval = "500ms"`, `source_max_age = "3s"`, `label_relist = "1s"`,
	`stop_grace = "2s"`, `file_poll = "200ms"`,
}

// The API server dies: readers close although NATS is well. It comes back, and what happened meanwhile counts.
func TestAPIServerKilledAndRestarted(t *testing.T) {
	t.Parallel()
	private := cluster.StartPrivate(t)
	server := natstest.Start(t)
	i := installation.New(t, private.Cluster, server.URL())
	i.Bounds = short
	i.Bootstrap(1)
	kept, dropped := i.Labelled(), i.Labelled()
	watcher := i.Nswatch()
	r := i.Reader()
	r.AwaitAllowed(kept)
	r.AwaitAllowed(dropped)

	private.APIServer().Kill()
	r.AwaitRefused(kept, verdict.Stale)
	watcher.AwaitNotReady("kubernetes")

	private.RestartAPIServer(t)
	i.RemoveLabel(dropped)
	r.AwaitAllowed(kept)
	r.AwaitRefused(dropped, verdict.NotListed)
	watcher.AwaitReady()
}

// nswatch sleeps while the API server is replaced. When it goes on, the version that its watch had reached is older than
// the new watch cache, and the answer is 410: the list is read afresh.
func TestWatchVersionIsGone(t *testing.T) {
	t.Parallel()
	private := cluster.StartPrivate(t)
	server := natstest.Start(t)
	i := installation.New(t, private.Cluster, server.URL())
	i.Bootstrap(1)
	kept, dropped := i.Labelled(), i.Labelled()
	// It must not lose its Lease while it sleeps, however long a busy machine takes for the API server: a new term would list anyway.
	watcher := nswatch(t, i, "\nlease_duration = \"5m\"\nrenew_deadline = \"4m\"\nshutdown_grace = \"10m\"\n")
	r := i.Reader()
	r.AwaitAllowed(kept)
	r.AwaitAllowed(dropped)

	watcher.Pause()
	added := i.Labelled() // moves the version on
	private.APIServer().Kill()
	private.RestartAPIServer(t)
	i.RemoveLabel(dropped)
	watcher.Resume()
	watcher.AwaitMetric(1, "portcullis_nswatch_label_watch_ends_total", `reason="expired"`)
	r.AwaitAllowed(kept)
	r.AwaitAllowed(added)
	r.AwaitRefused(dropped, verdict.NotListed)
}

// Everything between nswatch and the API server is swallowed while the sockets stay open. The label that is taken off
// meanwhile is not seen, so the readers must close by themselves.
func TestReplayW10WatchBlackholed(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	i.Bounds = short
	proxy := netfault.Start(t, installation.Address(i.Cluster.RESTConfig()))
	kept, dropped := i.Labelled(), i.Labelled()
	program.Start(t, "nswatch", i.Settings(proxy.Addr()))
	r := i.Reader()
	r.AwaitAllowed(dropped)

	proxy.Blackhole()
	i.RemoveLabel(dropped)
	r.AwaitRefused(kept, verdict.Stale)
	proxy.Pass()
	r.AwaitAllowed(kept)
	r.AwaitRefused(dropped, verdict.NotListed)
}

// The right to list namespaces is taken away and given back.
func TestAuthorizationLost(t *testing.T) {
	t.Parallel()
	i, _ := setUp(t)
	i.Bounds = short
	ns := i.Labelled()
	watcher := i.Nswatch()
	r := i.Reader()
	r.AwaitAllowed(ns)
	i.Revoke()
	r.AwaitRefused(ns, verdict.Stale)
	watcher.AwaitLog("list namespaces")
	i.Regrant()
	r.AwaitAllowed(ns)
}
