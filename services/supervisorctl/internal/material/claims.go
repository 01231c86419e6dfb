package material

// The claims, by the keys of contract 13.4.
const (
	claimNamespace    = "kubernetes.namespace_uid"
	claimSandbox      = "kubernetes.sandbox_resource_uid"
	claimWorkload     = "kubernetes.workload_pod_uid"
	claimSupervisor   = "kubernetes.supervisor_pod_uid"
	claimFence        = "kubernetes.egress_policy_uid"
	claimFenceVersion = "kubernetes.egress_policy_resource_version"
)

// podUIDFile is where the downward API shows the uid of the workload Pod to it (contract 7.5).
const podUIDFile = "/.openshell/pod-identity/uid"

// Claims returns the six claims of contract 13.4, the caller's own. They are only as good as the facts, which Make checks.
func (f *Facts) Claims() map[string]string {
	return map[string]string{
		claimNamespace:    f.NamespaceUID,
		claimSandbox:      f.SandboxUID,
		claimWorkload:     f.WorkloadPodUID,
		claimSupervisor:   f.SupervisorPodUID,
		claimFence:        f.FenceUID,
		claimFenceVersion: f.FenceResourceVersion,
	}
}

// claimFiles are the claims that the runtime also reads from a file of its own Pod; what the file holds must be what is claimed.
func claimFiles() map[string]string { return map[string]string{claimWorkload: podUIDFile} }
