//go:build portcullis_long

package lifecycle_test

import (
	"testing"

	"github.com/portcullis-mesh/portcullis/test/conformance"
)

// TestConformanceShared is TestConformance for what depends on how names are made and found, and for a driver that takes no
// driver_config: in shared mode every sandbox is in one namespace.
func TestConformanceShared(t *testing.T) {
	t.Parallel()
	s := standIns(t).Raise(t, "shared", nil)
	only := []string{"create.", "get.", "list.", "delete.", "collide.", "workspace.", "watch.snapshot"}
	for _, kind := range []string{"hostile.", "field."} {
		for _, about := range []string{"id-", "name-", "namespace-", "workspace-", "config-disabled"} {
			only = append(only, kind+about)
		}
	}
	without(t, conformance.Run(t, under(t, s, "one", "two"), only...), "create.forbidden", "workspace.forbidden")
}
