package meshrpc

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

func TestPlaintextCallerIsUnderThePolicy(t *testing.T) {
	cases := map[string]struct {
		names []string
		code  codes.Code
		cause Cause
	}{
		"named":        {[]string{PlaintextCaller}, codes.OK, ""},
		"named beside": {[]string{"lifecycle", PlaintextCaller}, codes.OK, ""},
		"any daemon":   {[]string{AnyDaemon}, codes.PermissionDenied, CausePlaintext},
		"the daemon":   {[]string{"lifecycle"}, codes.PermissionDenied, CausePlaintext},
		"nobody":       {nil, codes.PermissionDenied, CausePlaintext},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &service{}
			var caller Caller
			s.empty = func(ctx context.Context) error { caller = CallerFromContext(ctx); return nil }
			m := join(t, plaintextConfig(), "tokenauth").running(t)
			must(t, m.Ready(context.Background()))
			address := m.serve(t, Policy{testService: c.names}, s)
			client := join(t, plaintextConfig(), "lifecycle").client(t, Target{Daemon: "tokenauth", Address: address})
			_, err := client.EmptyCall(testContext(t), &grpc_testing.Empty{})
			if status.Code(err) != c.code {
				t.Errorf("the call ends with %v", err)
			}
			if c.code == codes.OK {
				if _, isDaemon := caller.Daemon(); isDaemon || caller.String() != "plaintext@loopback" {
					t.Errorf("the handler saw %s", caller)
				}
				return
			}
			if d, ok := verdict.FromError(err); !ok || d.Reason != verdict.CallerNotAuthorized || d.Step != "mesh."+string(c.cause) {
				t.Errorf("the verdict is %s", d.Explain())
			}
			if s.calls.Load() > 0 {
				t.Error("the handler was reached")
			}
		})
	}
}

// With certificates, naming the plaintext caller opens nothing.
func TestPlaintextCallerIsInertUnderTLS(t *testing.T) {
	ca := meshtest.NewCA(t)
	s := &service{}
	address := join(t, configFor(meshtest.NewFiles(t, ca, "tokenauth")), "tokenauth").
		serve(t, Policy{testService: {PlaintextCaller}}, s)
	for name, creds := range map[string]credentials.TransportCredentials{
		"no TLS":          insecure.NewCredentials(),
		"no certificate":  credentials.NewTLS(insecureTLS(nil)),
		"a daemon":        credentials.NewTLS(insecureTLS(nil, ca.Issue(t, "lifecycle").TLS(t))),
		"no identity":     credentials.NewTLS(insecureTLS(nil, ca.Issue(t, "lifecycle", meshtest.URIs()).TLS(t))),
		"the name itself": credentials.NewTLS(insecureTLS(nil, ca.Issue(t, "x", meshtest.URIs("spiffe://portcullis/"+PlaintextCaller)).TLS(t))),
	} {
		if err := callEmpty(t, stranger(t, address, creds)); err == nil {
			t.Errorf("%s: permitted", name)
		}
	}
	if s.calls.Load() > 0 {
		t.Error("the handler was reached")
	}
}

// A client with certificates never falls back to plaintext, nor one without to TLS.
func TestTLSAndPlaintextDoNotMix(t *testing.T) {
	files := meshtest.NewFiles(t, meshtest.NewCA(t), "lifecycle")
	open := join(t, plaintextConfig(), "tokenauth").serve(t, Policy{testService: {PlaintextCaller}}, &service{})
	client := join(t, configFor(files), "lifecycle").client(t, Target{Daemon: "tokenauth", Address: open})
	if _, err := client.EmptyCall(testContext(t), &grpc_testing.Empty{}); status.Code(err) != codes.Unavailable {
		t.Errorf("a client with certificates gets %v from a server without", err)
	}
}

func resolvesTo(addresses ...string) resolve {
	return func(context.Context, string) ([]netip.Addr, error) {
		var found []netip.Addr
		for _, a := range addresses {
			found = append(found, netip.MustParseAddr(a))
		}
		return found, nil
	}
}

func TestPlaintextAddresses(t *testing.T) {
	const no = "permits loopback addresses only"
	cases := map[string]struct {
		address string
		resolve resolve
		want    string
	}{
		"loopback":                   {"127.0.0.1:0", systemResolve, ""},
		"all of 127":                 {"127.9.8.7:0", systemResolve, ""},
		"localhost":                  {"localhost:0", systemResolve, ""},
		"a name at loopback":         {"tokenauth:0", resolvesTo("127.0.0.1"), ""},
		"mapped loopback":            {"tokenauth:0", resolvesTo("::ffff:127.0.0.1"), ""},
		"every address":              {"0.0.0.0:0", systemResolve, no},
		"every address by omission":  {":0", systemResolve, no},
		"every address of version 6": {"[::]:0", systemResolve, no},
		"another host":               {"192.0.2.1:0", systemResolve, no},
		"localhost elsewhere":        {"localhost:0", resolvesTo("192.0.2.1"), no},
		"localhost also elsewhere":   {"localhost:0", resolvesTo("127.0.0.1", "192.0.2.1"), no},
		"mapped other":               {"tokenauth:0", resolvesTo("::ffff:192.0.2.1"), no},
		"link local":                 {"tokenauth:0", resolvesTo("fe80::1"), no},
		"no address":                 {"tokenauth:0", resolvesTo(), "has no address"},
		"no answer":                  {"tokenauth:0", func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no answer") }, "no answer"},
		"no port":                    {"127.0.0.1", systemResolve, "missing port"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := join(t, plaintextConfig(), "tokenauth")
			m.resolve = c.resolve
			listener, err := m.Listen(testContext(t), c.address)
			if err == nil {
				_ = listener.Close()
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("Listen says %v, want %q", err, c.want)
			}
			if c.want == "" {
				return
			}
			conn, err := m.dialLoopback(testContext(t), c.address)
			if err == nil {
				_ = conn.Close()
				t.Fatal("dialled")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("dialling says %v, want %q", err, c.want)
			}
		})
	}
}

// The client judges the name when it connects, through grpc.
func TestPlaintextClientFollowsTheName(t *testing.T) {
	s := &service{}
	address := join(t, plaintextConfig(), "tokenauth").serve(t, Policy{testService: {PlaintextCaller}}, s)
	_, port, err := net.SplitHostPort(address)
	must(t, err)
	m := join(t, plaintextConfig(), "lifecycle")
	m.resolve = resolvesTo("127.0.0.1")
	client := m.client(t, Target{Daemon: "tokenauth", Address: "tokenauth:" + port})
	_, err = client.EmptyCall(testContext(t), &grpc_testing.Empty{})
	must(t, err)
	m.resolve = resolvesTo("192.0.2.1")
	client = m.client(t, Target{Daemon: "tokenauth", Address: "tokenauth:" + port})
	_, err = client.EmptyCall(testContext(t), &grpc_testing.Empty{})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "loopback addresses only") {
		t.Errorf("the call ends with %v", err)
	}
}

// elsewhere is a connection that claims another end.
type elsewhere struct {
	net.Conn
	local, remote net.Addr
}

func (e elsewhere) LocalAddr() net.Addr  { return e.local }
func (e elsewhere) RemoteAddr() net.Addr { return e.remote }

func TestPlaintextConnections(t *testing.T) {
	here, away := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}
	cases := map[string]struct {
		local, remote net.Addr
		accept        bool
	}{
		"both here":     {here, here, true},
		"version 6":     {&net.TCPAddr{IP: net.IPv6loopback}, &net.TCPAddr{IP: net.IPv6loopback}, true},
		"from away":     {here, away, false},
		"to away":       {away, here, false},
		"no address":    {&net.TCPAddr{}, here, false},
		"unix":          {&net.UnixAddr{Name: "/x", Net: "unix"}, here, false},
		"nothing known": {nil, nil, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a, b := net.Pipe()
			defer b.Close()
			metrics, err := newMetrics(prometheus.NewRegistry(), false)
			must(t, err)
			p := &loopbackPlaintext{metrics: metrics}
			_, info, err := p.ServerHandshake(elsewhere{Conn: a, local: c.local, remote: c.remote})
			if (err == nil) != c.accept {
				t.Fatalf("the handshake says %v", err)
			}
			if c.accept {
				if info.(authInfo).caller.name != PlaintextCaller {
					t.Errorf("the caller is %s", info.(authInfo).caller)
				}
				_ = a.Close()
				return
			}
			var no *refusal
			if !errors.As(err, &no) || no.cause != CauseNotLoopback {
				t.Errorf("the handshake says %v", err)
			}
			if _, err := b.Write([]byte("x")); err == nil {
				t.Error("the connection is still open")
			}
		})
	}
}
