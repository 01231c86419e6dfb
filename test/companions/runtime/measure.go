package runtime

import (
	"bytes"
	"os"

	"github.com/portcullis-mesh/portcullis/test/companions/bootstrap"
	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
)

// identity returns who the runtime really is, in the words of the file.
func identity(said bootstrap.Identity) bootstrap.Identity {
	said.UID, said.GID = uint32(os.Getuid()), uint32(os.Getgid())
	return said
}

// privileges measures whether a command could gain any privilege.
func privileges() boundary.Property {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return boundary.Property{Mechanism: "not measured: " + err.Error()}
	}
	has := func(line string) bool { return bytes.Contains(status, []byte("\n"+line+"\n")) }
	return boundary.Property{
		Enforced:  has("CapPrm:\t0000000000000000") && has("CapBnd:\t0000000000000000") && has("NoNewPrivs:\t1"),
		Mechanism: "no capabilities, no new privileges",
	}
}

// confirmation measures everything that confirm asks for.
func (m material) confirmation(instance string, claims map[string]string) boundary.Confirmation {
	none := boundary.Property{Mechanism: "none: stand-in"}
	return boundary.Confirmation{
		Generation: m.file.Generation, Identity: identity(m.file.WorkloadIdentity),
		FilesystemConfinement: none, EgressInterception: none, RequestAttribution: none, PrivilegeFloor: privileges(),
		AuthenticatedSupervisor: instance, SessionID: m.file.SessionID, OuterFence: m.file.OuterFence,
		RuntimeExitTerminatesWorkload: true, ResourceClaims: claims, BackendAudit: "stand-in",
	}
}
