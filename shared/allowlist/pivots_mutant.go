//go:build portcullis_mutants

package allowlist

import (
	"cmp"
	"crypto/ed25519"
	"time"
)

// Fault is one rule made wrong. This file is never part of a program: it takes the place of pivots.go under a build
// tag, so that tests can prove that they notice each fault.
type Fault int

// The faults.
const (
	NoFault Fault = iota
	// FaultTimer: heartbeats go out by the clock, proven or not.
	FaultTimer
	// FaultEpochIgnored: a reader orders lists by revision alone.
	FaultEpochIgnored
	// FaultAnchoredAtReceipt: a deadline counts from when the beat came.
	FaultAnchoredAtReceipt
	// FaultExpiryTrusted: a reader waits to be told that a beat is over.
	FaultExpiryTrusted
	// FaultRelistMerges: a relist adds and never removes.
	FaultRelistMerges
	// FaultSignatureIgnored: whoever can write to the bucket can grant.
	FaultSignatureIgnored
	// FaultPlainPut: writes expect nothing. ExpectSequence is then the largest uint64, which a simulated broker
	// stores without comparing.
	FaultPlainPut
	// FaultNoFence: a new leader beats without having written.
	FaultNoFence
	// FaultForkAccepted: another list of the same revision takes the place of the first.
	FaultForkAccepted
)

// Faults are all faults.
func Faults() []Fault {
	return []Fault{
		FaultTimer, FaultEpochIgnored, FaultAnchoredAtReceipt, FaultExpiryTrusted, FaultRelistMerges, FaultSignatureIgnored,
		FaultPlainPut, FaultNoFence, FaultForkAccepted,
	}
}

// String names the fault in a test's output.
func (f Fault) String() string {
	return [...]string{
		"none", "timer", "epoch ignored", "anchored at receipt", "expiry trusted", "relist merges", "signature ignored",
		"plain put", "no fence", "fork accepted",
	}[f]
}

var planted Fault

// Plant makes one rule wrong from now on, in every Reader and Writer of the process; NoFault makes all right. It must
// not be called while any of them is stepped.
func Plant(f Fault) { planted = f }

func signatureHolds(public ed25519.PublicKey, message, signature []byte) bool {
	return planted == FaultSignatureIgnored || len(signature) == ed25519.SignatureSize && ed25519.Verify(public, message, signature)
}

func (s stamp) compare(other stamp) int {
	if planted == FaultEpochIgnored {
		return cmp.Compare(s.revision, other.revision)
	}
	return cmp.Or(cmp.Compare(s.epoch, other.epoch), cmp.Compare(s.revision, other.revision))
}

func contradict(a, b Digest) bool { return planted != FaultForkAccepted && a != b }

func issueInstant(issued, leastTransit, received time.Duration) time.Duration {
	if planted == FaultAnchoredAtReceipt {
		return received
	}
	return issued + leastTransit
}

func expired(now, deadline time.Duration) bool {
	return planted != FaultExpiryTrusted && now >= deadline
}

func expectation(sequence uint64) uint64 {
	if planted == FaultPlainPut {
		return ^uint64(0)
	}
	return sequence
}

func fencingDue(found *published) bool { return planted != FaultNoFence || found == nil }

func provenWithin(proven bool, age, limit time.Duration) bool {
	return planted == FaultTimer || proven && age <= limit
}

func replaceList(before, relisted List) List {
	if planted != FaultRelistMerges {
		return relisted
	}
	merged := relisted.index()
	for _, e := range before.entries {
		if _, ok := merged[e.Name]; !ok {
			relisted.entries = append(relisted.entries[:len(relisted.entries):len(relisted.entries)], e)
		}
	}
	list, err := NewList(relisted.entries)
	if err != nil {
		return relisted
	}
	return list
}
