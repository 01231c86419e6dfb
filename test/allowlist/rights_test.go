package allowlist_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
	"github.com/portcullis-mesh/portcullis/test/apiproxy"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/installation"
	"github.com/portcullis-mesh/portcullis/test/program"
	"github.com/portcullis-mesh/portcullis/test/rights"
)

// TestRightsAreNeeded: with a source of either kind nswatch does its work, and tells of what is wrong, with the rights that it is shipped
// with, and uses each of them. With a file it has no right to namespaces.
func TestRightsAreNeeded(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"label", "file"} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			server := natstest.Start(t)
			i := installation.New(t, cluster.Start(t, cluster.ControlPlane), server.URL())
			i.Bounds = short
			granted, allowed := i.Rights(), i.Labelled()
			if source == "file" {
				i.File = i.PublicKeysFile() + ".namespaces"
				put(t, i.File, `["`+allowed+`"]`)
				i.Revoke()
				granted = slices.DeleteFunc(granted, func(o *unstructured.Unstructured) bool { return strings.HasPrefix(o.GetKind(), "Cluster") })
			}
			proxy := apiproxy.New(t, i.Cluster)
			ledger := rights.Watch(proxy)
			i.Authority = proxy.Authority()
			pod := []string{"POD_NAME=nswatch-0", "POD_NAMESPACE=" + i.Namespace, "POD_UID=uid-" + i.Namespace}
			p := program.Start(t, "nswatch", i.Settings(strings.TrimPrefix(proxy.Address(), "https://")), pod...)
			// Without the bucket it is not ready, and tells why; it tells, too, that this is over.
			p.AwaitMetric(1, "portcullis_pod_events_total", `result="written"`)
			i.Bootstrap(1)
			i.Reader().AwaitAllowed(allowed)
			p.AwaitMetric(2, "portcullis_pod_events_total", `result="written"`)
			// That a second trouble is over is said at the Event that said it of the first.
			server.Stop()
			p.AwaitMetric(3, "portcullis_pod_events_total", `result="written"`)
			server.Start()
			cluster.Eventually(t, "every right is used", func(context.Context) error { return ledger.Needed(granted) })
		})
	}
}
