package acceptance_test

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/allowkv/allowkvtest"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/shared/natsconn/netfault"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

// outpost is a cluster of three whose last member is tied to the other two by one link.
type outpost struct {
	*natstest.Cluster
	t    testing.TB
	link *netfault.Proxy
}

// startOutpost makes the cluster. The last member dials nobody: the others dial it, through the link, and the addresses
// that members tell each other lead nowhere but to the link.
func startOutpost(t testing.TB) *outpost {
	t.Helper()
	o := &outpost{t: t}
	nowhere := natstest.New(t).Addr() // reserved, and never listened on
	o.Cluster = natstest.StartCluster(t, 3, func(opts *server.Options) {
		last := opts.Routes[2]
		if o.link == nil {
			o.link = netfault.Start(t, last.Host)
		}
		link, lost := &url.URL{Scheme: "nats", Host: o.link.Addr()}, &url.URL{Scheme: "nats", Host: nowhere}
		if last.Port() == portOf(opts) {
			opts.Cluster.Advertise = link.Host
			opts.Routes = []*url.URL{last, lost, lost}
			return
		}
		opts.Cluster.Advertise = nowhere
		opts.Routes = []*url.URL{opts.Routes[0], opts.Routes[1], link}
	})
	return o
}

func portOf(opts *server.Options) string { return strconv.Itoa(opts.Cluster.Port) }

// far is the member behind the link, near are the URLs of the other two.
func (o *outpost) far() *natstest.Server { return o.Servers[2] }
func (o *outpost) near() []string        { return o.URLs()[:2] }

// sever loses every byte on the link, and heal makes new connections over it possible.
func (o *outpost) sever() { o.link.Blackhole() }
func (o *outpost) kill()  { o.link.Blackhole(); o.link.Cut() }
func (o *outpost) heal()  { o.link.Pass(); o.link.Cut() }

// leads moves the stream to the far member, or to one of the others.
func (o *outpost) leads(far bool) {
	o.t.Helper()
	asked := time.Time{}
	until(o.t, "the wanted leader of the stream", func() bool {
		leader := o.StreamLeader(allowkv.Stream)
		if leader == nil || (leader == o.far()) == far {
			return leader != nil
		}
		if time.Since(asked) > time.Second { // a vote takes a while; a second request would only disturb it
			asked = time.Now()
			_ = leader.Raw().JetStreamStepdownStream("$G", allowkv.Stream)
		}
		return false
	})
}

// stillServes says what a direct get of the channel's list gives, which no reader may take for proof: an error when it
// gives none, or another list.
func stillServes(t testing.TB, c *channel, kv jetstream.KeyValue, namespaces ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	entry, err := kv.Get(ctx, c.snapshot())
	if err != nil {
		return err
	}
	keys, err := allowlist.NewKeySet(c.signer.Public())
	if err != nil {
		return err
	}
	s, _, err := allowlist.OpenSnapshot(entry.Value(), keys, c.gateway)
	if err == nil && !s.Namespaces.Equal(allowkvtest.List(t, namespaces...)) {
		err = errors.New("another list")
	}
	return err
}

// The reader's node is cut off from the other two. It is up, keeps the reader's connection, and still serves the list
// from before; the others have moved on.
func TestReadersNodeIsPartitioned(t *testing.T) {
	t.Parallel()
	o := startOutpost(t)
	_, js := operate(t, o.URLs()[0])
	bootstrap(t, js, 3)
	c := newChannel(t, "gw-1", quick)
	w := c.write(connect(t, o.near()), "team-a", "team-b")
	o.leads(false)
	r, other := c.read(connect(t, []string{o.far().URL()})), c.read(connect(t, o.near()))
	r.answers("team-b", "")
	other.answers("team-b", "")
	_, farJS := operate(t, o.far().URL())
	kv, err := farJS.KeyValue(t.Context(), allowkv.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the list on the far node", func() bool { return stillServes(t, c, kv, "team-a", "team-b") == nil })

	o.sever()
	w.publish("team-a")
	other.answers("team-b", verdict.NotListed)
	r.answers("team-b", verdict.Stale)
	r.answers("team-a", verdict.Stale)
	other.answers("team-a", "")
	// Any replica may be asked, and what is sent to the other two is lost until the server has missed them.
	until(t, "a direct get of the old list", func() bool { return stillServes(t, c, kv, "team-a", "team-b") == nil })
	if a := r.Check("team-a"); a.Allowed() {
		t.Errorf("allowed: %+v", a)
	}
	shut := r.staysShut("team-b")
	o.heal()
	r.answers("team-a", "")
	r.answers("team-b", verdict.NotListed)
	shut()
}

// Two of three servers are gone for longer than max_staleness. The last one still serves the list.
func TestQuorumLost(t *testing.T) {
	t.Parallel()
	servers := natstest.StartCluster(t, 3)
	last := servers.Servers[0]
	_, js := operate(t, last.URL())
	kv := bootstrap(t, js, 3)
	c := newChannel(t, "gw-1", quick)
	w := c.write(connect(t, servers.URLs()), "team-a", "team-b")
	r := c.read(connect(t, []string{last.URL()}))
	r.answers("team-b", "")
	until(t, "the list on the last server", func() bool { return stillServes(t, c, kv, "team-a", "team-b") == nil })

	servers.Servers[1].Stop()
	servers.Servers[2].Stop()
	w.publish("team-a")
	r.answers("team-b", verdict.Stale)
	r.answers("team-a", verdict.Stale)
	if err := stillServes(t, c, kv, "team-a", "team-b"); err != nil {
		t.Errorf("the last server does not serve the list any more, so that this test proves nothing: %v", err)
	}
	servers.Servers[1].Start()
	r.answers("team-a", "")
	r.answers("team-b", verdict.NotListed)
}
