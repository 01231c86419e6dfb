package material

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Fence is the member outer_fence of both files (contract 13.4).
type Fence struct {
	// Generation that the fence was observed for: the bundle's runtime generation.
	Generation string `json:"generation"`
	// Established are the four guarantees of the contract in its order. A policy that is stored and selects the Pod in both
	// directions, without an egress rule, gives all four.
	Established []string `json:"established"`
	// EvidenceDigest is 64 lower-case hexadecimal digits.
	EvidenceDigest string `json:"evidence_digest"`
}

// evidence is what is known of the policy. The order of the fields is a part of the digest.
type evidence struct {
	UID             string `json:"network_policy_uid"`
	ResourceVersion string `json:"network_policy_resource_version"`
	IngressIsolated bool   `json:"ingress_isolated"`
	EgressIsolated  bool   `json:"egress_isolated"`
	EgressRules     int    `json:"egress_rule_count"`
}

// FenceOf returns the outer fence for a generation and the uid and resourceVersion of its workload policy. All three must be
// known: it does not judge them.
func FenceOf(generation, policyUID, policyResourceVersion string) (Fence, error) {
	native, err := encode(evidence{UID: policyUID, ResourceVersion: policyResourceVersion, IngressIsolated: true, EgressIsolated: true})
	if err != nil {
		return Fence{}, err
	}
	h := sha256.New()
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(generation)))
	h.Write(length[:])
	h.Write([]byte(generation))
	h.Write(native)
	return Fence{
		Generation:     generation,
		Established:    []string{"default_deny_egress", "no_unmanaged_egress_path", "revocation_verified", "controller_loss_fails_closed"},
		EvidenceDigest: hex.EncodeToString(h.Sum(nil)),
	}, nil
}
