package meshrpc

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/resolver"
)

// Sticky keeps all calls of a client with one replica of its server: for servers whose later answers must not be older than their
// earlier ones. The zero Sticky is ready; it belongs to one Target, and may be used by several goroutines.
//
// The first replica is chosen by lot, so that clients spread. A connection that is lost is made anew to the replica that it led to, and
// to another only when that one cannot be reached. An address that stands for several servers, as a Service with an address of its own
// does, is one replica here, and nothing can be chosen among what is behind it.
//
// The server should be one with EndlessStreams: others ask for a new connection at their age, beside which the streams of the old one
// go on.
type Sticky struct {
	mu sync.Mutex
	// rank orders the addresses that are resolved now, the lowest first: by lot, below that those that were reached, the last one
	// lowest, and above it those that were left.
	rank       map[string]float64
	best, last float64
	to         resolver.ClientConn
	state      resolver.State
	open       []*stickyConn
}

// Leave ends the connection, with all calls that are under way on it, and has the next ones made to another replica; to this one again
// when no other can be reached. It reports whether it did: it does nothing where no other address is known, or no connection is open.
func (s *Sticky) Leave() bool {
	s.mu.Lock()
	if len(s.rank) < 2 || len(s.open) == 0 {
		s.mu.Unlock()
		return false
	}
	leaving := slices.Clone(s.open)
	for _, c := range leaving {
		s.last++
		s.rank[c.address] = 1 + s.last
	}
	_ = s.tell() // as in prefer
	s.mu.Unlock()
	for _, c := range leaving {
		_ = c.Close() // grpc finds it closed, and ends its calls with UNAVAILABLE
	}
	return true
}

// resolved takes in what the name stands for now.
func (s *Sticky) resolved(to resolver.ClientConn, state resolver.State) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rank := map[string]float64{}
	state.Endpoints = slices.Clone(state.Endpoints)
	for i := range state.Endpoints {
		all := slices.Clone(state.Endpoints[i].Addresses)
		for j := range all {
			known, ok := s.rank[all[j].Addr]
			if !ok {
				known = rand.Float64() //nolint:gosec // it spreads load
			}
			rank[all[j].Addr] = known
			all[j].Attributes = all[j].Attributes.WithValue(addressKey{}, all[j].Addr)
		}
		state.Endpoints[i].Addresses = all
	}
	s.rank, s.to, s.state = rank, to, state
	return s.tell()
}

// tell gives grpc the addresses in their order. A connection that stands is kept for as long as its address is among them.
func (s *Sticky) tell() error {
	state := s.state
	state.Endpoints = slices.Clone(state.Endpoints)
	slices.SortStableFunc(state.Endpoints, func(a, b resolver.Endpoint) int { return cmp.Compare(s.lowest(a), s.lowest(b)) })
	state.Addresses = nil
	for _, e := range state.Endpoints {
		state.Addresses = append(state.Addresses, e.Addresses...)
	}
	return s.to.UpdateState(state)
}

func (s *Sticky) lowest(e resolver.Endpoint) float64 {
	low := 2 + s.last
	for _, a := range e.Addresses {
		low = min(low, s.rank[a.Addr])
	}
	return low
}

// reached notes a connection whose handshake went well, and puts its address first.
func (s *Sticky) reached(address string, conn net.Conn) net.Conn {
	c := &stickyConn{Conn: conn, of: s, address: address}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, c)
	s.prefer(address)
	return c
}

func (s *Sticky) prefer(address string) {
	if _, known := s.rank[address]; !known || s.rank[address] == s.best && s.best < 0 {
		return
	}
	s.best--
	s.rank[address] = s.best
	// Of what grpc says of the addresses nothing follows here: they were good when they were resolved.
	_ = s.tell()
}

// closed forgets a connection. grpc may have made two at once and closed one of them: the other's address is the one to begin with.
func (s *Sticky) closed(c *stickyConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(other *stickyConn) bool { return other == c })
	if len(s.open) > 0 {
		s.prefer(s.open[len(s.open)-1].address)
	}
}

// stickyConn is one connection of a Sticky.
type stickyConn struct {
	net.Conn
	of      *Sticky
	address string
	once    sync.Once
}

// Close ends the connection. grpc calls it with locks of its own held, so that it must not be waited for.
func (c *stickyConn) Close() error {
	c.once.Do(func() { go c.of.closed(c) })
	return c.Conn.Close()
}

// addressKey is where an address bears itself, for the handshake.
type addressKey struct{}

// stickyResolver passes what another resolver finds through a Sticky.
type stickyResolver struct {
	resolver.Builder
	sticky *Sticky
}

func (r stickyResolver) Build(target resolver.Target, to resolver.ClientConn, options resolver.BuildOptions) (resolver.Resolver, error) {
	return r.Builder.Build(target, stickyUpdates{ClientConn: to, sticky: r.sticky}, options)
}

// OverrideAuthority is what the other resolver says, or what grpc would take without one.
func (r stickyResolver) OverrideAuthority(target resolver.Target) string {
	if other, ok := r.Builder.(resolver.AuthorityOverrider); ok {
		return other.OverrideAuthority(target)
	}
	return target.Endpoint()
}

type stickyUpdates struct {
	resolver.ClientConn
	sticky *Sticky
}

func (u stickyUpdates) UpdateState(state resolver.State) error {
	if len(state.Endpoints) == 0 {
		for _, a := range state.Addresses {
			state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{a}})
		}
	}
	return u.sticky.resolved(u.ClientConn, state)
}

// stickyCredentials note the connections of a Sticky.
type stickyCredentials struct {
	credentials.TransportCredentials
	sticky *Sticky
}

func (c stickyCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	address, _ := credentials.ClientHandshakeInfoFromContext(ctx).Attributes.Value(addressKey{}).(string)
	return c.sticky.reached(address, conn), info, nil
}

// Clone shares the Sticky.
func (c stickyCredentials) Clone() credentials.TransportCredentials {
	return stickyCredentials{TransportCredentials: c.TransportCredentials.Clone(), sticky: c.sticky}
}
