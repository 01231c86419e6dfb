package bootstrap

import (
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// Identity is who the workload runs as (contract 13.3).
type Identity struct {
	UID               uint32   `json:"uid"`
	GID               uint32   `json:"gid"`
	SupplementaryGIDs []uint32 `json:"supplementary_gids"`
	Source            string   `json:"source"`
	ResourceDigest    string   `json:"resource_digest"`
}

// Fence is the evidence that the workload is fenced (contract 13.4).
type Fence struct {
	Generation     string   `json:"generation"`
	Established    []string `json:"established"`
	EvidenceDigest string   `json:"evidence_digest"`
}

// VerificationKey is a public key of the gateway.
type VerificationKey struct {
	KeyID        string `json:"key_id"`
	PublicKeyPEM string `json:"public_key_pem"` // PKIX, Ed25519
}

// Listener says where the runtime listens and with which certificate.
type Listener struct {
	Kind    string      `json:"kind"`    // tls-tcp
	Address string      `json:"address"` // ip:port
	TLS     ListenerTLS `json:"tls"`
}

// ListenerTLS names the leaf's files.
type ListenerTLS struct {
	CertificateChainPath string `json:"certificate_chain_path"`
	PrivateKeyPath       string `json:"private_key_path"`
}

// Boundary is boundary.json, what the runtime knows.
type Boundary struct {
	BoundaryID         string            `json:"boundary_id"` // the sandbox id
	Generation         string            `json:"generation"`
	SessionID          string            `json:"session_id"`
	SessionRotation    uint64            `json:"session_rotation"`
	AuthEpoch          uint64            `json:"auth_epoch"`
	GatewayID          string            `json:"gateway_id"`
	VerificationKeys   []VerificationKey `json:"verification_keys"`
	Listener           Listener          `json:"listener"`
	ResourceClaims     map[string]string `json:"resource_claims"`      // all six
	ResourceClaimFiles map[string]string `json:"resource_claim_files"` // the workload Pod's uid is in the downward API's file, too, and must be the same
	WorkloadIdentity   Identity          `json:"workload_identity"`
	OuterFence         Fence             `json:"outer_fence"`
	ChildEnv           map[string]string `json:"child_env"` // the whole environment of the command
}

// Transport says where the supervisor finds the runtime.
type Transport struct {
	Kind      string   `json:"kind"`      // tcp
	Authority string   `json:"authority"` // host:port, for the request only; never resolved
	Addresses []string `json:"addresses"` // ip:port, pinned
}

// TransportTLS says how the supervisor knows the runtime.
type TransportTLS struct {
	ServerName     string `json:"server_name"`
	TrustAnchorPEM string `json:"trust_anchor_pem"`
}

// Descriptor is runtime-descriptor.json, what the supervisor knows of the runtime.
type Descriptor struct {
	BoundaryID       string            `json:"boundary_id"`
	Generation       string            `json:"generation"`
	SessionID        string            `json:"session_id"`
	WorkloadIdentity Identity          `json:"workload_identity"`
	ResourceClaims   map[string]string `json:"resource_claims"` // all six
	OuterFence       Fence             `json:"outer_fence"`
	Transport        Transport         `json:"transport"`
	TLS              TransportTLS      `json:"tls"`
	HostGatewayIP    *string           `json:"host_gateway_ip"`
}

// Auth is auth.json, the supervisor's credentials (contract 13.2).
type Auth struct {
	SessionID         string       `json:"session_id"`
	RuntimeGeneration string       `json:"runtime_generation"`
	SessionRotation   uint64       `json:"session_rotation"`
	AuthEpoch         uint64       `json:"auth_epoch"`
	GatewayToken      secret.Value `json:"gateway_token"`
	GatewayExpiresAt  int64        `json:"gateway_expires_at"` // Unix seconds; 0 for never
	SandboxToken      secret.Value `json:"sandbox_token"`
	SandboxExpiresAt  int64        `json:"sandbox_expires_at"` // Unix seconds; 0 for never
}
