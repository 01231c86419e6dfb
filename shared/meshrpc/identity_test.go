package meshrpc

import (
	"context"
	"crypto/x509"
	"net/url"
	"strings"
	"testing"
)

func TestIdentify(t *testing.T) {
	uri := func(raw string) *url.URL {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	cases := map[string]struct {
		breaks func(*x509.Certificate)
		want   Cause
	}{
		"valid":                 {func(*x509.Certificate) {}, ""},
		"DNS names beside":      {func(c *x509.Certificate) { c.DNSNames = []string{"nswatch", "spiffe://portcullis/nswatch"} }, ""},
		"common name only":      {func(c *x509.Certificate) { c.URIs = nil }, CauseIdentityMissing},
		"two names":             {func(c *x509.Certificate) { c.URIs = append(c.URIs, uri("spiffe://portcullis/nswatch")) }, CauseIdentityAmbiguous},
		"the same name twice":   {func(c *x509.Certificate) { c.URIs = append(c.URIs, c.URIs[0]) }, CauseIdentityAmbiguous},
		"a web address beside":  {func(c *x509.Certificate) { c.URIs = append(c.URIs, uri("https://example.org")) }, CauseIdentityAmbiguous},
		"another trust domain":  {func(c *x509.Certificate) { c.URIs[0] = uri("spiffe://example.org/lifecycle") }, CauseTrustDomain},
		"a longer trust domain": {func(c *x509.Certificate) { c.URIs[0] = uri("spiffe://portcullis.example.org/lifecycle") }, CauseTrustDomain},
		"another scheme":        {func(c *x509.Certificate) { c.URIs[0] = uri("https://portcullis/lifecycle") }, CauseIdentityMalformed},
		"upper case scheme": {func(c *x509.Certificate) {
			c.URIs[0] = &url.URL{Scheme: "SPIFFE", Host: "portcullis", Path: "/lifecycle"}
		}, CauseIdentityMalformed},
		"no path":            {func(c *x509.Certificate) { c.URIs[0] = uri("spiffe://portcullis") }, CauseIdentityMalformed},
		"empty path":         {func(c *x509.Certificate) { c.URIs[0] = uri("spiffe://portcullis/") }, CauseIdentityMalformed},
		"deeper path":        {func(c *x509.Certificate) { c.URIs[0] = uri("spiffe://portcullis/ns/lifecycle") }, CauseIdentityMalformed},
		"trailing slash":     {func(c *x509.Certificate) { c.URIs[0] = uri("spiffe://portcullis/lifecycle/") }, CauseIdentityMalformed},
		"dot dot":            {func(c *x509.Certificate) { c.URIs[0] = uri("spiffe://portcullis/..") }, CauseIdentityMalformed},
		"escaped":            {func(c *x509.Certificate) { c.URIs[0] = uri("spiffe://portcullis/life%63ycle") }, CauseIdentityMalformed},
		"query":              {func(c *x509.Certificate) { c.URIs[0] = uri("spiffe://portcullis/lifecycle?x=1") }, CauseIdentityMalformed},
		"fragment":           {func(c *x509.Certificate) { c.URIs[0] = uri("spiffe://portcullis/lifecycle#x") }, CauseIdentityMalformed},
		"port":               {func(c *x509.Certificate) { c.URIs[0] = uri("spiffe://portcullis:443/lifecycle") }, CauseIdentityMalformed},
		"user":               {func(c *x509.Certificate) { c.URIs[0] = uri("spiffe://x@portcullis/lifecycle") }, CauseIdentityMalformed},
		"the plaintext name": {func(c *x509.Certificate) { c.URIs[0] = uri("spiffe://portcullis/" + PlaintextCaller) }, CauseIdentityMalformed},
		"the wildcard":       {func(c *x509.Certificate) { c.URIs[0] = uri("spiffe://portcullis/" + AnyDaemon) }, CauseIdentityMalformed},
		"an authority":       {func(c *x509.Certificate) { c.IsCA = true }, CauseAuthority},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cert := &x509.Certificate{URIs: []*url.URL{uri("spiffe://portcullis/lifecycle")}}
			c.breaks(cert)
			caller, no := identify(cert)
			if c.want == "" {
				if daemon, ok := caller.Daemon(); no != nil || !ok || daemon != "lifecycle" {
					t.Errorf("identify says %s, %v", caller, no)
				}
				return
			}
			if no == nil || no.cause != c.want {
				t.Errorf("identify says %s, %v, want cause %s", caller, no, c.want)
			}
			if caller != (Caller{}) {
				t.Errorf("a refused certificate is still %s", caller)
			}
		})
	}
}

func TestNobody(t *testing.T) {
	nobody := CallerFromContext(context.Background())
	if daemon, ok := nobody.Daemon(); ok || daemon != "" || nobody.String() != "nobody" {
		t.Errorf("nobody is %s", nobody)
	}
	if daemon, ok := (Caller{name: PlaintextCaller}).Daemon(); ok {
		t.Errorf("a plaintext caller is the daemon %s", daemon)
	}
}

// Whatever a certificate says, an accepted identity is exactly the one that the mesh
// would have written.
func FuzzParseIdentity(f *testing.F) {
	for _, seed := range []string{
		"spiffe://portcullis/lifecycle", "spiffe://portcullis/", "spiffe://portcullis", "spiffe://example.org/lifecycle",
		"SPIFFE://portcullis/x", "spiffe://portcullis/a/b", "spiffe://portcullis/%2e", "spiffe://portcullis/x?y", "", "*",
		"spiffe://portcullis/plaintext@loopback", "spiffe://portcullis/*", "spiffe://portcullis/\x00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		caller, no := parseIdentity(uri)
		if no != nil {
			if caller != (Caller{}) {
				t.Errorf("%q is refused and yet %s", uri, caller)
			}
			return
		}
		daemon, ok := caller.Daemon()
		if !ok || "spiffe://portcullis/"+daemon != uri {
			t.Errorf("%q is taken for %s", uri, caller)
		}
		if daemon == AnyDaemon || daemon == PlaintextCaller || strings.ContainsAny(daemon, "/@*:?#% ") {
			t.Errorf("%q gives the name %q", uri, daemon)
		}
	})
}
