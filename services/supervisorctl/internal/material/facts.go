package material

import (
	"github.com/portcullis-mesh/portcullis/services/supervisorctl/internal/launch"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// Facts are what the material of one generation is made from. They are measured from the API, not wanted. Every field is
// required unless it says otherwise.
type Facts struct {
	// SandboxID is the gateway's id of the sandbox, as workspace.CheckSandboxID accepts it.
	SandboxID string
	// Namespace is the name, a DNS-1123 label, and NamespaceUID the uid of the namespace.
	Namespace, NamespaceUID string
	// SandboxUID is the uid of the Sandbox object.
	SandboxUID string
	// WorkloadPodUID and SupervisorPodUID are the uids of the admitted Pods.
	WorkloadPodUID, SupervisorPodUID string
	// FenceUID and FenceResourceVersion are those of the policy openshell-sandbox-workloads.
	FenceUID, FenceResourceVersion string
	// ClusterIP is the address of the boundary Service, IPv4 or IPv6. Its family is the one the boundary listens in.
	ClusterIP string
	// BoundaryPort is the Service's port and the boundary's.
	BoundaryPort uint16
	// WorkloadUID and WorkloadGID are 1 to 4294967294 (contract 9.4).
	WorkloadUID, WorkloadGID uint32
	// ResourceDigest names the resource that the identity was resolved for; the stock driver has what ResourceDigest returns.
	ResourceDigest string
	// ChildEnv is the environment of the workload's processes, without OPENSHELL_ variables (contract 7.5). It may be empty.
	ChildEnv map[string]string
	// HostGatewayIP is the address behind the host gateway's name; empty for none.
	HostGatewayIP string
	// Bundle is the run's launch credentials. It is read and not kept.
	Bundle *launch.Bundle
	// UpstreamProxyCA is the PEM bundle that the upstream proxy is verified by; empty for none.
	UpstreamProxyCA []byte
	// ClientCA is the PEM bundle that the gateway is verified by outside of shared mode; empty for none.
	ClientCA []byte
	// ClientCertificate and ClientKey are the supervisor's own certificate for the gateway, PEM, as older stock drivers hand
	// it on; both or neither, and only with ClientCA.
	ClientCertificate []byte
	ClientKey         secret.Value
}

// ResourceDigest is the resource digest of a sandbox (contract 7.14, 9.4).
func ResourceDigest(sandboxUID string) string { return "sandbox:" + sandboxUID }

// IdentitySource is where the numeric identity of a workload comes from (contract 7.14, 9.4): the driver's settings or the
// annotations of the namespace.
const IdentitySource = "kubernetes-config"
