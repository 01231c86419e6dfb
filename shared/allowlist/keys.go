package allowlist

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// keyIDLength is the length of a key id: the first 8 bytes of the SHA-256 of the public key, in hex.
const keyIDLength = 16

// KeyID names a signing key. It follows from the public key, so a file in which the two do not belong together is
// refused.
type KeyID string

func keyIDOf(public ed25519.PublicKey) KeyID {
	sum := sha256.Sum256(public)
	return KeyID(hex.EncodeToString(sum[:keyIDLength/2]))
}

func (id KeyID) valid() bool {
	return len(id) == keyIDLength && !strings.ContainsFunc(string(id), func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'f')
	})
}

// PublicKey is one ed25519 key that records may be signed with. The zero value verifies nothing.
type PublicKey struct {
	id  KeyID
	key [ed25519.PublicKeySize]byte
}

// NewPublicKey copies key. The error is a wrong length.
func NewPublicKey(key ed25519.PublicKey) (PublicKey, error) {
	if len(key) != ed25519.PublicKeySize {
		return PublicKey{}, fmt.Errorf("an ed25519 public key has %d bytes, not %d", ed25519.PublicKeySize, len(key))
	}
	p := PublicKey{id: keyIDOf(key)}
	copy(p.key[:], key)
	return p, nil
}

// ID is the key's name in records.
func (p PublicKey) ID() KeyID { return p.id }

// Signer signs records with one ed25519 key. It never prints the key. The zero Signer signs nothing: New functions
// that take a Signer refuse it.
type Signer struct {
	public PublicKey
	// The private key in full, so that signing derives nothing.
	private secret.Value
}

// GenerateSigner makes a new key from random, which must be a cryptographic source such as crypto/rand.Reader.
func GenerateSigner(random io.Reader) (*Signer, error) {
	seed := make([]byte, ed25519.SeedSize)
	defer clear(seed)
	if _, err := io.ReadFull(random, seed); err != nil {
		return nil, fmt.Errorf("read %d random bytes for a signing key: %w", len(seed), err)
	}
	return newSigner(seed)
}

// newSigner copies seed.
func newSigner(seed []byte) (*Signer, error) {
	private := ed25519.NewKeyFromSeed(seed)
	defer clear(private)
	public, err := NewPublicKey(ed25519.PublicKey(private[ed25519.SeedSize:]))
	if err != nil {
		return nil, err
	}
	return &Signer{public: public, private: secret.New(private)}, nil
}

// Public is the key that verifies what s signs.
func (s *Signer) Public() PublicKey { return s.public }

// String names the key and shows nothing of it.
func (s *Signer) String() string { return "ed25519 signing key " + string(s.public.id) }

// Wipe destroys the private key; s signs nothing afterwards.
func (s *Signer) Wipe() { s.private.Wipe() }

var errNoKey = errors.New("the signer holds no key")

func (s *Signer) sign(message []byte) ([]byte, error) {
	if s == nil || s.private.IsZero() {
		return nil, errNoKey
	}
	private := s.private.Expose() // ed25519 takes plain bytes
	defer clear(private)
	return ed25519.Sign(private, message), nil
}

// KeySet is the keys that records may be signed with: one, or several while keys are rotated. It cannot be changed
// and may be shared. The zero KeySet verifies nothing.
type KeySet struct {
	keys map[KeyID]PublicKey
}

// NewKeySet refuses an empty set and a key that is given twice or is zero.
func NewKeySet(keys ...PublicKey) (KeySet, error) {
	set := KeySet{keys: make(map[KeyID]PublicKey, len(keys))}
	for _, k := range keys {
		if k.id == "" {
			return KeySet{}, errors.New("a public key is empty")
		}
		if _, twice := set.keys[k.id]; twice {
			return KeySet{}, fmt.Errorf("public key %s is given twice", k.id)
		}
		set.keys[k.id] = k
	}
	if len(set.keys) == 0 {
		return KeySet{}, errors.New("no public key: without one no record can be verified")
	}
	return set, nil
}

// IDs are the ids of the keys, in order.
func (k KeySet) IDs() []KeyID {
	var ids []KeyID
	for id := range k.keys {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Has reports whether the set holds key.
func (k KeySet) Has(key PublicKey) bool {
	found, ok := k.keys[key.id]
	return ok && found == key
}

// verify is one of the two gates of rule R1; the other is the strict payload.
func (k KeySet) verify(id KeyID, message, signature []byte) (PublicKey, error) {
	key, ok := k.keys[id]
	if !ok {
		return PublicKey{}, reject(UnknownKey, "it is signed with key %s, which is none of the configured keys", id)
	}
	if !signatureHolds(key.key[:], message, signature) {
		return PublicKey{}, reject(BadSignature, "its signature does not verify under key %s", id)
	}
	return key, nil
}
