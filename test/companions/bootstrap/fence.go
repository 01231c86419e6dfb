package bootstrap

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The claims of contract 13.4.
const (
	ClaimNamespaceUID   = "kubernetes.namespace_uid"
	ClaimSandboxUID     = "kubernetes.sandbox_resource_uid"
	ClaimWorkloadPodUID = "kubernetes.workload_pod_uid"
	ClaimSupervisorUID  = "kubernetes.supervisor_pod_uid"
	ClaimPolicyUID      = "kubernetes.egress_policy_uid"
	ClaimPolicyVersion  = "kubernetes.egress_policy_resource_version"
)

// Claims returns the names of all six claims, sorted.
func Claims() []string {
	all := []string{ClaimNamespaceUID, ClaimSandboxUID, ClaimWorkloadPodUID, ClaimSupervisorUID, ClaimPolicyUID, ClaimPolicyVersion}
	slices.Sort(all)
	return all
}

// Established returns what a fence must have established, in the order of contract 13.4.
func Established() []string {
	return []string{"default_deny_egress", "no_unmanaged_egress_path", "revocation_verified", "controller_loss_fails_closed"}
}

// Evidence returns the evidence digest of a fence (contract 13.4): hex SHA-256 over the length of
// generation as 8 bytes, generation, and the compact JSON of what was observed of the policy.
func Evidence(generation, policyUID, policyVersion string) (string, error) {
	observed, err := json.Marshal(struct {
		UID     string `json:"network_policy_uid"`
		Version string `json:"network_policy_resource_version"`
		Ingress bool   `json:"ingress_isolated"`
		Egress  bool   `json:"egress_isolated"`
		Rules   int    `json:"egress_rule_count"`
	}{policyUID, policyVersion, true, true, 0})
	if err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(generation))))
	h.Write([]byte(generation))
	h.Write(observed)
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (f Fence) problems(generation string, claims map[string]string) []string {
	var found []string
	if f.Generation != generation {
		found = append(found, "outer_fence.generation: not the generation of the file")
	}
	if !slices.Equal(f.Established, Established()) {
		found = append(found, "outer_fence.established: not the four properties in their order")
	}
	want, err := Evidence(f.Generation, claims[ClaimPolicyUID], claims[ClaimPolicyVersion])
	if err != nil || f.EvidenceDigest != want {
		found = append(found, "outer_fence.evidence_digest: not the digest of the generation and of the policy that the claims name")
	}
	return found
}

// claimProblems checks that exactly the wanted claims are there, each a word.
func claimProblems(field string, claims map[string]string, want []string) []string {
	var found []string
	for _, name := range want {
		if _, ok := claims[name]; !ok {
			found = append(found, fmt.Sprintf("%s: %s is missing", field, name))
		}
	}
	for name, value := range claims {
		if !slices.Contains(want, name) {
			found = append(found, fmt.Sprintf("%s: %q does not belong here", field, name))
		} else if !word(value) {
			found = append(found, fmt.Sprintf("%s: %s is empty or has white space", field, name))
		}
	}
	slices.Sort(found)
	return found
}

func word(s string) bool { return s != "" && !strings.ContainsFunc(s, isSpace) }
