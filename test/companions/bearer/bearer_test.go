package bearer_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/companions/bearer"
	"github.com/portcullis-mesh/portcullis/test/companions/materialtest"
)

var session = bearer.Session{
	GatewayID: materialtest.GatewayID, SandboxID: materialtest.SandboxID, Generation: materialtest.Generation, AuthEpoch: materialtest.AuthEpoch,
}

func TestVerify(t *testing.T) {
	t.Parallel()
	m := materialtest.Make(t, "127.0.0.1:1")
	keys := map[string]ed25519.PublicKey{materialtest.KeyID: m.Signer.Public().(ed25519.PublicKey)}
	now := time.Now()
	claim := func(name string, value any) func(_, c materialtest.Object) {
		return func(_, c materialtest.Object) {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}
	}
	header := func(name string, value any) func(h, _ materialtest.Object) {
		return func(h, _ materialtest.Object) { h[name] = value }
	}
	for name, tc := range map[string]struct {
		change func(h, c materialtest.Object)
		at     time.Duration // from now
		want   string
	}{
		"valid":                  {},
		"a list of one audience": {change: claim("aud", []string{bearer.Audience})},
		"just expired":           {at: time.Hour + 29*time.Second},
		"expired":                {at: time.Hour + 32*time.Second, want: "exp: expired"},
		"from a fast clock":      {at: -29 * time.Second},
		"from the future":        {at: -32 * time.Second, want: "not yet valid"},
		"not before later":       {change: claim("nbf", now.Add(time.Minute).Unix()), want: "not yet valid"},
		"lives too long":         {change: claim("exp", now.Add(time.Hour+time.Minute).Unix()), want: "exp"},
		"never expires":          {change: claim("exp", nil), want: "exp"},
		"never issued":           {change: claim("iat", nil), want: "exp"},
		"algorithm none":         {change: header("alg", "none"), want: "alg"},
		"another type":           {change: header("typ", "openshell-gateway-session+jwt"), want: "typ"},
		"another key":            {change: header("kid", "key-2"), want: "kid"},
		"another issuer":         {change: claim("iss", "openshell-gateway:gateway-b"), want: "iss"},
		"another audience":       {change: claim("aud", "openshell-gateway:gateway-a"), want: "aud"},
		"two audiences":          {change: claim("aud", []string{bearer.Audience, "x"}), want: "claims"},
		"no audience":            {change: claim("aud", nil), want: "aud"},
		"another subject":        {change: claim("sub", "spiffe://openshell/sandbox/other"), want: "sub"},
		"another sandbox":        {change: claim("sandbox_id", "other"), want: "sandbox_id"},
		"another generation":     {change: claim("runtime_generation", "g00000000000002a6"), want: "runtime_generation"},
		"an older epoch":         {change: claim("auth_epoch", 2), want: "auth_epoch"},
		"no epoch":               {change: claim("auth_epoch", nil), want: "auth_epoch"},
		"another component":      {change: claim("component", "openshell-sandbox"), want: "component"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, bearer.Verify([]byte(m.Token(t, tc.change)), keys, session, now.Add(tc.at)), tc.want)
		})
	}
}

func TestVerifyForged(t *testing.T) {
	t.Parallel()
	m := materialtest.Make(t, "127.0.0.1:1")
	keys := map[string]ed25519.PublicKey{materialtest.KeyID: m.Signer.Public().(ed25519.PublicKey)}
	good := m.Token(t, nil)
	parts := strings.Split(good, ".")
	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	m.Signer = stranger
	other := strings.Split(m.Token(t, func(_, c materialtest.Object) { c["auth_epoch"] = 4 }), ".")
	for name, tc := range map[string]struct{ token, want string }{
		"another signer":      {m.Token(t, nil), "signature"},
		"another's claims":    {parts[0] + "." + other[1] + "." + parts[2], "signature"},
		"no signature":        {parts[0] + "." + parts[1] + ".", "signature"},
		"two parts":           {parts[0] + "." + parts[1], "not a signed token"},
		"nothing":             {"", "not a signed token"},
		"padded":              {good + "=", "not a signed token"},
		"header is no object": {base64.RawURLEncoding.EncodeToString([]byte("1")) + "." + parts[1] + "." + parts[2], "not a signed token"},
		"endless":             {strings.Repeat("a", 9<<10), "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, bearer.Verify([]byte(tc.token), keys, session, time.Now()), tc.want)
		})
	}
	check(t, bearer.Verify([]byte(good), nil, session, time.Now()), "kid")
	check(t, bearer.Verify([]byte(good), map[string]ed25519.PublicKey{materialtest.KeyID: {1}}, session, time.Now()), "kid")
	check(t, bearer.Verify([]byte(good), keys, bearer.Session{}, time.Now()), "iss")
}

func check(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want one with %q", err, want)
	}
}

// FuzzVerify: nothing but what the gateway signed is accepted.
func FuzzVerify(f *testing.F) {
	m := materialtest.Make(f, "127.0.0.1:1")
	keys := map[string]ed25519.PublicKey{materialtest.KeyID: m.Signer.Public().(ed25519.PublicKey)}
	good := m.Token(f, nil)
	f.Add([]byte(good[:len(good)-2]))
	f.Add([]byte("a.b.c"))
	f.Add([]byte("e30.e30."))
	f.Fuzz(func(t *testing.T, token []byte) {
		err := bearer.Verify(token, keys, session, time.Now())
		if err == nil && string(token) != good {
			t.Fatalf("accepted %q", token)
		}
	})
}
