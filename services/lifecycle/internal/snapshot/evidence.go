package snapshot

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
)

// identitySource and digestPrefix are those of contract 7.14.
const (
	identitySource = "kubernetes-config"
	digestPrefix   = "sandbox:"
)

// resolvedIdentity is absent when the Pod template does not say both numbers.
func (s *Sandbox) resolvedIdentity() *computev1.ResolvedWorkloadIdentity {
	if s.User == 0 || s.Group == 0 {
		return nil
	}
	return &computev1.ResolvedWorkloadIdentity{Uid: s.User, Gid: s.Group, Source: identitySource, ResourceDigest: digestPrefix + s.UID}
}

// Keys of resource claims (contract 13.4) whose values the record has.
const (
	claimSandbox    = "kubernetes.sandbox_resource_uid"
	claimWorkload   = "kubernetes.workload_pod_uid"
	claimSupervisor = "kubernetes.supervisor_pod_uid"
	claimFence      = "kubernetes.egress_policy_uid"
)

// fenceEvidence is what the record says of the fence that the present run was released behind; absent without such a run. It has no
// digest: that is made over the policy's resourceVersion, which no annotation of contract 4.4 has. Whoever wants the proof finds
// evidence without a digest, and so none.
func (s *Sandbox) fenceEvidence() *computev1.DriverFenceEvidence {
	r := &s.Record
	if r.Generation == "" || r.FenceUID == "" || r.WorkloadUID == "" || r.SupervisorUID == "" || r.Stopping() {
		return nil
	}
	return &computev1.DriverFenceEvidence{
		Generation: r.Generation,
		ResourceClaims: map[string]string{
			claimSandbox: s.UID, claimWorkload: r.WorkloadUID, claimSupervisor: r.SupervisorUID, claimFence: r.FenceUID,
		},
	}
}

func instant(t time.Time) metav1.Time { return metav1.NewTime(t) }
