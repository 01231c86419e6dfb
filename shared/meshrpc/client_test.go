package meshrpc

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
)

// Each case changes one thing about a server that is called as tokenauth.
func TestClientRefuses(t *testing.T) {
	ca, other := meshtest.NewCA(t), meshtest.NewCA(t)
	serverTLS := func(t *testing.T, pair meshtest.Pair, change func(*tls.Config)) credentials.TransportCredentials {
		return credentials.NewTLS(insecureTLS(func(c *tls.Config) {
			c.ClientAuth = tls.RequestClientCert
			if change != nil {
				change(c)
			}
		}, pair.TLS(t)))
	}
	issued := func(changes ...meshtest.Change) func(*testing.T) credentials.TransportCredentials {
		return func(t *testing.T) credentials.TransportCredentials {
			return serverTLS(t, ca.Issue(t, "tokenauth", changes...), nil)
		}
	}
	cases := map[string]struct {
		creds func(*testing.T) credentials.TransportCredentials
		cause Cause
		says  string
	}{
		"base":             {issued(), "", ""},
		"other host name":  {issued(meshtest.DNSNames("example.org")), "", ""},
		"another daemon":   {issued(meshtest.URIs("spiffe://portcullis/nswatch")), CausePeerOther, "the server is nswatch, but tokenauth was called"},
		"no identity":      {issued(meshtest.URIs()), CauseIdentityMissing, "no URI name"},
		"host name only":   {issued(meshtest.URIs(), meshtest.DNSNames("tokenauth", "127.0.0.1")), CauseIdentityMissing, "no URI name"},
		"two identities":   {issued(meshtest.URIs("spiffe://portcullis/tokenauth", "spiffe://portcullis/nswatch")), CauseIdentityAmbiguous, "2 URI names"},
		"malformed":        {issued(meshtest.URIs("spiffe://portcullis/a/b")), CauseIdentityMalformed, "names no daemon"},
		"other domain":     {issued(meshtest.URIs("spiffe://example.org/tokenauth")), CauseTrustDomain, "the certificate is of trust domain"},
		"an authority":     {issued(meshtest.Authority()), CauseAuthority, "one of an authority"},
		"expired":          {issued(meshtest.Expired()), CauseExpired, "expired"},
		"only for clients": {issued(meshtest.Usages(x509.ExtKeyUsageClientAuth)), CauseUntrusted, "incompatible key usage"},
		"another authority": {func(t *testing.T) credentials.TransportCredentials {
			return serverTLS(t, other.Issue(t, "tokenauth"), nil)
		}, CauseUntrusted, "unknown authority"},
		"TLS 1.2": {func(t *testing.T) credentials.TransportCredentials {
			return serverTLS(t, ca.Issue(t, "tokenauth"), func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 })
		}, CauseHandshake, "protocol version"},
		"plaintext": {func(*testing.T) credentials.TransportCredentials { return insecure.NewCredentials() }, CauseHandshake, "first record does not look like a TLS handshake"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &service{}
			server := grpc.NewServer(grpc.Creds(c.creds(t)))
			grpc_testing.RegisterTestServiceServer(server, s)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			m := join(t, configFor(meshtest.NewFiles(t, ca, "lifecycle")), "lifecycle")
			client := m.client(t, Target{Daemon: "tokenauth", Address: serveOn(t, server, listener)})
			_, err = client.EmptyCall(testContext(t), &grpc_testing.Empty{})
			if c.cause == "" {
				must(t, err)
				return
			}
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the call says %v, want it to say %q", err, c.says)
			}
			if s.calls.Load() > 0 {
				t.Error("the handler was reached")
			}
			eventually(t, "the refusal is counted", func() bool { return m.refusals(endClient, c.cause) >= 1 })
		})
	}
}

func TestNewClientRefuses(t *testing.T) {
	m := join(t, plaintextConfig(), "lifecycle")
	cases := map[string]struct {
		breaks func(*Target)
		want   string
	}{
		"nothing":             {func(*Target) {}, ""},
		"version 6":           {func(to *Target) { to.Address = "[::1]:1" }, ""},
		"no daemon":           {func(to *Target) { to.Daemon = "" }, "the daemon's name is empty"},
		"any daemon":          {func(to *Target) { to.Daemon = AnyDaemon }, "is no name for a daemon"},
		"no address":          {func(to *Target) { to.Address = "" }, "not host:port"},
		"no port":             {func(to *Target) { to.Address = "tokenauth" }, "not host:port"},
		"empty port":          {func(to *Target) { to.Address = "tokenauth:" }, "not host:port"},
		"no host":             {func(to *Target) { to.Address = ":8443" }, "not host:port"},
		"a scheme":            {func(to *Target) { to.Address = "unix:///run/x.sock" }, "not host:port"},
		"a resolver":          {func(to *Target) { to.Address = "dns://192.0.2.1/tokenauth:8443" }, "not host:port"},
		"two lines":           {func(to *Target) { to.Address = "tokenauth:8443\n" }, "not host:port"},
		"several":             {func(to *Target) { to.Address = "127.0.0.1:1,[::1]:2" }, ""},
		"one that is none":    {func(to *Target) { to.Address = "127.0.0.1:1,here" }, "not host:port"},
		"a comma at the end":  {func(to *Target) { to.Address = "127.0.0.1:1," }, "not host:port"},
		"one twice":           {func(to *Target) { to.Address = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:1" }, "the same host:port twice"},
		"too many":            {func(to *Target) { to.Address = "h:1" + strings.Repeat(",h:1", maxAddresses) }, "at most 16"},
		"a service as method": {func(to *Target) { to.Idempotent = []string{testService} }, "is not /package.Service/Method"},
		"a short method":      {func(to *Target) { to.Idempotent = []string{"/x"} }, "is not /package.Service/Method"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			to := Target{Daemon: "tokenauth", Address: "127.0.0.1:1", Idempotent: []string{emptyCall}}
			c.breaks(&to)
			conn, err := m.NewClient(to)
			if err == nil {
				_ = conn.Close()
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("NewClient says %v, want %q", err, c.want)
			}
			if err != nil {
				oneLine(t, err)
			}
		})
	}
}

// A server that is not there is reported at once, also to a caller that asks to wait:
// with waiting the call would end with its deadline.
func TestCallsDoNotWaitForAServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	must(t, listener.Close())
	client := join(t, plaintextConfig(), "lifecycle").client(t, Target{Daemon: "tokenauth", Address: address})
	_, err = client.EmptyCall(testContext(t), &grpc_testing.Empty{}, grpc.WaitForReady(true))
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the call ends with %v", err)
	}
	if stream, err := client.StreamingOutputCall(testContext(t), &grpc_testing.StreamingOutputCallRequest{}, grpc.WaitForReady(true)); err == nil {
		_, err = stream.Recv()
		if status.Code(err) != codes.Unavailable {
			t.Errorf("the stream ends with %v", err)
		}
	} else if status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ends with %v", err)
	}
}
