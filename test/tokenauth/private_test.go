package tokenauth_test

import (
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/tokenauth"
)

// What cannot be done to a control plane that others use: the garbage collector and the API server go.
func TestControlPlaneIsBroken(t *testing.T) {
	t.Parallel()
	private := cluster.StartPrivate(t)
	s := tokenauth.Shared(t, private.Cluster)
	p := s.Start()
	p.AwaitReady()
	c := s.Client(p)

	// With a garbage collector the Pods of a deleted Sandbox would soon be gone, too.
	private.Controllers().Kill()
	replaced, deleted, good := s.Bearer(s.Namespace), s.Bearer(s.Namespace), s.Bearer(s.Namespace)
	for _, b := range []*tokenauth.Bearer{replaced, deleted, good} {
		awaitAccepted(t, c, b)
	}
	deleted.DeleteSandbox()
	demandRefused(t, c, deleted.Token, verdict.SandboxNotFound)
	replaced.DeleteSandbox()
	replaced.RecreateSandbox()
	demandRefused(t, c, replaced.Token, verdict.SandboxReplaced)

	// A bearer of another cluster, with the same names and from an issuer of the same name.
	other := tokenauth.Shared(t, cluster.Start(t, cluster.ControlPlane))
	demandRefused(t, c, other.Bearer(other.Namespace).Token, verdict.CredentialNotAccepted)

	private.APIServer().Kill()
	demandRefused(t, c, good.Token, verdict.ReviewFailed)
	demandRefused(t, c, replaced.Token, verdict.ReviewFailed)
	p.AwaitNotReady("kubernetes")
	private.RestartAPIServer(t)
	awaitAccepted(t, c, good)
	awaitRefused(t, c, replaced.Token, verdict.SandboxReplaced)
	p.AwaitReady()
	p.Stop()
}
