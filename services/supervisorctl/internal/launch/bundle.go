package launch

import (
	"math"
	"slices"

	"github.com/portcullis-mesh/portcullis/shared/secret"
)

const (
	// MaxBytes is the longest bundle in bytes, as the mesh's own requests allow it.
	MaxBytes = 262144
	// MaxToken is the longest token in bytes; longer ones fit in no header of the stock gateway.
	MaxToken = 16384
	// MaxKeys is the largest number of verification keys. A gateway has the present one and, while it changes, the next.
	MaxKeys = 16
	// MaxKeyBytes is the longest PEM text of a key in bytes. An Ed25519 key takes 113.
	MaxKeyBytes = 4096
	// MaxID is the longest gateway id and key id in bytes.
	MaxID = 253
	// MaxGeneration is the longest runtime generation in bytes (contract 2.6).
	MaxGeneration = 64
)

// Bundle is an accepted bundle. The zero Bundle, and one that was wiped, has no session and no supervisor object. It prints no token.
// It must not be wiped while it is used.
type Bundle struct {
	supervisor          secret.Value
	session, generation string
	rotation, epoch     uint64
	gatewayID           string
	keys                []Key
}

// Key is a public key of the gateway, by which the boundary verifies tokens.
type Key struct {
	// ID is not empty, without whitespace and unique in its bundle.
	ID string
	// PEM is one PEM block with an Ed25519 public key, byte for byte as the gateway sent it.
	PEM string
}

// Parse reads a bundle of 1 to MaxBytes bytes. The error is an [*Error]. The caller still owns raw and should clear it.
func Parse(raw []byte) (*Bundle, error) {
	r, err := open(raw)
	if err != nil {
		return nil, err
	}
	b := &Bundle{}
	if err := r.bundle(b); err != nil {
		b.Wipe()
		return nil, err
	}
	return b, nil
}

func (r *reader) bundle(b *Bundle) error {
	return r.object(root,
		member{"supervisor", func(path string) error {
			r.peek()
			start := r.at
			if err := r.supervisor(path, b); err != nil {
				return err
			}
			b.supervisor = secret.New(r.text[start:r.at])
			return nil
		}},
		member{"gateway_id", func(path string) (err error) {
			b.gatewayID, err = r.id(path)
			return err
		}},
		member{"verification_keys", func(path string) error {
			return r.array(path, MaxKeys, func(path string) error { return r.key(path, b) })
		}},
	)
}

func (r *reader) supervisor(path string, b *Bundle) error {
	number := func(into *uint64) func(string) error {
		return func(path string) (err error) {
			*into, err = r.whole(path, 1, math.MaxUint64)
			return err
		}
	}
	// Tokens and expiries are only for whoever gets the object: here they need to be sound.
	expiry := func(path string) error {
		_, err := r.whole(path, 0, math.MaxInt64)
		return err
	}
	return r.object(path,
		member{"session_id", func(path string) (err error) {
			b.session, err = r.uuid(path)
			return err
		}},
		member{"runtime_generation", func(path string) (err error) {
			b.generation, err = r.generation(path)
			return err
		}},
		member{"session_rotation", number(&b.rotation)},
		member{"auth_epoch", number(&b.epoch)},
		member{"gateway_token", r.token},
		member{"gateway_expires_at", expiry},
		member{"sandbox_token", r.token},
		member{"sandbox_expires_at", expiry},
	)
}

func (r *reader) key(path string, b *Bundle) error {
	var k Key
	err := r.object(path,
		member{"key_id", func(path string) (err error) {
			if k.ID, err = r.id(path); err != nil {
				return err
			}
			if slices.ContainsFunc(b.keys, func(other Key) bool { return other.ID == k.ID }) {
				return refuse(path, "is the id of two keys")
			}
			return nil
		}},
		member{"public_key_pem", func(path string) (err error) {
			k.PEM, err = r.publicKey(path)
			return err
		}},
	)
	b.keys = append(b.keys, k)
	return err
}

// Supervisor returns the member supervisor, byte for byte as it stands in the bundle: the content of auth.json, with both tokens. It shares
// its bytes with the Bundle: Wipe wipes them.
func (b *Bundle) Supervisor() secret.Value { return b.supervisor }

// SessionID returns the id of the run, a canonical lower-case UUID that is not nil.
func (b *Bundle) SessionID() string { return b.session }

// RuntimeGeneration returns the gateway's generation, 1 to MaxGeneration of a-z, 0-9 and "-". The names of Secrets may come
// from another one (contract 13.3).
func (b *Bundle) RuntimeGeneration() string { return b.generation }

// SessionRotation returns the number of the session's rotation, at least 1.
func (b *Bundle) SessionRotation() uint64 { return b.rotation }

// AuthEpoch returns the authorization epoch, at least 1; it grows with each run (contract 2.6).
func (b *Bundle) AuthEpoch() uint64 { return b.epoch }

// GatewayID returns the gateway's id in the tokens' issuer: not empty, no whitespace.
func (b *Bundle) GatewayID() string { return b.gatewayID }

// Keys returns the verification keys in the gateway's order, at least one. The slice is the caller's own.
func (b *Bundle) Keys() []Key { return slices.Clone(b.keys) }

// Wipe overwrites the supervisor object and makes b the zero Bundle.
func (b *Bundle) Wipe() {
	b.supervisor.Wipe()
	*b = Bundle{}
}
