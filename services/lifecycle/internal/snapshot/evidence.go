package snapshot

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/fenceevidence"
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

// fenceEvidence is what the present run was released behind, as supervisorctl recorded it (contract 13.4); absent without such a run, and
// where the record is of other Pods, of another fence or of another Sandbox than the run's.
func (s *Sandbox) fenceEvidence() *computev1.DriverFenceEvidence {
	r := &s.Record
	if r.Generation == "" || r.FenceEvidence == "" || r.Stopping() {
		return nil
	}
	e, err := fenceevidence.Decode(r.FenceEvidence)
	if err != nil {
		return nil // what cannot be read proves nothing
	}
	for claim, own := range map[fenceevidence.Claim]string{
		fenceevidence.SandboxUID: s.UID, fenceevidence.WorkloadUID: r.WorkloadUID, fenceevidence.SupervisorUID: r.SupervisorUID, fenceevidence.PolicyUID: r.FenceUID,
	} {
		if e.Claims[claim] != own {
			return nil
		}
	}
	claims := make(map[string]string, len(e.Claims))
	for claim, value := range e.Claims {
		claims[string(claim)] = value
	}
	return &computev1.DriverFenceEvidence{Generation: e.Generation, EvidenceDigest: e.Digest, ResourceClaims: claims}
}

func instant(t time.Time) metav1.Time { return metav1.NewTime(t) }
