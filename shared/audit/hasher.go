package audit

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// Sizes, bytes. A fingerprint of 128 bits does not meet another by chance; the name of a key is for people.
const (
	keySize         = 32
	maxKeyFile      = 4 << 10
	fingerprintSize = 16
	keyNameSize     = 4
)

// keyNameLabel and tokenLabel keep the two uses of the key apart.
const (
	keyNameLabel = "portcullis audit key name\x00"
	tokenLabel   = "portcullis audit token\x00"
)

// Fingerprint stands for a token: equal for equal tokens under one key, and of no use to find the token. Only a Hasher
// makes one. The zero Fingerprint is that of no token. Values compare with ==.
type Fingerprint struct{ hash, key string }

// Hash is 32 hex digits; empty in the zero Fingerprint.
func (f Fingerprint) Hash() string { return f.hash }

// Key names the key that the hash was made with, 8 hex digits. Fingerprints with other names cannot be compared.
func (f Fingerprint) Key() string { return f.key }

// IsZero reports that there was no token.
func (f Fingerprint) IsZero() bool { return f == Fingerprint{} }

// String is Hash.
func (f Fingerprint) String() string { return f.hash }

// Hasher makes fingerprints of tokens: HMAC-SHA-256, cut to 128 bits. Safe for concurrent use.
type Hasher struct {
	key  secret.Value
	name string
}

// NewHasher reads the key from keyFile, a regular file of 32 bytes to 4 KiB which are taken as they are, so it must be
// the same to the last byte for every replica. Without a file it makes a key of 32 random bytes: fingerprints then tell
// tokens apart within one process only. The file is read once; a new key takes a restart.
func NewHasher(keyFile string) (*Hasher, error) {
	key := make([]byte, keySize)
	defer func() { clear(key) }()
	if keyFile == "" {
		if _, err := rand.Read(key); err != nil {
			return nil, fmt.Errorf("make a key for token fingerprints: %w", err)
		}
		return newHasher(key), nil
	}
	content, err := pemfile.File{Key: "hash_key_file", Path: keyFile}.Read(maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("key for token fingerprints: %w", err)
	}
	key = content
	if len(content) < keySize {
		return nil, fmt.Errorf("key for token fingerprints: hash_key_file %q has %d bytes, must have %d at least: write random bytes to it",
			keyFile, len(content), keySize)
	}
	return newHasher(key), nil
}

func newHasher(key []byte) *Hasher {
	h := &Hasher{key: secret.New(key)}
	h.name = hex.EncodeToString(h.sum(keyNameLabel, nil)[:keyNameSize])
	return h
}

// Fingerprint of a token. The zero Value gives the zero Fingerprint.
func (h *Hasher) Fingerprint(token secret.Value) Fingerprint {
	if token.IsZero() {
		return Fingerprint{}
	}
	text := token.Expose() // the hash is over its bytes
	defer clear(text)
	return Fingerprint{hash: hex.EncodeToString(h.sum(tokenLabel, text)[:fingerprintSize]), key: h.name}
}

func (h *Hasher) sum(label string, text []byte) []byte {
	key := h.key.Expose() // the hash is keyed with it
	defer clear(key)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(label))
	mac.Write(text)
	return mac.Sum(nil)
}
