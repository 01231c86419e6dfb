package daemons_test

import (
	"testing"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/crd"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// withSandboxes has the API server serve Sandboxes.
func withSandboxes(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	have, err := crd.Installed(t.Context(), c.RESTConfig())
	if err == nil && len(have.Versions()) == 0 {
		err = crd.Install(t.Context(), c.RESTConfig(), crd.V1beta1)
	}
	if err != nil {
		t.Fatal(err)
	}
}
