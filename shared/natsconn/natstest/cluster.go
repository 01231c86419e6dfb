package natstest

import (
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/portcullis-mesh/portcullis/shared/freeport"
)

// poll is how often a condition is looked at while waiting for it.
const poll = 20 * time.Millisecond

// Cluster is a set of servers with replicated JetStream in one process.
type Cluster struct {
	t testing.TB
	// Servers are the members; stop and start them one by one.
	Servers []*Server
}

// StartCluster runs size servers (three is what replication needs) and returns when JetStream has a leader and
// every member. Options apply to each server.
func StartCluster(t testing.TB, size int, options ...Option) *Cluster {
	t.Helper()
	var routes []*url.URL
	ports := make([]int, size)
	for i := range ports {
		ports[i] = freeport.Loopback(t)
		routes = append(routes, &url.URL{Scheme: "nats", Host: "127.0.0.1:" + strconv.Itoa(ports[i])})
	}
	c := &Cluster{t: t}
	for i := range ports {
		member := func(o *server.Options) {
			o.Cluster = server.ClusterOpts{Name: "natstest", Host: "127.0.0.1", Port: ports[i]}
			o.Routes = routes
		}
		c.Servers = append(c.Servers, New(t, append([]Option{member}, options...)...))
	}
	for _, s := range c.Servers {
		s.launch()
	}
	c.WaitReady()
	return c
}

// WaitReady returns when exactly one running server leads JetStream, that leader sees every running server, and all
// of them are current.
func (c *Cluster) WaitReady() {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for !c.ready() {
		if time.Now().After(deadline) {
			c.t.Fatalf("the NATS cluster has no settled JetStream leader after %s", patience)
		}
		time.Sleep(poll)
	}
}

func (c *Cluster) ready() bool {
	running, leaders, peers := 0, 0, 0
	for _, s := range c.Servers {
		raw := s.Raw()
		if raw == nil {
			continue
		}
		running++
		if !raw.JetStreamIsCurrent() {
			return false
		}
		if raw.JetStreamIsLeader() {
			leaders++
			peers = len(raw.JetStreamClusterPeers())
		}
	}
	return leaders == 1 && peers >= running
}

// URLs are the client URLs of all members, running or not.
func (c *Cluster) URLs() []string {
	var urls []string
	for _, s := range c.Servers {
		urls = append(urls, s.URL())
	}
	return urls
}

// StreamLeader is the running server that leads the stream in the default account, nil while there is none.
func (c *Cluster) StreamLeader(stream string) *Server {
	for _, s := range c.Servers {
		if raw := s.Raw(); raw != nil && raw.JetStreamIsStreamLeader("$G", stream) {
			return s
		}
	}
	return nil
}

// Leaderless stops all members but one that does not lead the cluster's JetStream, which cannot be elected alone, and returns that one. With elect,
// to be called once, the others are back.
func (c *Cluster) Leaderless() (alone *Server, elect func()) {
	c.t.Helper()
	var others []*Server
	for _, s := range c.Servers {
		if alone == nil && !s.Raw().JetStreamIsLeader() {
			alone = s
			continue
		}
		others = append(others, s)
	}
	for _, s := range others {
		s.Stop()
	}
	return alone, func() {
		c.t.Helper()
		for _, s := range others {
			s.launch()
		}
		c.WaitReady()
	}
}

// AwaitMessage returns when the server has had a message since what it is told here began, from a client or another server.
func (s *Server) AwaitMessage(begin func()) {
	s.t.Helper()
	had := func() int64 {
		state, err := s.Raw().Varz(nil)
		if err != nil {
			s.t.Fatalf("ask the server how it is: %v", err)
		}
		return state.InMsgs
	}
	before := had()
	begin()
	for deadline := time.Now().Add(patience); had() == before; time.Sleep(poll) {
		if time.Now().After(deadline) {
			s.t.Fatalf("the server had no message within %s", patience)
		}
	}
}
