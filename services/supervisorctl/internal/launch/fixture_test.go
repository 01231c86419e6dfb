package launch_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
)

const (
	session      = "3f2b8c1e-9a4d-4e6f-8b7a-0c1d2e3f4a5b"
	gatewayToken = "eyJhbGciOiJFZERTQSJ9.eyJhdWQiOiJnYXRld2F5In0.Z2F0ZXdheS1zaWduYXR1cmU"
	sandboxToken = "eyJhbGciOiJFZERTQSJ9.eyJhdWQiOiJzYW5kYm94In0.c2FuZGJveC1zaWduYXR1cmU"
)

// publicPEM is an Ed25519 public key made from one byte.
func publicPEM(t testing.TB, seed byte) string {
	t.Helper()
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
	return pemOf(t, "PUBLIC KEY", key.Public())
}

func pemOf(t testing.TB, kind string, key any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// octets writes text as an array of the numbers of its bytes.
func octets(text string) string {
	var numbers []string
	for i := range len(text) {
		numbers = append(numbers, fmt.Sprint(text[i]))
	}
	return "[" + strings.Join(numbers, ",") + "]"
}

// fields are a bundle's values as they stand in JSON, by path.
type fields map[string]string

func valid(t testing.TB) fields {
	t.Helper()
	return fields{
		"session_id":         quote(session),
		"runtime_generation": `"g000000000000002a"`,
		"session_rotation":   "3",
		"auth_epoch":         "18446744073709551615",
		"gateway_token":      quote(gatewayToken),
		"gateway_expires_at": "1790000000",
		"sandbox_token":      quote(sandboxToken),
		"sandbox_expires_at": "0",
		"gateway_id":         `"openshell"`,
		"key_id":             `"2026-11"`,
		"public_key_pem":     octets(publicPEM(t, 'a')),
		"next_key_id":        `"2026-12"`,
		"next_pem":           octets(publicPEM(t, 'b')),
	}
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// json writes the bundle as the stock gateway does, compact and in its order. Extra goes behind a field's value.
func (f fields) json() string {
	m := func(name string) string { return quote(name) + ":" + f[name] }
	return `{"supervisor":{` + strings.Join([]string{
		m("session_id"), m("runtime_generation"), m("session_rotation"), m("auth_epoch"), m("gateway_token"),
		m("gateway_expires_at"), m("sandbox_token"), m("sandbox_expires_at"),
	}, ",") + `},` + m("gateway_id") + `,"verification_keys":[{` + m("key_id") + "," + m("public_key_pem") + `},{"key_id":` +
		f["next_key_id"] + `,"public_key_pem":` + f["next_pem"] + `}]}`
}
