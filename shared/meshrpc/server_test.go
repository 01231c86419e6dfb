package meshrpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/shared/verdict"
)

func TestTheHandlerKnowsItsCaller(t *testing.T) {
	ca := meshtest.NewCA(t)
	var caller Caller
	s := &service{empty: func(ctx context.Context) error { caller = CallerFromContext(ctx); return nil }}
	address := join(t, configFor(meshtest.NewFiles(t, ca, "tokenauth")), "tokenauth").serve(t, onlyLifecycle(), s)
	client := join(t, configFor(meshtest.NewFiles(t, ca, "lifecycle")), "lifecycle").
		client(t, Target{Daemon: "tokenauth", Address: address})
	_, err := client.EmptyCall(testContext(t), &grpc_testing.Empty{})
	must(t, err)
	if daemon, ok := caller.Daemon(); !ok || daemon != "lifecycle" {
		t.Errorf("the handler saw %s", caller)
	}
	stream, err := client.StreamingOutputCall(testContext(t), &grpc_testing.StreamingOutputCallRequest{})
	must(t, err)
	_, err = stream.Recv()
	must(t, err)
}

// Each case changes one thing about a client that may call.
func TestServerRefuses(t *testing.T) {
	ca, other := meshtest.NewCA(t), meshtest.NewCA(t)
	issued := func(changes ...meshtest.Change) func(*testing.T) credentials.TransportCredentials {
		return func(t *testing.T) credentials.TransportCredentials {
			return credentials.NewTLS(insecureTLS(nil, ca.Issue(t, "lifecycle", changes...).TLS(t)))
		}
	}
	cases := map[string]struct {
		creds  func(*testing.T) credentials.TransportCredentials
		method string
		cause  Cause
		code   codes.Code
		reason verdict.Reason // empty: no verdict, since the handshake fails
	}{
		"base":           {issued(), emptyCall, "", codes.OK, ""},
		"with DNS names": {issued(meshtest.DNSNames("lifecycle.mesh.svc")), emptyCall, "", codes.OK, ""},

		"no certificate": {func(*testing.T) credentials.TransportCredentials {
			return credentials.NewTLS(insecureTLS(nil))
		}, emptyCall, CauseNoCertificate, codes.Unavailable, ""},
		"another authority": {func(t *testing.T) credentials.TransportCredentials {
			return credentials.NewTLS(insecureTLS(nil, other.Issue(t, "lifecycle").TLS(t)))
		}, emptyCall, CauseUntrusted, codes.Unavailable, ""},
		"only for servers": {issued(meshtest.Usages(x509.ExtKeyUsageServerAuth)), emptyCall, CauseUntrusted, codes.Unavailable, ""},
		"expired":          {issued(meshtest.Expired()), emptyCall, CauseExpired, codes.Unavailable, ""},
		"not yet valid":    {issued(meshtest.NotYetValid()), emptyCall, CauseExpired, codes.Unavailable, ""},
		"TLS 1.2": {func(t *testing.T) credentials.TransportCredentials {
			return credentials.NewTLS(insecureTLS(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, ca.Issue(t, "lifecycle").TLS(t)))
		}, emptyCall, CauseHandshake, codes.Unavailable, ""},
		"plaintext": {func(*testing.T) credentials.TransportCredentials { return insecure.NewCredentials() }, emptyCall, CauseHandshake, codes.Unavailable, ""},

		"no identity":          {issued(meshtest.URIs()), emptyCall, CauseIdentityMissing, codes.Unauthenticated, verdict.CallerUnidentified},
		"two identities":       {issued(meshtest.URIs("spiffe://portcullis/lifecycle", "spiffe://portcullis/nswatch")), emptyCall, CauseIdentityAmbiguous, codes.Unauthenticated, verdict.CallerUnidentified},
		"no daemon":            {issued(meshtest.URIs("spiffe://portcullis")), emptyCall, CauseIdentityMalformed, codes.Unauthenticated, verdict.CallerUnidentified},
		"a path too deep":      {issued(meshtest.URIs("spiffe://portcullis/ns/lifecycle")), emptyCall, CauseIdentityMalformed, codes.Unauthenticated, verdict.CallerUnidentified},
		"a web address":        {issued(meshtest.URIs("https://portcullis/lifecycle")), emptyCall, CauseIdentityMalformed, codes.Unauthenticated, verdict.CallerUnidentified},
		"another trust domain": {issued(meshtest.URIs("spiffe://example.org/lifecycle")), emptyCall, CauseTrustDomain, codes.Unauthenticated, verdict.CallerUnidentified},
		"an authority":         {issued(meshtest.Authority()), emptyCall, CauseAuthority, codes.Unauthenticated, verdict.CallerUnidentified},

		"another daemon":                 {issued(meshtest.URIs("spiffe://portcullis/nswatch")), emptyCall, CauseNotPermitted, codes.PermissionDenied, verdict.CallerNotAuthorized},
		"a method of others":             {issued(), unaryCall, CauseNotPermitted, codes.PermissionDenied, verdict.CallerNotAuthorized},
		"an unknown service":             {issued(), "/grpc.testing.Other/EmptyCall", CauseMethodUnlisted, codes.PermissionDenied, verdict.CallerNotAuthorized},
		"an unknown method":              {issued(), "/" + testService + "/Other", "", codes.Unimplemented, ""},
		"an unknown method, not allowed": {issued(meshtest.URIs("spiffe://portcullis/nswatch")), "/" + testService + "/Other", CauseNotPermitted, codes.PermissionDenied, verdict.CallerNotAuthorized},
		"a stream of others":             {issued(meshtest.URIs("spiffe://portcullis/nswatch")), "/" + testService + "/StreamingOutputCall", CauseNotPermitted, codes.PermissionDenied, verdict.CallerNotAuthorized},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &service{}
			m := join(t, configFor(meshtest.NewFiles(t, ca, "tokenauth")), "tokenauth")
			policy := onlyLifecycle()
			policy[unaryCall] = []string{"supervisorctl", PlaintextCaller}
			conn := stranger(t, m.serve(t, policy, s), c.creds(t))
			err := conn.Invoke(testContext(t), c.method, &grpc_testing.Empty{}, &grpc_testing.Empty{})
			if status.Code(err) != c.code {
				t.Errorf("the call ends with %v, want %s", err, c.code)
			}
			d, answered := verdict.FromError(err)
			if answered != (c.reason != "") || d.Reason != c.reason || c.reason != "" && d.Step != "mesh."+string(c.cause) {
				t.Errorf("the verdict is %t, %s at %s: want %q at mesh.%s", answered, d.Reason, d.Step, c.reason, c.cause)
			}
			if reached := s.calls.Load() > 0; reached != (c.code == codes.OK) {
				t.Errorf("the handler was reached: %t", reached)
			}
			if c.cause == "" {
				return
			}
			// grpc's client may have tried several times to connect.
			eventually(t, "the refusal is counted", func() bool { return m.refusals(endServer, c.cause) >= 1 })
			eventually(t, "the refusal is logged", func() bool { return strings.Contains(m.log.String(), `"cause":"`+string(c.cause)+`"`) })
		})
	}
}

// The gate stands whatever the connection was: a server without the mesh's
// credentials refuses everybody.
func TestGateWithoutAHandshake(t *testing.T) {
	m := join(t, plaintextConfig(), "tokenauth")
	g := &gate{policy: Policy{testService: {AnyDaemon, PlaintextCaller}}, limit: 1, log: m.Mesh.log, metrics: m.metrics}
	if err := g.admit(context.Background(), emptyCall); status.Code(err) != codes.Unauthenticated {
		t.Errorf("admit says %v", err)
	}
}

func TestHealthIsUnderThePolicy(t *testing.T) {
	ca := meshtest.NewCA(t)
	m := join(t, configFor(meshtest.NewFiles(t, ca, "tokenauth")), "tokenauth")
	register := func(r Registrar) {
		grpc_testing.RegisterTestServiceServer(r, &service{})
		grpc_health_v1.RegisterHealthServer(r, health.NewServer())
	}
	_, err := m.NewServer(onlyLifecycle(), register)
	if err == nil || !strings.Contains(err.Error(), "method /grpc.health.v1.Health/Check has no entry in the policy") {
		t.Fatalf("NewServer says %v", err)
	}
	policy := onlyLifecycle()
	policy[HealthService] = []string{AnyDaemon}
	server, err := m.NewServer(policy, register)
	must(t, err)
	listener, err := m.Listen(context.Background(), "127.0.0.1:0")
	must(t, err)
	address := serveOn(t, server, listener)
	for daemon, want := range map[string]codes.Code{"nswatch": codes.OK, "": codes.Unauthenticated} {
		pair := ca.Issue(t, daemon)
		if daemon == "" {
			pair = ca.Issue(t, "x", meshtest.URIs())
		}
		conn := stranger(t, address, credentials.NewTLS(insecureTLS(nil, pair.TLS(t))))
		_, err := grpc_health_v1.NewHealthClient(conn).Check(testContext(t), &grpc_health_v1.HealthCheckRequest{})
		if status.Code(err) != want {
			t.Errorf("health for %q: %v, want %s", daemon, err, want)
		}
	}
}

func TestNewServerChecksThePolicy(t *testing.T) {
	m := join(t, plaintextConfig(), "tokenauth")
	register := func(r Registrar) { grpc_testing.RegisterTestServiceServer(r, &service{}) }
	for name, c := range map[string]struct {
		policy Policy
		want   string
	}{
		"nil":             {nil, "has no entry in the policy"},
		"misspelt method": {Policy{testService: {"lifecycle"}, "/" + testService + "/Emptycall": {}}, "nothing that the server offers"},
		"malformed":       {Policy{testService: {"life cycle"}}, "is no name for a daemon"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.NewServer(c.policy, register)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("NewServer says %v", err)
			}
			oneLine(t, err)
		})
	}
}

// What the caller does to its policy afterwards changes nothing.
func TestThePolicyIsCopied(t *testing.T) {
	ca := meshtest.NewCA(t)
	m := join(t, configFor(meshtest.NewFiles(t, ca, "tokenauth")), "tokenauth")
	policy := onlyLifecycle()
	address := m.serve(t, policy, &service{})
	policy[testService][0] = "nswatch"
	policy[testService] = append(policy[testService], AnyDaemon)
	conn := stranger(t, address, credentials.NewTLS(insecureTLS(nil, ca.Issue(t, "nswatch").TLS(t))))
	if err := callEmpty(t, conn); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the call ends with %v", err)
	}
}
