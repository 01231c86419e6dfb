//go:build !portcullis_mutants

package allowlist

import (
	"cmp"
	"crypto/ed25519"
	"time"
)

// Each function here carries one rule on which safety turns, alone. Under the build tag portcullis_mutants another
// file takes the place of this one, in which each can be made wrong, so that the tests can prove that they would
// notice.

// signatureHolds verifies one ed25519 signature (rule R1).
func signatureHolds(public ed25519.PublicKey, message, signature []byte) bool {
	return len(signature) == ed25519.SignatureSize && ed25519.Verify(public, message, signature)
}

// compare is -1, 0 or 1 when s is before, the same as, or after other (rule R2).
func (s stamp) compare(other stamp) int {
	return cmp.Or(cmp.Compare(s.epoch, other.epoch), cmp.Compare(s.revision, other.revision))
}

// contradict reports whether two lists of the same stamp are a fork (rule R2).
func contradict(a, b Digest) bool { return a != b }

// issueInstant is when a beat was issued, on the reader's clock (rule R3).
func issueInstant(issued, leastTransit, _ time.Duration) time.Duration { return issued + leastTransit }

// expired reports that the deadline has passed (rule R3).
func expired(now, deadline time.Duration) bool { return now >= deadline }

// expectation is the last sequence that the server is told to expect on a key (rule W1).
func expectation(sequence uint64) uint64 { return sequence }

// fencingDue reports whether a take-over writes before it beats (rule W2). It always does.
func fencingDue(*published) bool { return true }

// provenWithin reports whether the source was proven young enough ago to vouch for its list (rule W4).
func provenWithin(proven bool, age, limit time.Duration) bool { return proven && age <= limit }

// replaceList is the list after a relist (rule W5).
func replaceList(_, relisted List) List { return relisted }
