package tokenauth_test

import (
	"context"
	"os"
	"regexp"
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
	"github.com/portcullis-mesh/portcullis/test/tokenauth"
)

// TestRightsAreNeeded: in each mode tokenauth accepts a bearer with the rights that are shipped for that mode, and uses each of them. Those to
// tell of what is wrong with its own Pod are the same in all modes, and are used in one: that takes a while.
func TestRightsAreNeeded(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct {
		name string
		site func(*testing.T, *cluster.Cluster) *tokenauth.Site
		ails bool
	}{
		{"shared", func(t *testing.T, c *cluster.Cluster) *tokenauth.Site { return tokenauth.Shared(t, c) }, false},
		{"managed", func(t *testing.T, c *cluster.Cluster) *tokenauth.Site { return tokenauth.Managed(t, c) }, true},
		{"operator", func(t *testing.T, c *cluster.Cluster) *tokenauth.Site {
			i := installation.New(t, c, natstest.Start(t).URL())
			i.Bootstrap(1)
			i.Nswatch()
			return tokenauth.Operator(t, i)
		}, false},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			s := mode.site(t, cluster.Start(t, cluster.ControlPlane))
			proxy := apiproxy.New(t, s.Cluster)
			ledger := rights.Watch(proxy)
			s.Via(proxy.Address(), proxy.Authority())
			granted := s.Rights(mode.name)
			var p *program.Process
			if mode.ails {
				s.Bounds = []string{"wait_at_start = true"}
				settings := s.Settings()
				troubled(t, s, settings).Kill()
				// What is in the same Pod after it finds the Events that it has to tell, and counts them.
				p = troubled(t, s, settings)
			} else {
				granted = slices.DeleteFunc(granted, func(o *unstructured.Unstructured) bool {
					return strings.HasPrefix(o.GetKind(), "Role") && o.GetNamespace() == s.Home()
				})
				p = s.Start()
				p.AwaitReady()
			}
			awaitAccepted(t, s.Client(p), s.Bearer(s.Namespace))
			cluster.Eventually(t, "every right is used", func(context.Context) error { return ledger.Needed(granted) })
			p.Stop()
		})
	}
}

// troubled is a tokenauth that began without its certificate, in a Pod that is always the same, told so, has it now and is ready.
func troubled(t *testing.T, s *tokenauth.Site, settings string) *program.Process {
	t.Helper()
	certificate := regexp.MustCompile(`(?m)^cert_file = "(.*)"$`).FindStringSubmatch(settings)[1]
	move := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	move(certificate, certificate+".away")
	home := s.Home()
	p := program.Start(t, "tokenauth", settings, "POD_NAME=tokenauth-0", "POD_NAMESPACE="+home, "POD_UID=uid-"+home)
	s.Watch(p.Output)
	p.AwaitMetric(1, "portcullis_pod_events_total", `result="written"`)
	move(certificate+".away", certificate)
	p.AwaitReady()
	return p
}
