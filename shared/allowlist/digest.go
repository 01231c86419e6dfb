package allowlist

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
)

const digestPrefix = "sha256:"

// Digest identifies a snapshot: the SHA-256 of its canonical payload, whether that was stored plain or compressed.
// The zero Digest names no snapshot.
type Digest [sha256.Size]byte

func digestOf(payload []byte) Digest { return sha256.Sum256(payload) }

// IsZero reports that d names no snapshot.
func (d Digest) IsZero() bool { return d == Digest{} }

// String is "sha256:" and 64 lower-case hex digits, or "" for the zero Digest. It is the form in records.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return digestPrefix + hex.EncodeToString(d[:])
}

var errDigest = errors.New(`is not a digest: want "sha256:" and 64 lower-case hex digits`)

// ParseDigest is the inverse of String; every other spelling is an error.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if s == "" {
		return d, nil
	}
	digits, ok := strings.CutPrefix(s, digestPrefix)
	if !ok || len(digits) != 2*len(d) || strings.ToLower(digits) != digits {
		return Digest{}, errDigest
	}
	if _, err := hex.Decode(d[:], []byte(digits)); err != nil || d.IsZero() {
		return Digest{}, errDigest
	}
	return d, nil
}
