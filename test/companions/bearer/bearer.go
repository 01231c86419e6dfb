package bearer

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// What every sandbox token says (contract 13.5).
const (
	Type      = "openshell-sandbox-session+jwt"
	Audience  = "openshell-sandbox"
	Component = "openshell-supervisor"
)

const (
	maxToken    = 8 << 10
	maxLifetime = time.Hour
	skew        = 30 * time.Second
)

// Session is what the token must be for.
type Session struct {
	GatewayID  string
	SandboxID  string
	Generation string
	AuthEpoch  uint64
}

// Issuer returns the issuer of a gateway's tokens.
func Issuer(gatewayID string) string { return "openshell-gateway:" + gatewayID }

// Subject returns the subject of a sandbox's tokens.
func Subject(sandboxID string) string { return "spiffe://openshell/sandbox/" + sandboxID }

type header struct {
	Algorithm string `json:"alg"`
	Type      string `json:"typ"`
	KeyID     string `json:"kid"`
}

type claims struct {
	Issuer     string   `json:"iss"`
	Subject    string   `json:"sub"`
	Audience   audience `json:"aud"`
	IssuedAt   int64    `json:"iat"`
	NotBefore  int64    `json:"nbf"`
	Expires    int64    `json:"exp"`
	SandboxID  string   `json:"sandbox_id"`
	Generation string   `json:"runtime_generation"`
	AuthEpoch  uint64   `json:"auth_epoch"`
	Component  string   `json:"component"`
}

// audience is the one name that a token is for; JWT allows a string or a list.
type audience string

// UnmarshalJSON accepts a string or a list of one string.
func (a *audience) UnmarshalJSON(b []byte) error {
	var list []string
	if err := json.Unmarshal(b, &list); err == nil {
		if len(list) != 1 {
			return errors.New("aud: not one audience")
		}
		*a = audience(list[0])
		return nil
	}
	return json.Unmarshal(b, (*string)(a))
}

// Verify reports whether token is signed by one of keys and is for the session at the time now. The
// error names the first check that failed.
func Verify(token []byte, keys map[string]ed25519.PublicKey, session Session, now time.Time) error {
	h, payload, err := signed(token, keys)
	if err != nil {
		return fmt.Errorf("bearer: %w", err)
	}
	if h.Type != Type {
		return errors.New("bearer: typ: not a sandbox session")
	}
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil {
		return errors.New("bearer: claims: not what a sandbox token has")
	}
	for _, check := range []struct {
		ok   bool
		name string
	}{
		{c.Issuer == Issuer(session.GatewayID), "iss: another gateway"},
		{c.Audience == Audience, "aud: not for a sandbox"},
		{c.Subject == Subject(session.SandboxID), "sub: another sandbox"},
		{c.SandboxID == session.SandboxID, "sandbox_id: another sandbox"},
		{c.Generation == session.Generation, "runtime_generation: another generation"},
		{c.AuthEpoch == session.AuthEpoch, "auth_epoch: another epoch"},
		{c.Component == Component, "component: not a supervisor"},
		{c.Expires > 0 && c.IssuedAt > 0 && time.Unix(c.Expires, 0).Sub(time.Unix(c.IssuedAt, 0)) <= maxLifetime, "exp: not within an hour of iat"},
		{!now.After(time.Unix(c.Expires, 0).Add(skew)), "exp: expired"},
		{!now.Before(time.Unix(max(c.IssuedAt, c.NotBefore), 0).Add(-skew)), "iat: not yet valid"},
	} {
		if !check.ok {
			return errors.New("bearer: " + check.name)
		}
	}
	return nil
}

// signed checks the form and the signature and returns the header and the payload.
func signed(token []byte, keys map[string]ed25519.PublicKey) (header, []byte, error) {
	if len(token) > maxToken {
		return header{}, nil, fmt.Errorf("longer than %d bytes", maxToken)
	}
	parts := bytes.Split(token, []byte("."))
	if len(parts) != 3 {
		return header{}, nil, errors.New("not a signed token")
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.Strict().AppendDecode(nil, part); err != nil {
			return header{}, nil, errors.New("not a signed token")
		}
	}
	var h header
	if err := json.Unmarshal(decoded[0], &h); err != nil {
		return header{}, nil, errors.New("not a signed token")
	}
	if h.Algorithm != "EdDSA" {
		return header{}, nil, errors.New("alg: not EdDSA")
	}
	key, known := keys[h.KeyID]
	if !known || len(key) != ed25519.PublicKeySize {
		return header{}, nil, errors.New("kid: not a key of the gateway")
	}
	if !ed25519.Verify(key, token[:len(parts[0])+1+len(parts[1])], decoded[2]) {
		return header{}, nil, errors.New("signature: does not fit")
	}
	return h, decoded[1], nil
}
