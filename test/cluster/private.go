package cluster

import (
	"context"
	"os"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/cluster/internal/binary"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/plane"
	"github.com/portcullis-mesh/portcullis/test/cluster/internal/process"
)

// Private is a control plane that belongs to one test, which may break it.
type Private struct {
	*Cluster
	plane *plane.Plane
}

// StartPrivate starts a control plane for this test alone and stops it when the test ends.
func StartPrivate(t testing.TB) *Private {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	root, err := binary.Root()
	if err != nil {
		t.Fatal(err)
	}
	cache, err := binary.NewCache(root, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	bins, err := cache.Paths(ctx, binary.Etcd, binary.APIServer, binary.ControllerManager, binary.Scheduler)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plane.Start(ctx, plane.Config{Dir: t.TempDir(), Binaries: bins})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	path, err := p.AdminKubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	return &Private{Cluster: connect(t, path, ""), plane: p}
}

// APIServer is the running API server: kill it, stop it with SIGSTOP, continue it.
func (p *Private) APIServer() *process.Process { return p.plane.APIServer() }

// Controllers is the controller manager: without it namespaces stay as bare as they were made, and those that are being
// deleted stay Terminating.
func (p *Private) Controllers() *process.Process { return p.plane.Controllers() }

// RestartAPIServer starts the API server again after it was killed, on the same address, and returns
// once it is ready.
func (p *Private) RestartAPIServer(t testing.TB) {
	t.Helper()
	if err := p.plane.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
}
