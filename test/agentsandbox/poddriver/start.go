package poddriver

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// startTimeout bounds how long Start waits for the Node and the driver's caches, on a busy machine.
const startTimeout = 2 * time.Minute

// Start runs a driver and returns when it is ready. When the test ends, the driver stops, and the Pods on its Node, the
// volumes that it made and their claims are removed from the namespaces it owned, so that these can be deleted. Any
// failure fails the test. config must be an administrator's.
//
// Call Start after the namespaces were made and before anything that makes Pods, such as agentsandbox.Start: cleanups run
// in reverse order, and what still runs after the driver would make its Pods anew.
func Start(t testing.TB, config *rest.Config, cfg Config) *Driver {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1 // no limit: a stand-in must not be the slow part
	// It watches every Pod there is, and under the race detector most of what a test computed was the JSON of these.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
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
		ctx, cancel := context.WithTimeout(context.Background(), cleanLimit)
		defer cancel()
		if err := d.clean(ctx); err != nil {
			t.Error(err)
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
