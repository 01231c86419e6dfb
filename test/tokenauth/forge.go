package tokenauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Key signs tokens as an API server does.
type Key struct{ private *ecdsa.PrivateKey }

// ClusterKey is the key that the site's API server signs with. The control plane keeps it below the directory of the administrator's
// kubeconfig.
func (s *Site) ClusterKey() Key {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(s.Cluster.Kubeconfig()), "pki", "sa.key"))
	s.must("read the key of the API server", err)
	block, _ := pem.Decode(text)
	if block == nil {
		s.t.Fatal("the key of the API server is no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	s.must("read the key of the API server", err)
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		s.t.Fatalf("the API server signs with a %T", key)
	}
	return Key{private}
}

// Sign is header and payload with a signature by ES256, or by another key than the header names.
func (s *Site) Sign(key Key, header, payload string) string {
	s.t.Helper()
	text := encode([]byte(header)) + "." + encode([]byte(payload))
	digest := sha256.Sum256([]byte(text))
	r, v, err := ecdsa.Sign(rand.Reader, key.private, digest[:])
	s.must("sign a token", err)
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	v.FillBytes(signature[32:])
	token := text + "." + encode(signature)
	s.Guard(token)
	return token
}

// Parts are the JSON of a token's header and of its claims.
func (s *Site) Parts(token string) (header, payload string) {
	s.t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		s.t.Fatal("the API server issued something that is no JWT")
	}
	h, err := base64.RawURLEncoding.DecodeString(parts[0])
	s.must("read a token", err)
	p, err := base64.RawURLEncoding.DecodeString(parts[1])
	s.must("read a token", err)
	return string(h), string(p)
}

// Claims are those of a payload, changed.
func (s *Site) Claims(payload string, change func(claims map[string]any)) string {
	s.t.Helper()
	var claims map[string]any
	s.must("read the claims of a token", json.Unmarshal([]byte(payload), &claims))
	change(claims)
	text, err := json.Marshal(claims)
	s.must("write the claims of a token", err)
	return string(text)
}

func encode(part []byte) string { return base64.RawURLEncoding.EncodeToString(part) }

// NewKey is one that no API server has.
func NewKey(t testing.TB) Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Key{private}
}

// Respelled is a token signed by ES256, whose 64 bytes leave four bits of the last character without a meaning, with other such
// bits: the API server takes it for the same token.
func Respelled(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	return token[:len(token)-1] + string(alphabet[last|1])
}
