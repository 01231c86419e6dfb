package material

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strconv"

	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

// boundaryConfig is boundary.json (contract 13.3).
type boundaryConfig struct {
	BoundaryID         string            `json:"boundary_id"`
	Generation         string            `json:"generation"`
	SessionID          string            `json:"session_id"`
	SessionRotation    uint64            `json:"session_rotation"`
	AuthEpoch          uint64            `json:"auth_epoch"`
	GatewayID          string            `json:"gateway_id"`
	VerificationKeys   []verificationKey `json:"verification_keys"`
	Listener           listener          `json:"listener"`
	ResourceClaims     map[string]string `json:"resource_claims"`
	ResourceClaimFiles map[string]string `json:"resource_claim_files"`
	WorkloadIdentity   identity          `json:"workload_identity"`
	OuterFence         Fence             `json:"outer_fence"`
	ChildEnv           map[string]string `json:"child_env"`
}

// verificationKey has the key as a string, other than the bundle.
type verificationKey struct {
	KeyID string `json:"key_id"`
	PEM   string `json:"public_key_pem"`
}

type listener struct {
	Kind    string      `json:"kind"`
	Address string      `json:"address"`
	TLS     serverFiles `json:"tls"`
}

type serverFiles struct {
	Chain string `json:"certificate_chain_path"`
	Key   string `json:"private_key_path"`
}

type identity struct {
	UID               uint32   `json:"uid"`
	GID               uint32   `json:"gid"`
	SupplementaryGIDs []uint32 `json:"supplementary_gids"`
	Source            string   `json:"source"`
	ResourceDigest    string   `json:"resource_digest"`
}

// descriptor is runtime-descriptor.json (contract 13.3).
type descriptor struct {
	BoundaryID       string            `json:"boundary_id"`
	Generation       string            `json:"generation"`
	SessionID        string            `json:"session_id"`
	WorkloadIdentity identity          `json:"workload_identity"`
	ResourceClaims   map[string]string `json:"resource_claims"`
	OuterFence       Fence             `json:"outer_fence"`
	Transport        transport         `json:"transport"`
	TLS              serverIdentity    `json:"tls"`
	HostGatewayIP    *string           `json:"host_gateway_ip"`
}

type transport struct {
	Kind      string   `json:"kind"`
	Authority string   `json:"authority"`
	Addresses []string `json:"addresses"`
}

type serverIdentity struct {
	ServerName  string `json:"server_name"`
	TrustAnchor string `json:"trust_anchor_pem"`
}

// stateDirectory is where the bootstrap container puts the files of the sandbox Secret for the runtime.
const stateDirectory = "/.openshell/state/bootstrap/"

func (f *Facts) boundary(fence Fence) boundaryConfig {
	keys := []verificationKey{}
	for _, k := range f.Bundle.Keys() {
		keys = append(keys, verificationKey{KeyID: k.ID, PEM: k.PEM})
	}
	env := f.ChildEnv
	if env == nil {
		env = map[string]string{} // null is no map to the reader
	}
	return boundaryConfig{
		BoundaryID:      f.SandboxID,
		Generation:      f.Bundle.RuntimeGeneration(),
		SessionID:       f.Bundle.SessionID(),
		SessionRotation: f.Bundle.SessionRotation(),
		AuthEpoch:       f.Bundle.AuthEpoch(),
		GatewayID:       f.Bundle.GatewayID(),

		VerificationKeys: keys,
		Listener: listener{
			Kind: "tls-tcp", Address: f.listen(),
			TLS: serverFiles{Chain: stateDirectory + FileCertificate, Key: stateDirectory + FileKey},
		},
		ResourceClaims:     f.Claims(),
		ResourceClaimFiles: claimFiles(),
		WorkloadIdentity:   f.identity(),
		OuterFence:         fence,
		ChildEnv:           env,
	}
}

func (f *Facts) descriptor(fence Fence, serverName, trustAnchor string) descriptor {
	d := descriptor{
		BoundaryID:       f.SandboxID,
		Generation:       f.Bundle.RuntimeGeneration(),
		SessionID:        f.Bundle.SessionID(),
		WorkloadIdentity: f.identity(),
		ResourceClaims:   f.Claims(),
		OuterFence:       fence,
		Transport: transport{
			Kind:      "tcp",
			Authority: workspace.BoundaryService(f.SandboxID) + "." + f.Namespace + ".svc:" + strconv.Itoa(int(f.BoundaryPort)),
			Addresses: []string{netip.AddrPortFrom(address(f.ClusterIP), f.BoundaryPort).String()},
		},
		TLS: serverIdentity{ServerName: serverName, TrustAnchor: trustAnchor},
	}
	if f.HostGatewayIP != "" {
		host := address(f.HostGatewayIP).String()
		d.HostGatewayIP = &host
	}
	return d
}

// listen is the address that the boundary binds: every one of the Service's family.
func (f *Facts) listen() string {
	any4or6 := netip.IPv4Unspecified()
	if address(f.ClusterIP).Is6() {
		any4or6 = netip.IPv6Unspecified()
	}
	return netip.AddrPortFrom(any4or6, f.BoundaryPort).String()
}

// address reads an address that was checked.
func address(s string) netip.Addr {
	a, _ := netip.ParseAddr(s) // the zero Addr writes itself as invalid, which every reader refuses
	return a
}

func (f *Facts) identity() identity {
	// The Pod's one supplementary group is fsGroup, which is the gid, and that one is not counted (contract 7.5).
	return identity{UID: f.WorkloadUID, GID: f.WorkloadGID, SupplementaryGIDs: []uint32{}, Source: IdentitySource, ResourceDigest: f.ResourceDigest}
}

// encode writes compact JSON. The caller clears it where it holds a secret.
func encode(document any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(document); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
