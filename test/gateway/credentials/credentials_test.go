package credentials_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mesh/portcullis/test/companions/bearer"
	"github.com/portcullis-mesh/portcullis/test/gateway/credentials"
)

var (
	now = time.Date(2026, 11, 30, 12, 0, 0, 1, time.UTC)
	run = credentials.Run{
		SandboxID: "0a1b2c3d-0000-4000-8000-000000000001", SessionID: "0a1b2c3d-0000-4000-8000-00000000000a",
		Generation: "g0000000000000001", Rotation: 1, AuthEpoch: 3,
	}
)

func ring(t testing.TB, r credentials.Ring) credentials.Ring {
	t.Helper()
	r, err := r.Rotated()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func authority(t testing.TB, id string, r credentials.Ring, at time.Time) *credentials.Authority {
	t.Helper()
	a, err := credentials.New(id, r, func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestBoundaryAccepts: the stand-in runtime, which is written apart, accepts the sandbox token and nothing else of ours.
func TestBoundaryAccepts(t *testing.T) {
	t.Parallel()
	r := ring(t, credentials.Ring{})
	a := authority(t, "gw", r, now)
	token, until, err := a.SandboxToken(run)
	if err != nil || until.Sub(now.Truncate(time.Second)) != time.Hour {
		t.Fatalf("until %s, %v", until, err)
	}
	session := bearer.Session{GatewayID: "gw", SandboxID: run.SandboxID, Generation: run.Generation, AuthEpoch: run.AuthEpoch}
	if err := bearer.Verify(token.Expose(), r.Public(), session, now); err != nil {
		t.Error(err)
	}
	other := session
	other.AuthEpoch++
	if bearer.Verify(token.Expose(), r.Public(), other, now) == nil {
		t.Error("good for another epoch")
	}
	gateway, _, err := a.GatewayToken(run)
	if err != nil || bearer.Verify(gateway.Expose(), r.Public(), session, now) == nil {
		t.Errorf("%v, or the boundary accepts the gateway's token", err)
	}
	if _, err := a.VerifyGateway(token.Expose()); err == nil || !strings.Contains(err.Error(), "typ") {
		t.Errorf("the gateway accepts the boundary's token: %v", err)
	}
}

func TestVerifyGateway(t *testing.T) {
	t.Parallel()
	r := ring(t, credentials.Ring{})
	a := authority(t, "gw", r, now)
	token, _, err := a.GatewayToken(run)
	if err != nil {
		t.Fatal(err)
	}
	good := token.Expose()
	got, err := a.VerifyGateway(good)
	want := run
	want.Rotation = 0
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	parts := bytes.Split(good, []byte("."))
	claims := func(change string, to any) []byte {
		raw, err := base64.RawURLEncoding.DecodeString(string(parts[1]))
		if err != nil {
			t.Fatal(err)
		}
		var c map[string]any
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		c[change] = to
		raw, err = json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return []byte(string(parts[0]) + "." + base64.RawURLEncoding.EncodeToString(raw) + "." + string(parts[2]))
	}
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"openshell-gateway-session+jwt"}`))
	rotated := authority(t, "gw", ring(t, r), now)
	if _, err := rotated.VerifyGateway(good); err != nil {
		t.Errorf("behind a rotation: %v", err)
	}
	forgotten := r
	for range 4 {
		forgotten = ring(t, forgotten)
	}
	for name, tc := range map[string]struct {
		by    *credentials.Authority
		token []byte
		want  string
	}{
		"expired":             {authority(t, "gw", r, now.Add(time.Hour+31*time.Second)), good, "exp"},
		"of tomorrow":         {authority(t, "gw", r, now.Add(-31*time.Second)), good, "nbf"},
		"another gateway":     {authority(t, "other", r, now), good, "iss"},
		"a key of nobody":     {authority(t, "gw", ring(t, credentials.Ring{}), now), good, "kid"},
		"a key long rotated":  {authority(t, "gw", forgotten, now), good, "kid"},
		"another epoch":       {a, claims("auth_epoch", 4), "signature"},
		"another sandbox":     {a, claims("sandbox_id", "x"), "signature"},
		"without a signature": {a, []byte(string(parts[0]) + "." + string(parts[1]) + "."), "signature"},
		"algorithm none":      {a, []byte(none + "." + string(parts[1]) + "."), "not a signed token"},
		"nothing":             {a, nil, "not a signed token"},
		"endless":             {a, bytes.Repeat([]byte("a."), 8<<10), "not a signed token"},
	} {
		if got, err := tc.by.VerifyGateway(tc.token); err == nil || !strings.Contains(err.Error(), tc.want) || got != (credentials.Run{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestBundle: exactly the fields of contract 13.2, keys as numbers, and tokens that fit.
func TestBundle(t *testing.T) {
	t.Parallel()
	r := ring(t, ring(t, credentials.Ring{}))
	made, err := authority(t, "gw", r, now).Bundle(run)
	if err != nil {
		t.Fatal(err)
	}
	raw := made.Expose()
	if bytes.Contains(raw, []byte(`\`)) {
		t.Error("an escape, which strict readers refuse")
	}
	var b struct {
		Supervisor       map[string]any `json:"supervisor"`
		GatewayID        string         `json:"gateway_id"`
		VerificationKeys []struct {
			ID  string `json:"key_id"`
			PEM []int  `json:"public_key_pem"`
		} `json:"verification_keys"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	d.UseNumber()
	if err := d.Decode(&b); err != nil {
		t.Fatal(err)
	}
	expires := fmt.Sprint(now.Add(time.Hour).Unix())
	for field, want := range map[string]string{
		"session_id": run.SessionID, "runtime_generation": run.Generation, "session_rotation": "1", "auth_epoch": "3",
		"gateway_expires_at": expires, "sandbox_expires_at": expires,
	} {
		if got := fmt.Sprint(b.Supervisor[field]); got != want {
			t.Errorf("supervisor.%s: %s, want %s", field, got, want)
		}
	}
	if b.GatewayID != "gw" || len(b.Supervisor) != 8 || len(b.VerificationKeys) != 2 {
		t.Errorf("%q, %d fields, %d keys", b.GatewayID, len(b.Supervisor), len(b.VerificationKeys))
	}
	keys := map[string]ed25519.PublicKey{}
	for _, k := range b.VerificationKeys {
		var text []byte
		for _, c := range k.PEM {
			text = append(text, byte(c))
		}
		block, rest := pem.Decode(text)
		if block == nil || len(rest) > 0 {
			t.Fatalf("key %s: %q", k.ID, text)
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		keys[k.ID] = parsed.(ed25519.PublicKey)
	}
	session := bearer.Session{GatewayID: "gw", SandboxID: run.SandboxID, Generation: run.Generation, AuthEpoch: run.AuthEpoch}
	if err := bearer.Verify([]byte(b.Supervisor["sandbox_token"].(string)), keys, session, now); err != nil {
		t.Error(err)
	}
}

func TestRing(t *testing.T) {
	t.Parallel()
	r := ring(t, credentials.Ring{})
	for n := 2; n < 7; n++ {
		if r = ring(t, r); r.Len() != min(n, 4) || len(r.Public()) != r.Len() {
			t.Errorf("%d keys behind %d rotations", r.Len(), n)
		}
	}
	encoded, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := credentials.Decode(encoded.Expose())
	if err != nil || again.Len() != r.Len() {
		t.Fatal(err)
	}
	token, _, err := authority(t, "gw", again, now).GatewayToken(run)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authority(t, "gw", r, now).VerifyGateway(token.Expose()); err != nil {
		t.Errorf("the ring came back as another: %v", err)
	}
	for name, b := range map[string]string{"no list": "{}", "no key": `["AAAA"]`, "too many": `["","","","",""]`, "cut off": `["AA`} {
		if _, err := credentials.Decode([]byte(b)); err == nil || strings.Contains(err.Error(), b) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if none, err := credentials.Decode(nil); err != nil || none.Len() != 0 {
		t.Error(err)
	}
	if _, err := credentials.New("gw", credentials.Ring{}, time.Now); err == nil {
		t.Error("an authority without a key")
	}
	if _, err := credentials.New("", r, time.Now); err == nil {
		t.Error("an authority without a name")
	}
}

// FuzzVerifyGateway: nothing but what this gateway signed is accepted.
func FuzzVerifyGateway(f *testing.F) {
	a := authority(f, "gw", ring(f, credentials.Ring{}), now)
	token, _, err := a.GatewayToken(run)
	if err != nil {
		f.Fatal(err)
	}
	good := token.Expose()
	f.Add(good[:len(good)-1])
	f.Add([]byte("a.b.c"))
	f.Add([]byte("e30.e30."))
	f.Fuzz(func(t *testing.T, token []byte) {
		if _, err := a.VerifyGateway(token); err == nil && !bytes.Equal(token, good) {
			t.Fatalf("accepted %q", token)
		}
	})
}
