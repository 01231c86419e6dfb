package lifecycle_test

import (
	"testing"

	"github.com/portcullis-mesh/portcullis/test/lifecycle"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// TestModes: what one mesh of each mode can show, its tests side by side where they do not disturb each other.
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
				"life": onSite(life), "rights": onSite(rights),
				"roll-back": func(t *testing.T, g *gated) { rollBack(t, g, lifecycle.Refused, lifecycle.Lost, lifecycle.Done) },
			},
			alone: map[string]func(*testing.T, *gated){"watch gap": watchGap},
		},
		"managed": {together: map[string]func(*testing.T, *gated){"life": onSite(life), "rights": onSite(rights)}},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			g := raiseGated(t, with, mode, sshIngress, withConfig, furnished)
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
		})
	}
}

// furnished has the daemons write only where a platform team lets them, as an operator may choose.
func furnished(o *mesh.Options) { o.PerWorkspace = o.Mode == "operator" }

func onSite(test func(*testing.T, *lifecycle.Site)) func(*testing.T, *gated) {
	return func(t *testing.T, g *gated) { test(t, g.Site) }
}
