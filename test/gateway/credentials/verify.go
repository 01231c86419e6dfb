package credentials

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"
)

const (
	maxToken = 8 << 10
	skew     = 30 * time.Second
)

var errForm = errors.New("not a signed token")

// VerifyGateway reports which run a gateway token is for. Whether that is the present run is the caller's question.
func (a *Authority) VerifyGateway(token []byte) (Run, error) {
	h, payload, err := a.signed(token)
	if err != nil {
		return Run{}, err
	}
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil {
		return Run{}, errForm
	}
	now := a.now()
	for _, check := range []struct {
		ok   bool
		name string
	}{
		{h.Type == TypeGateway, "typ: not a gateway session"},
		{c.Issuer == a.Issuer(), "iss: another gateway"},
		{c.Audience == a.Issuer(), "aud: not for this gateway"},
		{c.SandboxID != "" && c.Subject == subject(c.SandboxID), "sub: not the sandbox"},
		{c.Component == Component, "component: not a supervisor"},
		{c.Generation != "" && c.AuthEpoch > 0, "runtime_generation, auth_epoch: not bound to a run"},
		{!now.After(time.Unix(c.Expires, 0).Add(skew)), "exp: expired"},
		{!now.Before(time.Unix(c.NotBefore, 0).Add(-skew)), "nbf: not yet valid"},
	} {
		if !check.ok {
			return Run{}, errors.New(check.name)
		}
	}
	return Run{SandboxID: c.SandboxID, SessionID: c.SessionID, Generation: c.Generation, AuthEpoch: c.AuthEpoch}, nil
}

// signed checks the form and the signature and returns the header and the payload.
func (a *Authority) signed(token []byte) (header, []byte, error) {
	parts := bytes.Split(token, []byte("."))
	if len(token) > maxToken || len(parts) != 3 {
		return header{}, nil, errForm
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.Strict().AppendDecode(nil, part); err != nil {
			return header{}, nil, errForm
		}
	}
	var h header
	if err := json.Unmarshal(decoded[0], &h); err != nil || h.Algorithm != "EdDSA" {
		return header{}, nil, errForm
	}
	public, known := a.ring.Public()[h.KeyID]
	if !known {
		return header{}, nil, errors.New("kid: not a key of this gateway")
	}
	if !ed25519.Verify(public, token[:len(parts[0])+1+len(parts[1])], decoded[2]) {
		return header{}, nil, errors.New("signature: does not fit")
	}
	return h, decoded[1], nil
}
