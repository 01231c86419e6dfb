package supervisor

import (
	"reflect"

	"github.com/portcullis-mesh/portcullis/test/companions/bootstrap"
	"github.com/portcullis-mesh/portcullis/test/companions/boundary"
)

// Verify compares what the runtime measured with what the supervisor was told. The first difference
// denies.
func Verify(c boundary.Confirmation, d bootstrap.Descriptor, instance string) *boundary.Failure {
	for _, check := range []struct {
		ok    bool
		field string
	}{
		{c.Generation == d.Generation, "generation"},
		{c.SessionID == d.SessionID, "session_id"},
		{c.AuthenticatedSupervisor == instance, "authenticated_supervisor"},
		{reflect.DeepEqual(c.ResourceClaims, d.ResourceClaims), "resource_claims"},
		{reflect.DeepEqual(c.OuterFence, d.OuterFence), "outer_fence"},
		{reflect.DeepEqual(c.Identity, d.WorkloadIdentity), "identity"},
		{c.RuntimeExitTerminatesWorkload, "runtime_exit_terminates_workload"},
	} {
		if !check.ok {
			return boundary.Failed(boundary.Denied, "confirm: %s is not that of the descriptor", check.field)
		}
	}
	return nil
}
