package material_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/launch"
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/material"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

var update = flag.Bool("update", false, "write the golden files anew; the stock binaries read what they hold")

const (
	session      = "3f2b8c1e-9a4d-4e6f-8b7a-0c1d2e3f4a5b"
	serverName   = "sandbox." + session + ".openshell.internal"
	gatewayToken = "eyJhbGciOiJFZERTQSJ9.eyJhdWQiOiJnYXRld2F5In0.Z2F0ZXdheS1zaWduYXR1cmU"
	sandboxToken = "eyJhbGciOiJFZERTQSJ9.eyJhdWQiOiJzYW5kYm94In0.c2FuZGJveC1zaWduYXR1cmU"
	supervisor   = `{"session_id":"` + session + `","runtime_generation":"g000000000000002a","session_rotation":1,"auth_epoch":7,` +
		`"gateway_token":"` + gatewayToken + `","gateway_expires_at":1790000000,"sandbox_token":"` + sandboxToken + `","sandbox_expires_at":0}`
)

// bundle is what the gateway sent with the object supervisor in it.
func bundle(t testing.TB, supervisor string) *launch.Bundle {
	t.Helper()
	type key struct {
		ID  string `json:"key_id"`
		PEM []int  `json:"public_key_pem"`
	}
	var keys []key
	for i, id := range []string{"2026-11", "2026-12"} {
		seed := make([]byte, ed25519.SeedSize)
		seed[0] = byte(i)
		der, err := x509.MarshalPKIXPublicKey(ed25519.NewKeyFromSeed(seed).Public())
		if err != nil {
			t.Fatal(err)
		}
		k := key{ID: id}
		for _, c := range pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}) {
			k.PEM = append(k.PEM, int(c))
		}
		keys = append(keys, k)
	}
	text, err := json.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	b, err := launch.Parse([]byte(`{"supervisor":` + supervisor + `,"gateway_id":"openshell","verification_keys":` + string(text) + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func valid(t testing.TB) *material.Facts {
	t.Helper()
	const uid = "5c8e4f2a-0b1d-4c3e-9f6a-7d8e9f0a1b2c"
	return &material.Facts{
		SandboxID:            "0195f7a2-77aa-7c10-8a3e-2f4b6d8e0a11",
		Namespace:            "team-a",
		NamespaceUID:         "11111111-0000-4000-8000-000000000001",
		SandboxUID:           uid,
		WorkloadPodUID:       "22222222-0000-4000-8000-000000000002",
		SupervisorPodUID:     "33333333-0000-4000-8000-000000000003",
		FenceUID:             "44444444-0000-4000-8000-000000000004",
		FenceResourceVersion: "1945",
		ClusterIP:            "10.96.12.7",
		BoundaryPort:         5500,
		WorkloadUID:          10001,
		WorkloadGID:          10002,
		ResourceDigest:       material.ResourceDigest(uid),
		Bundle:               bundle(t, supervisor),
	}
}

// fixed is randomness that is the same each time.
func fixed(seed byte) io.Reader {
	var s [32]byte
	s[0] = seed
	return rand.NewChaCha8(s)
}

func produce(t testing.TB, f *material.Facts, random io.Reader) *material.Material {
	t.Helper()
	m, err := material.Make(f, random)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// texts are values as they go into a Secret.
func texts(files map[string]secret.Value) map[string]string {
	out := map[string]string{}
	for name, v := range files {
		out[name] = string(v.Expose())
	}
	return out
}

// golden compares with a stored file, byte for byte.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs; -update writes it anew:\nstored: %s\nnow:    %s", path, want, got)
	}
}

// certificates made by nobody of importance: a CA, a leaf of it and the leaf's key, in PEM.
func foreignCA(t testing.TB) (ca, leaf, key []byte) {
	t.Helper()
	m := produce(t, valid(t), fixed(200))
	var d struct {
		TLS struct {
			Anchor string `json:"trust_anchor_pem"`
		} `json:"tls"`
	}
	if err := json.Unmarshal(m.Supervisor[material.FileDescriptor].Expose(), &d); err != nil {
		t.Fatal(err)
	}
	return []byte(d.TLS.Anchor), m.Sandbox[material.FileCertificate].Expose(), m.Sandbox[material.FileKey].Expose()
}

func secretOf(b []byte) secret.Value { return secret.New(b) }
