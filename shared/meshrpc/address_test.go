package meshrpc

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
)

// replica is one of several servers of the same daemon, which can be killed.
type replica struct {
	service
	server  *grpc.Server
	address string
}

// replicas are two, with certificates or, when both configurations are plaintext, without.
func replicas(t *testing.T, m *member) (all [2]*replica, address string) {
	t.Helper()
	for i := range all {
		r := new(replica)
		policy := Policy{testService: {"lifecycle"}}
		if m.certs == nil {
			policy = Policy{testService: {PlaintextCaller}}
		}
		listener, err := m.Listen(context.Background(), "127.0.0.1:0")
		must(t, err)
		r.server, err = m.NewServer(policy, func(to Registrar) { grpc_testing.RegisterTestServiceServer(to, &r.service) })
		must(t, err)
		r.address = serveOn(t, r.server, listener)
		all[i] = r
	}
	return all, all[0].address + "," + all[1].address
}

// ends are a server's and a client's member, with certificates and without.
func ends(t *testing.T) map[string]func() (server, client *member) {
	return map[string]func() (server, client *member){
		"with certificates": func() (*member, *member) {
			ca := meshtest.NewCA(t)
			return join(t, configFor(meshtest.NewFiles(t, ca, "tokenauth")), "tokenauth"), join(t, configFor(meshtest.NewFiles(t, ca, "lifecycle")), "lifecycle")
		},
		"plaintext": func() (*member, *member) {
			return join(t, plaintextConfig(), "tokenauth"), join(t, plaintextConfig(), "lifecycle")
		},
	}
}

func TestCallsTakeTurns(t *testing.T) {
	for name, ends := range ends(t) {
		t.Run(name, func(t *testing.T) {
			server, client := ends()
			all, address := replicas(t, server)
			to := client.client(t, Target{Daemon: "tokenauth", Address: address})
			eventually(t, "both are called", func() bool {
				_, err := to.EmptyCall(testContext(t), &grpc_testing.Empty{})
				must(t, err)
				return all[0].calls.Load() > 0 && all[1].calls.Load() > 0
			})
			all[0].server.Stop()
			eventually(t, "the one that is left has all", func() bool {
				_, err := to.EmptyCall(testContext(t), &grpc_testing.Empty{})
				return err == nil
			})
		})
	}
}

// A sticky client calls one server, and the other when that has gone: no call is refused that was made after it went, and none is sent to
// both.
func TestCallsStay(t *testing.T) {
	for name, ends := range ends(t) {
		t.Run(name, func(t *testing.T) {
			server, client := ends()
			all, address := replicas(t, server)
			to := client.client(t, Target{Daemon: "tokenauth", Address: address, Sticky: new(Sticky)})
			call := func() error {
				_, err := to.EmptyCall(testContext(t), &grpc_testing.Empty{})
				return err
			}
			const calls = 20
			for range calls {
				must(t, call())
			}
			first, second := all[0], all[1]
			if first.calls.Load() == 0 {
				first, second = second, first
			}
			if first.calls.Load() != calls || second.calls.Load() != 0 {
				t.Fatalf("the servers had %d and %d of %d calls", first.calls.Load(), second.calls.Load(), calls)
			}
			entered := make(chan struct{})
			first.empty = func(ctx context.Context) error { close(entered); <-ctx.Done(); return ctx.Err() }
			lost := make(chan error, 1)
			go func() { lost <- call() }()
			<-entered
			go first.server.Stop() // it waits for the handler, which its end wakes
			if err := <-lost; status.Code(err) != codes.Unavailable {
				t.Errorf("the call that was under way ends with %v", err)
			}
			for range calls {
				must(t, call())
			}
			if n := second.calls.Load(); n != calls {
				t.Errorf("the other server had %d calls, %d were made since the first has gone", n, calls)
			}
		})
	}
}

// Clients do not all stay with the same server.
func TestClientsSpread(t *testing.T) {
	server, client := ends(t)["plaintext"]()
	all, address := replicas(t, server)
	eventually(t, "each server has a client", func() bool {
		to := client.client(t, Target{Daemon: "tokenauth", Address: address, Sticky: new(Sticky)})
		_, err := to.EmptyCall(testContext(t), &grpc_testing.Empty{})
		must(t, err)
		return all[0].calls.Load() > 0 && all[1].calls.Load() > 0
	})
}

// Addresses of a list that are no loopback addresses are refused without certificates, each where it is used.
func TestListKeepsToLoopback(t *testing.T) {
	_, client := ends(t)["plaintext"]()
	to := client.client(t, Target{Daemon: "tokenauth", Address: "192.0.2.1:1,192.0.2.2:1", Sticky: new(Sticky)})
	_, err := to.EmptyCall(testContext(t), &grpc_testing.Empty{})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "permits loopback addresses only") {
		t.Errorf("the call ends with %v", err)
	}
}

// What calls bear for a host is one, whatever the list has.
func TestAuthorityOfAList(t *testing.T) {
	server, client := ends(t)["plaintext"]()
	all, address := replicas(t, server)
	asked := make(chan []string, 1)
	for _, r := range all {
		r.empty = func(ctx context.Context) error {
			md, _ := metadata.FromIncomingContext(ctx)
			asked <- md.Get(":authority")
			return nil
		}
	}
	_, err := client.client(t, Target{Daemon: "tokenauth", Address: address}).EmptyCall(testContext(t), &grpc_testing.Empty{})
	must(t, err)
	if got := <-asked; len(got) != 1 || got[0] != all[0].address {
		t.Errorf("the call was for %q", got)
	}
}
