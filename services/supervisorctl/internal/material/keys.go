package material

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"

	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// errRepeats is a source that gave the same bytes twice: then keys would be equal that must not be.
var errRepeats = errors.New("the source of randomness repeats itself")

// source hands out secret bytes and refuses to hand out the same twice.
type source struct {
	random io.Reader
	seen   map[[sha256.Size]byte]bool
}

func newSource(random io.Reader) *source {
	return &source{random: random, seen: map[[sha256.Size]byte]bool{}}
}

// bytes returns n bytes, which the caller clears.
func (s *source) bytes(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(s.random, b); err != nil {
		return nil, fmt.Errorf("reading randomness: %w", err)
	}
	sum := sha256.Sum256(b)
	if s.seen[sum] {
		clear(b)
		return nil, errRepeats
	}
	s.seen[sum] = true
	return b, nil
}

// serial is a positive number of 127 bits, never zero.
func (s *source) serial() (*big.Int, error) {
	b, err := s.bytes(16)
	if err != nil {
		return nil, err
	}
	b[0] = b[0]&0x3f | 0x40
	return new(big.Int).SetBytes(b), nil
}

// ed25519Key is a key that the caller clears.
func (s *source) ed25519Key() (ed25519.PrivateKey, error) {
	seed, err := s.bytes(ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	defer clear(seed)
	return ed25519.NewKeyFromSeed(seed), nil
}

// p256Key draws until it has a number that is a key, which all but one in four thousand million are.
func (s *source) p256Key() (*ecdsa.PrivateKey, error) {
	const tries = 8
	for range tries {
		scalar, err := s.bytes(32)
		if err != nil {
			return nil, err
		}
		key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar)
		clear(scalar)
		if err == nil {
			return key, nil
		}
	}
	return nil, errors.New("the source of randomness gives no number that is a key on P-256")
}

// keyPEM writes a private key as PKCS #8 in PEM, the form that the readers of both files take.
func keyPEM(key crypto.PrivateKey) (secret.Value, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return secret.Value{}, err
	}
	defer clear(der)
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	defer clear(text)
	return secret.New(text), nil
}

// sign makes a certificate. The signer needs no randomness: Ed25519 never does, and ECDSA without a source takes its number
// from key and message (RFC 6979).
func sign(template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) (*x509.Certificate, string, error) {
	der, err := x509.CreateCertificate(nil, template, parent, public, signer)
	if err != nil {
		return nil, "", err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, "", err
	}
	return certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}

// wipeP256 overwrites the number that is the key.
func wipeP256(key *ecdsa.PrivateKey) {
	clear(key.D.Bits()) //nolint:staticcheck // there is no other way to the words that hold the key
}
