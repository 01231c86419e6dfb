package meshrpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/tls/certprovider"
	"google.golang.org/grpc/status"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
)

// served is the serial number of the certificate that a new connection sees.
func served(t *testing.T, address string) *big.Int {
	t.Helper()
	conn, err := tls.Dial("tcp", address, insecureTLS(nil))
	if err != nil {
		t.Fatalf("look at the server's certificate: %v", err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber
}

func serial(t *testing.T, pair meshtest.Pair) *big.Int { return pair.TLS(t).Leaf.SerialNumber }

// callAs makes one call over a new connection with a hand-made client.
func callAs(t *testing.T, address string, pair meshtest.Pair) codes.Code {
	t.Helper()
	conn := stranger(t, address, credentials.NewTLS(insecureTLS(nil, pair.TLS(t))))
	defer conn.Close()
	return status.Code(callEmpty(t, conn))
}

func TestRotatedCertificateIsServed(t *testing.T) {
	ca := meshtest.NewCA(t)
	files := meshtest.NewFiles(t, ca, "tokenauth")
	m := join(t, configFor(files), "tokenauth").running(t)
	address := m.serve(t, onlyLifecycle(), &service{})
	if got, want := served(t, address), serial(t, files.Read(t).Pair); got.Cmp(want) != 0 {
		t.Fatalf("serial %x, want %x", got, want)
	}
	for range 3 {
		next := ca.Issue(t, "tokenauth")
		files.Replace(t, meshtest.Content{Pair: next, CA: ca.PEM})
		eventually(t, "the new certificate is served", func() bool { return served(t, address).Cmp(serial(t, next)) == 0 })
		eventually(t, "the expiry is told", func() bool {
			return testutil.ToFloat64(m.metrics.expiry) == float64(next.TLS(t).Leaf.NotAfter.Unix())
		})
	}
	if !strings.Contains(m.log.String(), "mesh certificate files changed; new connections use them") {
		t.Errorf("log: %s", m.log)
	}
}

func TestRotatedAuthorityIsTrusted(t *testing.T) {
	before, after := meshtest.NewCA(t), meshtest.NewCA(t)
	files := meshtest.NewFiles(t, before, "tokenauth")
	address := join(t, configFor(files), "tokenauth").running(t).serve(t, onlyLifecycle(), &service{})
	oldClient, newClient := before.Issue(t, "lifecycle"), after.Issue(t, "lifecycle")
	if callAs(t, address, oldClient) != codes.OK || callAs(t, address, newClient) != codes.Unavailable {
		t.Fatal("the first authority is not the only one")
	}
	both := append(append([]byte{}, before.PEM...), after.PEM...)
	files.Replace(t, meshtest.Content{Pair: before.Issue(t, "tokenauth"), CA: both})
	eventually(t, "the new authority is trusted", func() bool { return callAs(t, address, newClient) == codes.OK })
	if got := callAs(t, address, oldClient); got != codes.OK {
		t.Errorf("with both authorities the old client gets %s", got)
	}
	files.Replace(t, meshtest.Content{Pair: after.Issue(t, "tokenauth"), CA: after.PEM})
	eventually(t, "the old authority is no longer trusted", func() bool { return callAs(t, address, oldClient) == codes.Unavailable })
	if got := callAs(t, address, newClient); got != codes.OK {
		t.Errorf("with the new authority the new client gets %s", got)
	}
}

// The same for a client: it presents the new certificate and trusts the new authority.
func TestClientRotates(t *testing.T) {
	before, after := meshtest.NewCA(t), meshtest.NewCA(t)
	files := meshtest.NewFiles(t, before, "lifecycle")
	m := join(t, configFor(files), "lifecycle").running(t)
	address := join(t, configFor(meshtest.NewFiles(t, after, "tokenauth")), "tokenauth").serve(t, onlyLifecycle(), &service{})
	call := func() codes.Code {
		conn, err := m.NewClient(Target{Daemon: "tokenauth", Address: address})
		must(t, err)
		defer conn.Close()
		return status.Code(callEmpty(t, conn))
	}
	if got := call(); got != codes.Unavailable {
		t.Fatalf("before the rotation the call ends with %s", got)
	}
	files.Replace(t, meshtest.Content{Pair: after.Issue(t, "lifecycle"), CA: after.PEM})
	eventually(t, "the client is accepted", func() bool { return call() == codes.OK })
}

// Whatever becomes of the files, the last good set stays in use and the fault shows;
// when they are good again, they are used.
func TestUnusableFilesKeepTheLastGoodSet(t *testing.T) {
	ca, other := meshtest.NewCA(t), meshtest.NewCA(t)
	type set = meshtest.Content
	cases := map[string]struct {
		breaks func(*set)
		says   string
	}{
		"broken certificate":       {func(s *set) { s.Cert = []byte("broken") }, "cert_file"},
		"broken key":               {func(s *set) { s.Key = []byte("broken") }, "key_file"},
		"broken authority":         {func(s *set) { s.CA = []byte("broken") }, "ca_file"},
		"half an authority more":   {func(s *set) { s.CA = append(s.CA, other.PEM[:200]...) }, "ca_file"},
		"key of another":           {func(s *set) { s.Key = ca.Issue(t, "tokenauth").Key }, "key_file"},
		"certificate of another":   {func(s *set) { s.Pair = ca.Issue(t, "nswatch") }, "that of nswatch"},
		"expired certificate":      {func(s *set) { s.Pair = ca.Issue(t, "tokenauth", meshtest.Expired()) }, "expired"},
		"certificate of no member": {func(s *set) { s.Pair = ca.Issue(t, "tokenauth", meshtest.URIs()) }, "no URI name"},
		"foreign authority only":   {func(s *set) { s.CA = other.PEM }, "unknown authority"},
		"empty files":              {func(s *set) { *s = set{} }, "cert_file"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			files := meshtest.NewFiles(t, ca, "tokenauth")
			m := join(t, configFor(files), "tokenauth").running(t)
			address := m.serve(t, onlyLifecycle(), &service{})
			first := serial(t, files.Read(t).Pair)
			broken := files.Read(t)
			c.breaks(&broken)
			files.Replace(t, broken)
			eventually(t, "the fault shows", func() bool { return m.FilesFault() != nil })
			if err := m.FilesFault(); !strings.Contains(err.Error(), c.says) {
				t.Errorf("the fault is %v, want it to say %q", err, c.says)
			}
			if got := testutil.ToFloat64(m.metrics.filesGood); got != 0 {
				t.Errorf("the gauge says %v", got)
			}
			// grpc's watcher gets more than one chance to take the files over.
			looks := testutil.ToFloat64(m.metrics.looks.WithLabelValues("bad"))
			eventually(t, "more looks at the files", func() bool {
				return testutil.ToFloat64(m.metrics.looks.WithLabelValues("bad")) >= looks+3
			})
			if got := served(t, address); got.Cmp(first) != 0 {
				t.Errorf("a new connection sees serial %x, want the last good one %x", got, first)
			}
			if got := callAs(t, address, ca.Issue(t, "lifecycle")); got != codes.OK {
				t.Errorf("a call ends with %s", got)
			}
			if got := callAs(t, address, other.Issue(t, "lifecycle")); got != codes.Unavailable {
				t.Errorf("a call of the other authority's client ends with %s", got)
			}
			must(t, m.Ready(context.Background()))
			if n := strings.Count(m.log.String(), "mesh certificate files are unusable"); n != 1 {
				t.Errorf("the fault was logged %d times", n)
			}

			next := ca.Issue(t, "tokenauth")
			files.Replace(t, set{Pair: next, CA: ca.PEM})
			eventually(t, "the repaired files are served", func() bool { return served(t, address).Cmp(serial(t, next)) == 0 })
			eventually(t, "the fault is gone", func() bool { return m.FilesFault() == nil })
			if got := testutil.ToFloat64(m.metrics.filesGood); got != 1 {
				t.Errorf("the gauge says %v", got)
			}
		})
	}
}

// frozen is a provider that has read what it has read.
type frozen struct {
	material *certprovider.KeyMaterial
	err      error
}

func (f frozen) KeyMaterial(context.Context) (*certprovider.KeyMaterial, error) {
	return f.material, f.err
}
func (f frozen) Close() {}

// What grpc's watcher has read is used only if it is what was judged.
func TestLookTakesOnlyWhatItJudged(t *testing.T) {
	ca, other := meshtest.NewCA(t), meshtest.NewCA(t)
	files := meshtest.NewFiles(t, ca, "tokenauth")
	stale := files.Read(t)
	next := meshtest.Content{Pair: ca.Issue(t, "tokenauth"), CA: ca.PEM}
	material := func(pair meshtest.Pair, pool *x509.CertPool) *certprovider.KeyMaterial {
		return &certprovider.KeyMaterial{Certs: []tls.Certificate{pair.TLS(t)}, Roots: pool}
	}
	for name, c := range map[string]struct {
		read  frozen
		taken bool
	}{
		"the same":              {frozen{material: material(next.Pair, ca.Pool())}, true},
		"still the old files":   {frozen{material: material(stale.Pair, ca.Pool())}, false},
		"yet other files":       {frozen{material: material(ca.Issue(t, "tokenauth"), ca.Pool())}, false},
		"another authority":     {frozen{material: material(next.Pair, other.Pool())}, false},
		"no authority":          {frozen{material: material(next.Pair, nil)}, false},
		"no certificate":        {frozen{material: &certprovider.KeyMaterial{Roots: ca.Pool()}}, false},
		"nothing within reason": {frozen{err: context.DeadlineExceeded}, false},
	} {
		t.Run(name, func(t *testing.T) {
			files.Replace(t, stale)
			m := join(t, configFor(files), "tokenauth")
			files.Replace(t, next)
			m.certs.look(context.Background(), c.read)
			want := serial(t, stale.Pair)
			if c.taken {
				want = serial(t, next.Pair)
			}
			current := m.certs.current.Load()
			if got := current.chain.Leaf.SerialNumber; got.Cmp(want) != 0 || current.leaf.SerialNumber.Cmp(want) != 0 {
				t.Errorf("serial %x in use, want %x", got, want)
			}
			must(t, m.FilesFault())
		})
	}
}

// A missing file is a fault as well, and a named pipe in its place stops nothing.
func TestLostFiles(t *testing.T) {
	files := meshtest.NewFiles(t, meshtest.NewCA(t), "tokenauth")
	m := join(t, configFor(files), "tokenauth").running(t)
	must(t, os.Remove(files.CA))
	eventually(t, "the fault shows", func() bool {
		err := m.FilesFault()
		return err != nil && strings.Contains(err.Error(), files.CA) && strings.Contains(err.Error(), "no such file")
	})
	must(t, m.Ready(context.Background()))
}

func TestReadyUntilTheCertificateEnds(t *testing.T) {
	ca := meshtest.NewCA(t)
	files := meshtest.NewFiles(t, ca, "tokenauth")
	var ahead atomic.Int64
	m := join(t, configFor(files), "tokenauth", func(d *Deps) {
		d.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	must(t, m.Ready(context.Background()))
	ahead.Store(int64(48 * time.Hour))
	if err := m.Ready(context.Background()); err == nil || !strings.Contains(err.Error(), "expired at") {
		t.Errorf("Ready says %v after the end", err)
	}
	m.running(t)
	eventually(t, "Ready tells why there is no new one", func() bool {
		err := m.Ready(context.Background())
		return err != nil && strings.Contains(err.Error(), "it was not replaced because") && strings.Contains(err.Error(), files.Cert)
	})
	ahead.Store(-int64(48 * time.Hour))
	if err := m.Ready(context.Background()); err == nil || !strings.Contains(err.Error(), "valid only from") {
		t.Errorf("Ready says %v before the beginning", err)
	}
}

// TLS sessions are not resumed, so that every connection verifies a certificate.
func TestSessionsAreNotResumed(t *testing.T) {
	ca := meshtest.NewCA(t)
	address := join(t, configFor(meshtest.NewFiles(t, ca, "tokenauth")), "tokenauth").serve(t, onlyLifecycle(), &service{})
	cache := tls.NewLRUClientSessionCache(8)
	stored := &countingCache{ClientSessionCache: cache}
	config := insecureTLS(func(c *tls.Config) {
		c.ClientSessionCache, c.ServerName = stored, "tokenauth"
		c.VerifyConnection = func(state tls.ConnectionState) error {
			stored.resumed.Store(stored.resumed.Load() || state.DidResume)
			return nil
		}
	}, ca.Issue(t, "lifecycle").TLS(t))
	for i := range 3 {
		conn := stranger(t, address, credentials.NewTLS(config))
		must(t, callEmpty(t, conn))
		must(t, conn.Close())
		if i == 0 && stored.puts.Load() == 0 {
			t.Error("the server offered no session, so nothing was tried")
		}
		if stored.resumed.Load() {
			t.Error("a session was resumed")
		}
	}
}

type countingCache struct {
	tls.ClientSessionCache
	puts    atomic.Int64
	resumed atomic.Bool
}

func (c *countingCache) Put(key string, state *tls.ClientSessionState) {
	if state != nil {
		c.puts.Add(1)
	}
	c.ClientSessionCache.Put(key, state)
}

func TestFreshlyVerified(t *testing.T) {
	ca := meshtest.NewCA(t)
	leaf := ca.Issue(t, "lifecycle").TLS(t).Leaf
	cases := map[string]struct {
		breaks func(*tls.ConnectionState)
		want   Cause
	}{
		"base":        {func(*tls.ConnectionState) {}, ""},
		"resumed":     {func(s *tls.ConnectionState) { s.DidResume = true }, CauseResumed},
		"TLS 1.2":     {func(s *tls.ConnectionState) { s.Version = tls.VersionTLS12 }, CauseHandshake},
		"no chain":    {func(s *tls.ConnectionState) { s.VerifiedChains = nil }, CauseUntrusted},
		"no leaf":     {func(s *tls.ConnectionState) { s.PeerCertificates = nil }, CauseUntrusted},
		"nothing set": {func(s *tls.ConnectionState) { *s = tls.ConnectionState{} }, CauseHandshake},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			state := tls.ConnectionState{Version: tls.VersionTLS13}
			state.PeerCertificates = append(state.PeerCertificates, leaf)
			state.VerifiedChains = append(state.VerifiedChains, state.PeerCertificates)
			c.breaks(&state)
			no := freshlyVerified(state)
			if (no == nil) != (c.want == "") || no != nil && no.cause != c.want {
				t.Errorf("freshlyVerified says %v, want %q", no, c.want)
			}
		})
	}
}

// When grpc clones the credentials, host names must still not be compared and
// authorities still be read anew.
func TestClonedCredentials(t *testing.T) {
	ca := meshtest.NewCA(t)
	address := join(t, configFor(meshtest.NewFiles(t, ca, "tokenauth")), "tokenauth").serve(t, onlyLifecycle(), &service{})
	m := join(t, configFor(meshtest.NewFiles(t, ca, "lifecycle")), "lifecycle")
	creds, err := m.clientTLS("tokenauth", false)
	must(t, err)
	must(t, callEmpty(t, stranger(t, address, creds.Clone())))
	wrong, err := m.clientTLS("nswatch", false)
	must(t, err)
	if err := callEmpty(t, stranger(t, address, wrong.Clone())); status.Code(err) != codes.Unavailable {
		t.Errorf("the clone accepts another daemon: %v", err)
	}
}
