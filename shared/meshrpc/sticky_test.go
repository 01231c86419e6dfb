package meshrpc

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// chosen are the replica that has a sticky client's calls, and the other.
func chosen(t *testing.T, all [2]*replica, call func() error) (first, second *replica) {
	t.Helper()
	must(t, call())
	if all[0].calls.Load() == 0 {
		return all[1], all[0]
	}
	return all[0], all[1]
}

// After it has gone over to another replica a client stays there over any number of connections, also when the first is back.
func TestCallsStayOverConnections(t *testing.T) {
	server, client := ends(t)["with certificates"]()
	server.cfg.MaxConnectionAge = driverconf.Duration(50 * time.Millisecond) // below what Validate lets by
	all, address := replicas(t, server)
	to := client.client(t, Target{Daemon: "tokenauth", Address: address, Sticky: new(Sticky)})
	call := func() error {
		_, err := to.EmptyCall(testContext(t), new(grpc_testing.Empty))
		return err
	}
	first, second := chosen(t, all, call)
	first.server.Stop()
	eventually(t, "the other has the calls", func() bool { return call() == nil })
	listener, err := server.Listen(context.Background(), first.address)
	must(t, err)
	back, err := server.NewServer(onlyLifecycle(), func(r Registrar) { grpc_testing.RegisterTestServiceServer(r, &first.service) })
	must(t, err)
	serveOn(t, back, listener)
	before, from := first.calls.Load(), make(chan string, 1)
	second.empty = func(ctx context.Context) error {
		if p, ok := peer.FromContext(ctx); ok {
			select {
			case from <- p.Addr.String():
			case <-ctx.Done():
			}
		}
		return nil
	}
	seen := map[string]bool{}
	eventually(t, "the fourth connection", func() bool {
		if err := call(); err == nil && first.calls.Load() == before {
			seen[<-from] = true
		}
		return len(seen) == 4 || first.calls.Load() != before
	})
	if n := first.calls.Load() - before; n != 0 {
		t.Errorf("the one that came back had %d calls", n)
	}
}

// A client that leaves a replica loses what is under way there, and has the rest made elsewhere.
func TestLeave(t *testing.T) {
	for name, ends := range ends(t) {
		t.Run(name, func(t *testing.T) {
			server, client := ends()
			all, address := replicas(t, server)
			sticky := new(Sticky)
			to := client.client(t, Target{Daemon: "tokenauth", Address: address, Sticky: sticky})
			if sticky.Leave() {
				t.Error("it leaves before there is a connection")
			}
			call := func() error {
				_, err := to.EmptyCall(testContext(t), new(grpc_testing.Empty))
				return err
			}
			first, second := chosen(t, all, call)
			for range 3 {
				first.output = func(s grpc.ServerStreamingServer[grpc_testing.StreamingOutputCallResponse]) error {
					if err := s.Send(new(grpc_testing.StreamingOutputCallResponse)); err != nil {
						return err
					}
					<-s.Context().Done()
					return s.Context().Err()
				}
				stream, err := to.StreamingOutputCall(testContext(t), new(grpc_testing.StreamingOutputCallRequest))
				must(t, err)
				_, err = stream.Recv()
				must(t, err)
				if !sticky.Leave() {
					t.Fatal("it stays")
				}
				if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
					t.Errorf("the stream ended with %v", err)
				}
				had, elsewhere := first.calls.Load(), second.calls.Load()
				const calls = 5
				for range calls {
					must(t, call())
				}
				if n := second.calls.Load() - elsewhere; n != calls || first.calls.Load() != had {
					t.Errorf("the other replica had %d of %d calls", n, calls)
				}
				first, second = second, first
			}
		})
	}
}

// Where there is one address, leaving it would lose calls and gain nothing.
func TestLeaveTheOnlyOne(t *testing.T) {
	server, client := ends(t)["plaintext"]()
	all, _ := replicas(t, server)
	sticky := new(Sticky)
	to := client.client(t, Target{Daemon: "tokenauth", Address: all[0].address, Sticky: sticky})
	_, err := to.EmptyCall(testContext(t), new(grpc_testing.Empty))
	must(t, err)
	if sticky.Leave() {
		t.Error("it leaves the only replica")
	}
}

// updates keeps what a resolver tells grpc.
type updates struct {
	resolver.ClientConn
	order string
}

func (u *updates) UpdateState(state resolver.State) error {
	var all []string
	for _, e := range state.Endpoints {
		all = append(all, e.Addresses[0].Addr)
	}
	u.order = strings.Join(all, " ")
	return nil
}

// A name that has several addresses is told in another order each time, which must change nothing.
func TestOrderOfAddresses(t *testing.T) {
	s, to := new(Sticky), new(updates)
	names := []string{"a", "b", "c", "d", "e"}
	tell := func() {
		var state resolver.State
		for _, n := range names {
			state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: n}}})
		}
		must(t, s.resolved(to, state))
	}
	tell()
	first := to.order
	slices.Reverse(names)
	tell()
	if to.order != first {
		t.Errorf("the order was %q, and is %q", first, to.order)
	}
	one, other := net.Pipe()
	defer other.Close()
	last := first[len(first)-1:]
	conn := s.reached(last, one)
	if want := last + " " + first[:len(first)-2]; to.order != want {
		t.Errorf("with a connection to %s: %q", last, to.order)
	}
	if !s.Leave() || to.order != first {
		t.Errorf("after it was left: %q", to.order)
	}
	must(t, conn.Close())
	names = append(names, "f")
	tell()
	if !strings.HasSuffix(to.order, last) || len(to.order) != 11 {
		t.Errorf("with one more: %q", to.order)
	}
}
