package supervisor

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"time"
)

// Object is a JSON object.
type Object = map[string]any

// Bundle makes the launch credentials of a run as the gateway does (contract 13.2), but for what changes change. Nothing of its tokens
// may ever be written. Safe for concurrent use.
func (s *Site) Bundle(b *Box, run Run, changes ...func(Object)) []byte {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // without randomness there is no test
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		panic(err)
	}
	var octets []int // public_key_pem is an array of the numbers of its bytes
	for _, c := range pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}) {
		octets = append(octets, int(c))
	}
	issued := time.Now().Unix()
	expires := issued + int64(time.Hour/time.Second)
	token := func(typ, audience string) string {
		claims := Object{
			"iss": "openshell-gateway:" + s.GatewayID, "aud": audience, "sub": "spiffe://openshell/sandbox/" + b.ID, "sandbox_id": b.ID,
			"runtime_generation": run.Generation, "auth_epoch": run.Epoch, "component": "openshell-supervisor", "iat": issued, "exp": expires,
		}
		signing := segment(Object{"alg": "EdDSA", "typ": typ, "kid": "key-1"}) + "." + segment(claims)
		signed := signing + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, []byte(signing)))
		s.guard(signed)
		return signed
	}
	bundle := Object{
		"supervisor": Object{
			"session_id": run.Session, "runtime_generation": run.Generation, "session_rotation": 1, "auth_epoch": run.Epoch,
			"gateway_token": token("openshell-gateway-session+jwt", "openshell-gateway:"+s.GatewayID), "gateway_expires_at": expires,
			"sandbox_token": token("openshell-sandbox-session+jwt", "openshell-sandbox"), "sandbox_expires_at": expires,
		},
		"gateway_id":        s.GatewayID,
		"verification_keys": []any{Object{"key_id": "key-1", "public_key_pem": octets}},
	}
	for _, change := range changes {
		change(bundle)
	}
	return encode(bundle)
}

func segment(o Object) string { return base64.RawURLEncoding.EncodeToString(encode(o)) }

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // of a test's own making
	}
	return text
}
