package material

import "github.com/portcullis-mesh/portcullis/shared/fenceevidence"

// podUIDFile is where the downward API shows the uid of the workload Pod to it (contract 7.5).
const podUIDFile = "/.openshell/pod-identity/uid"

// Claims returns the six claims of contract 13.4, the caller's own. They are only as good as the facts, which Make checks.
func (f *Facts) Claims() map[string]string {
	claims := make(map[string]string, 6)
	for key, value := range f.claims() {
		claims[string(key)] = value
	}
	return claims
}

// Evidence is the fence and the claims of the files of Make, for the record of the run.
func (f *Facts) Evidence(fence Fence) fenceevidence.Evidence {
	return fenceevidence.Evidence{Generation: fence.Generation, Digest: fence.EvidenceDigest, Claims: f.claims()}
}

func (f *Facts) claims() map[fenceevidence.Claim]string {
	return map[fenceevidence.Claim]string{
		fenceevidence.NamespaceUID:  f.NamespaceUID,
		fenceevidence.SandboxUID:    f.SandboxUID,
		fenceevidence.WorkloadUID:   f.WorkloadPodUID,
		fenceevidence.SupervisorUID: f.SupervisorPodUID,
		fenceevidence.PolicyUID:     f.FenceUID,
		fenceevidence.PolicyVersion: f.FenceResourceVersion,
	}
}

// claimFiles are the claims that the runtime also reads from a file of its own Pod; what the file holds must be what is claimed.
func claimFiles() map[string]string {
	return map[string]string{string(fenceevidence.WorkloadUID): podUIDFile}
}
