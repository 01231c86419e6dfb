package agentsandbox

import (
	"context"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox/api"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/crd"
)

// startTimeout bounds how long Start waits for the CRD and for the controller's caches, on a busy machine.
const startTimeout = 2 * time.Minute

// Start installs the CRD variant that serves the dialect's version alone, unless the cluster serves that version already,
// runs a controller, and returns when it is ready. When the test ends, so does the controller. Any failure fails the test.
//
// config must be an administrator's.
func Start(t testing.TB, config *rest.Config, cfg Config) *Controller {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := serve(ctx, config, cfg.Dialect.Version); err != nil {
		t.Fatal(err)
	}

	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, 0 // no limit: a stand-in must not be the slow part
	config.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatalf("make a client for the sandbox controller: %v", err)
	}
	c, err := New(cfg, client)
	if err != nil {
		t.Fatal(err)
	}
	run, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(run) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("sandbox controller: %v", err)
		}
	})
	select {
	case <-c.Ready():
	case err := <-done:
		done <- nil
		t.Fatalf("sandbox controller: %v", err)
	case <-ctx.Done():
		t.Fatalf("the sandbox controller was not ready within %v", startTimeout)
	}
	return c
}

func serve(ctx context.Context, config *rest.Config, version api.Version) error {
	have, err := crd.Installed(ctx, config)
	if err != nil || slices.Contains(have.Versions(), version) {
		return err
	}
	if version == api.V1beta1 {
		return crd.Install(ctx, config, crd.V1beta1)
	}
	return crd.Install(ctx, config, crd.V1alpha1)
}
