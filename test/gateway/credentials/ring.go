package credentials

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// maxKeys is how many keys a ring keeps: the present one and those whose tokens may still be about.
const maxKeys = 4

// Ring is the gateway's signing keys, newest first. The zero Ring signs nothing.
type Ring struct{ keys []key }

type key struct {
	id      string
	private secret.Value // the seed of an Ed25519 key
	public  ed25519.PublicKey
}

// Rotated returns a ring with a new key in front, and without the oldest when there are too many.
func (r Ring) Rotated() (Ring, error) {
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed) // never fails
	fresh, err := newKey(seed)
	if err != nil {
		return Ring{}, err
	}
	kept := append([]key{fresh}, r.keys...)
	return Ring{keys: kept[:min(len(kept), maxKeys)]}, nil
}

// newKey takes the seed over and clears it.
func newKey(seed []byte) (key, error) {
	defer clear(seed)
	if len(seed) != ed25519.SeedSize {
		return key{}, errors.New("a signing key has the wrong size")
	}
	private := ed25519.NewKeyFromSeed(seed)
	defer clear(private)
	public := slices.Clone(private.Public().(ed25519.PublicKey))
	// The id says which key it is and nothing else; eight bytes of the key do.
	return key{id: fmt.Sprintf("key-%x", []byte(public[:8])), private: secret.New(seed), public: public}, nil
}

// Len returns the number of keys.
func (r Ring) Len() int { return len(r.keys) }

// Public returns the keys that verify, by id.
func (r Ring) Public() map[string]ed25519.PublicKey {
	all := map[string]ed25519.PublicKey{}
	for _, k := range r.keys {
		all[k.id] = k.public
	}
	return all
}

// Encode returns the ring for Decode. The bytes are as secret as the keys.
func (r Ring) Encode() (secret.Value, error) {
	seeds := make([][]byte, 0, len(r.keys))
	for _, k := range r.keys {
		seeds = append(seeds, k.private.Expose()) // into the file that keeps them
	}
	raw, err := json.Marshal(seeds)
	for _, seed := range seeds {
		clear(seed)
	}
	defer clear(raw)
	return secret.New(raw), err
}

// Decode reads what Encode made; nothing is the zero Ring.
func Decode(b []byte) (Ring, error) {
	if len(b) == 0 {
		return Ring{}, nil
	}
	var seeds [][]byte
	if err := json.Unmarshal(b, &seeds); err != nil || len(seeds) > maxKeys {
		return Ring{}, errors.New("the signing keys are damaged: not a list of keys")
	}
	var r Ring
	for _, seed := range seeds {
		k, err := newKey(seed)
		if err != nil {
			return Ring{}, fmt.Errorf("the signing keys are damaged: %w", err)
		}
		r.keys = append(r.keys, k)
	}
	return r, nil
}

// pem returns the public key as the bundle carries it.
func (k key) pem() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(k.public)
	if err != nil {
		return nil, fmt.Errorf("encode the public key %s: %w", k.id, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}
