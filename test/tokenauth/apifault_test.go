package tokenauth_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/test/apiproxy"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/program"
	"github.com/portcullis-mesh/portcullis/test/tokenauth"
)

// reads are what one decision asks the API server in managed mode, and the reason when it cannot be found out.
var reads = []struct {
	resource string
	failed   verdict.Reason
}{
	{"tokenreviews", verdict.ReviewFailed},
	{"namespaces", verdict.NamespaceLookupFailed},
	{"pods", verdict.PodLookupFailed},
	{"sandboxes", verdict.SandboxLookupFailed},
}

// throttled is what the API server says when its priority levels are full.
var throttled = apiproxy.Reply(http.StatusTooManyRequests, "text/plain", "Too many requests, please try again later.\n", "Retry-After", "1")

var faults = []struct {
	name string
	does apiproxy.Fault
}{
	{"is too slow", apiproxy.Hang},
	{"throttles", throttled},
	{"has an internal error", apiproxy.Reply(http.StatusInternalServerError, "application/json",
		`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"etcdserver: request timed out","reason":"InternalError","code":500}`)},
	{"is shutting down", apiproxy.Reply(http.StatusServiceUnavailable, "application/json",
		`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"apiserver is shutting down","reason":"ServiceUnavailable","code":503}`)},
	{"is away behind a balancer", apiproxy.Reply(http.StatusServiceUnavailable, "text/html", "<html><body>No server is available</body></html>")},
	{"is not known to a balancer", apiproxy.Reply(http.StatusNotFound, "text/plain", "404 page not found\n")},
	{"answers in another language", apiproxy.Reply(http.StatusOK, "application/json", `{"kind":"List","apiVersion":"v1","items":[]}`)},
	{"cuts the connection", apiproxy.Cut},
	{"cuts the answer short", apiproxy.CutShort},
}

// behindProxy starts a tokenauth in managed mode that reaches the API server through a proxy. A read has two seconds, so that what
// hangs ends soon, and a connection that says nothing is given up as soon.
func behindProxy(t *testing.T) (*apiproxy.Proxy, *tokenauth.Site, *tokenauth.Client) {
	t.Helper()
	s := tokenauth.Managed(t, cluster.Start(t, cluster.ControlPlane))
	proxy := apiproxy.New(t, s.Cluster)
	s.Via(proxy.Address(), proxy.Authority())
	s.Bounds = []string{`lookup_timeout = "2s"`}
	s.Reach = []string{`ping_interval = "1s"`, `ping_timeout = "1s"`}
	p := s.Start()
	p.AwaitReady()
	return proxy, s, s.Client(p)
}

// One read of a decision fails in each way that an API server fails: the answer is that it could not be found out, with the reason
// of that read, and it comes before the caller's deadline, after which there would be none. The next call is as good as ever.
func TestAPIServerFails(t *testing.T) {
	t.Parallel()
	proxy, s, c := behindProxy(t)
	b := s.Bearer(s.Namespace)
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			for _, read := range reads {
				awaitAccepted(t, c, b)
				if spec, _ := read.failed.Spec(); spec.Outcome != verdict.Unknown || !spec.Retryable {
					t.Fatalf("%s is no reason of a read that failed: %+v", read.failed, spec)
				}
				proxy.Break(read.resource, fault.does)
				if err := refusal(t.Context(), c, b.Token, read.failed); err != nil {
					t.Errorf("%s: %v", read.resource, err)
				}
				proxy.Mend()
			}
		})
	}
	awaitAccepted(t, c, b)

	proxy.Break("pods", apiproxy.Cut)
	output, code := explain(t, s, program.Settings(t, s.Settings()), b.Token)
	if code != 3 || !strings.Contains(output, string(verdict.PodLookupFailed)) {
		t.Errorf("explain of what cannot be found out exits with %d:\n%s", code, output)
	}
}

// A throttled read is made again when the API server says so, and nobody notices.
func TestAPIServerThrottlesOnce(t *testing.T) {
	t.Parallel()
	proxy, s, c := behindProxy(t)
	b := s.Bearer(s.Namespace)
	awaitAccepted(t, c, b)
	for _, read := range reads {
		// A machine that is busy may need longer than the read has.
		cluster.Eventually(t, "a call whose read of "+read.resource+" was throttled once is granted", func(ctx context.Context) error {
			var met atomic.Bool
			proxy.Break(read.resource, apiproxy.Once(func(w http.ResponseWriter, r *http.Request, mended <-chan struct{}) bool {
				met.Store(true)
				return throttled(w, r, mended)
			}))
			if _, err := c.Authenticate(ctx, b.Token); err != nil {
				return err
			}
			if !met.Load() {
				return errors.New("no read was throttled")
			}
			return nil
		})
	}
}

// Connections end, or carry nothing any more while they stay open.
func TestLinkToAPIServerFails(t *testing.T) {
	t.Parallel()
	proxy, s, c := behindProxy(t)
	b := s.Bearer(s.Namespace)
	for range 3 {
		awaitAccepted(t, c, b)
		proxy.Link.Cut()
	}
	awaitAccepted(t, c, b)
	proxy.Link.Blackhole()
	demandRefused(t, c, b.Token, verdict.ReviewFailed)
	demandRefused(t, c, s.Bearer(s.Namespace).Token, verdict.ReviewFailed)
	proxy.Link.Pass()
	awaitAccepted(t, c, b)
}
