package lifecycle_test

import (
	"slices"
	"testing"

	computev1 "github.com/portcullis-mesh/portcullis/proto/openshell/compute/v1"
	"github.com/portcullis-mesh/portcullis/shared/udsock"
	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// TestModes: what one mesh of each mode can show, its tests side by side where they do not disturb each other. All daemons write down all that
// they can, and none of it is anybody's secret.
func TestModes(t *testing.T) {
	with := standIns(t)
	for mode, tests := range map[string]struct {
		together, alone map[string]func(*testing.T, *gated)
	}{
		"operator": {together: map[string]func(*testing.T, *gated){
			"life": onSite(life), "rights": onSite(rights), "pod failures": onSite(podFailures),
		}},
		"shared": {
			together: map[string]func(*testing.T, *gated){
				"life": onSite(life), "rights": onSite(rights), "life through a relay": onSite(relayedLife), "attachments": attachments,
				"roll-back": func(t *testing.T, g *gated) { rollBack(t, g, lifecycle.Refused, lifecycle.Lost, lifecycle.Done) },
			},
			alone: map[string]func(*testing.T, *gated){"watch gap": watchGap},
		},
		"managed": {together: map[string]func(*testing.T, *gated){
			"life": onSite(life), "rights": onSite(rights), "pull Secrets": onSite(pullSecrets),
		}},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			g := raiseGated(t, with, mode, traced, sshIngress, withConfig, furnished, relayed, withPullSecret)
			switch mode {
			case "shared":
				must(t, g.Mesh.Run(g.Context(), mesh.Relay))
			case "managed":
				givePullSecret(t, g.Site)
			}
			t.Run("together", func(t *testing.T) {
				for name, test := range tests.together {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						test(t, g.in(t))
					})
				}
			})
			for name, test := range tests.alone {
				t.Run(name, func(t *testing.T) { test(t, g.in(t)) })
			}
			demandTraced(t, g)
		})
	}
}

// traced has the daemons write down everything.
func traced(o *mesh.Options) { o.LogLevel = "trace" }

// demandTraced: where secrets are looked for there is what could have them in it.
func demandTraced(t *testing.T, g *gated) {
	t.Helper()
	for daemon, with := range map[string]string{mesh.Lifecycle: "sandbox", mesh.Supervisorctl: "sandbox", mesh.Relay: ""} {
		p := g.Mesh.Process(daemon)
		if p == nil { // there is a relay in one mode
			continue
		}
		if !slices.ContainsFunc(p.Said("gRPC call"), func(line map[string]any) bool {
			request, _ := line["request"].(map[string]any)
			fields, _ := request["fields"].(map[string]any)
			return fields[with] != nil || with == ""
		}) {
			t.Errorf("the log of %s has no call with a request that has %q", daemon, with)
		}
	}
}

// relayed has lifecycle serve relays.
func relayed(o *mesh.Options) { o.Relayed = true }

func relayedLife(t *testing.T, s *lifecycle.Site) {
	s.Driver = dial(t, s.Mesh.SocketOf(mesh.Relay))
	lifeIn(t, s, "relayed")
}

func dial(t *testing.T, path string) computev1.ComputeDriverClient {
	t.Helper()
	conn, err := udsock.NewClient(path)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return computev1.NewComputeDriverClient(conn)
}

// furnished has the daemons write only where a platform team lets them, as an operator may choose.
func furnished(o *mesh.Options) { o.PerWorkspace = o.Mode == "operator" }

func onSite(test func(*testing.T, *lifecycle.Site)) func(*testing.T, *gated) {
	return func(t *testing.T, g *gated) { test(t, g.Site) }
}
