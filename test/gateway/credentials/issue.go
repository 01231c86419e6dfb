package credentials

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// What the tokens say (contract 13.5).
const (
	TypeSandbox     = "openshell-sandbox-session+jwt"
	TypeGateway     = "openshell-gateway-session+jwt"
	AudienceSandbox = "openshell-sandbox"
	Component       = "openshell-supervisor"
)

// Lifetime is how long a token is good, and the most that a boundary accepts.
const Lifetime = time.Hour

// Run is what a bundle and a token are for.
type Run struct {
	SandboxID  string
	SessionID  string
	Generation string
	Rotation   uint64
	AuthEpoch  uint64
}

// Authority signs for one gateway. It does not change; after a rotation make a new one.
type Authority struct {
	gatewayID string
	ring      Ring
	now       func() time.Time
}

// New makes an Authority. The ring has at least one key; gatewayID is not empty.
func New(gatewayID string, ring Ring, now func() time.Time) (*Authority, error) {
	if gatewayID == "" || ring.Len() == 0 {
		return nil, errors.New("credentials: a gateway id and a signing key are needed")
	}
	return &Authority{gatewayID: gatewayID, ring: ring, now: now}, nil
}

// Issuer is the issuer of this gateway's tokens, and the audience of those that are for it.
func (a *Authority) Issuer() string { return "openshell-gateway:" + a.gatewayID }

type header struct {
	Algorithm string `json:"alg"`
	Type      string `json:"typ"`
	KeyID     string `json:"kid"`
}

type claims struct {
	Issuer     string `json:"iss"`
	Subject    string `json:"sub"`
	Audience   string `json:"aud"`
	IssuedAt   int64  `json:"iat"`
	NotBefore  int64  `json:"nbf"`
	Expires    int64  `json:"exp"`
	SandboxID  string `json:"sandbox_id"`
	SessionID  string `json:"session_id"`
	Generation string `json:"runtime_generation"`
	AuthEpoch  uint64 `json:"auth_epoch"`
	Component  string `json:"component"`
}

// SandboxToken makes the token that the boundary asks for, and says when it expires.
func (a *Authority) SandboxToken(run Run) (secret.Value, time.Time, error) {
	return a.sign(TypeSandbox, AudienceSandbox, run)
}

// GatewayToken makes the token that the gateway asks for (contract 6.6), and says when it expires.
func (a *Authority) GatewayToken(run Run) (secret.Value, time.Time, error) {
	return a.sign(TypeGateway, a.Issuer(), run)
}

func (a *Authority) sign(kind, audience string, run Run) (secret.Value, time.Time, error) {
	signer := a.ring.keys[0]
	issued := a.now().Truncate(time.Second)
	expires := issued.Add(Lifetime)
	h, err := json.Marshal(header{Algorithm: "EdDSA", Type: kind, KeyID: signer.id})
	if err != nil {
		return secret.Value{}, time.Time{}, fmt.Errorf("encode the header of a token: %w", err)
	}
	c, err := json.Marshal(claims{
		Issuer: a.Issuer(), Subject: subject(run.SandboxID), Audience: audience,
		IssuedAt: issued.Unix(), NotBefore: issued.Unix(), Expires: expires.Unix(),
		SandboxID: run.SandboxID, SessionID: run.SessionID, Generation: run.Generation, AuthEpoch: run.AuthEpoch, Component: Component,
	})
	if err != nil {
		return secret.Value{}, time.Time{}, fmt.Errorf("encode the claims of a token: %w", err)
	}
	token := encoded(nil, h)
	token = encoded(append(token, '.'), c)
	seed := signer.private.Expose() // to sign
	private := ed25519.NewKeyFromSeed(seed)
	clear(seed)
	signature := ed25519.Sign(private, token)
	clear(private)
	token = encoded(append(token, '.'), signature)
	defer clear(token)
	return secret.New(token), expires, nil
}

func subject(sandboxID string) string { return "spiffe://openshell/sandbox/" + sandboxID }

func encoded(to, b []byte) []byte { return base64.RawURLEncoding.AppendEncode(to, b) }

// The bundle, in the contract's order (13.2). Go writes bytes as base64, so the key's are numbers.
type (
	bundle struct {
		Supervisor       supervisor        `json:"supervisor"`
		GatewayID        string            `json:"gateway_id"`
		VerificationKeys []verificationKey `json:"verification_keys"`
	}
	supervisor struct {
		SessionID        string `json:"session_id"`
		Generation       string `json:"runtime_generation"`
		Rotation         uint64 `json:"session_rotation"`
		AuthEpoch        uint64 `json:"auth_epoch"`
		GatewayToken     string `json:"gateway_token"`
		GatewayExpiresAt int64  `json:"gateway_expires_at"`
		SandboxToken     string `json:"sandbox_token"`
		SandboxExpiresAt int64  `json:"sandbox_expires_at"`
	}
	verificationKey struct {
		ID  string  `json:"key_id"`
		PEM []int16 `json:"public_key_pem"`
	}
)

// Bundle makes the launch credentials of a run (contract 13.2), fresh in each call.
func (a *Authority) Bundle(run Run) (secret.Value, error) {
	gateway, gatewayUntil, err := a.GatewayToken(run)
	if err != nil {
		return secret.Value{}, err
	}
	defer gateway.Wipe()
	sandbox, sandboxUntil, err := a.SandboxToken(run)
	if err != nil {
		return secret.Value{}, err
	}
	defer sandbox.Wipe()
	b := bundle{GatewayID: a.gatewayID, Supervisor: supervisor{
		SessionID: run.SessionID, Generation: run.Generation, Rotation: run.Rotation, AuthEpoch: run.AuthEpoch,
		// Where the tokens leave for the driver.
		GatewayToken: string(gateway.Expose()), GatewayExpiresAt: gatewayUntil.Unix(),
		SandboxToken: string(sandbox.Expose()), SandboxExpiresAt: sandboxUntil.Unix(),
	}}
	for _, k := range a.ring.keys {
		text, err := k.pem()
		if err != nil {
			return secret.Value{}, err
		}
		numbers := make([]int16, len(text))
		for i, c := range text {
			numbers[i] = int16(c)
		}
		b.VerificationKeys = append(b.VerificationKeys, verificationKey{ID: k.id, PEM: numbers})
	}
	raw, err := json.Marshal(b)
	defer clear(raw)
	return secret.New(raw), err
}
