package poddriver

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// startTimeout bounds how long Start waits for the Node and the driver's caches, on a busy machine.
const startTimeout = 2 * time.Minute

// Start runs a driver and returns when it is ready. When the test ends, so does the driver. Any failure fails the test.
// config must be an administrator's.
func Start(t testing.TB, config *rest.Config, cfg Config) *Driver {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1 // no limit: a stand-in must not be the slow part
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatalf("make a client for the pod driver: %v", err)
	}
	d, err := New(cfg, client)
	if err != nil {
		t.Fatal(err)
	}
	run, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(run) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("pod driver: %v", err)
		}
	})
	select {
	case <-d.Ready():
	case err := <-done:
		done <- nil
		t.Fatalf("pod driver: %v", err)
	case <-time.After(startTimeout):
		t.Fatalf("the pod driver was not ready within %v", startTimeout)
	}
	return d
}
