package snapshot

import (
	"errors"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

func TestPlaced(t *testing.T) {
	cases := map[string]struct {
		mode              driverconf.Mode
		namespace         string
		label, annotation string
		placed            bool
	}{
		"operator":                              {driverconf.ModeOperator, "team", "team", "team", true},
		"operator, a copy elsewhere":            {driverconf.ModeOperator, "restored", "team", "team", false},
		"operator, its label was edited":        {driverconf.ModeOperator, "team", "elsewhere", "team", true},
		"operator, its annotation was edited":   {driverconf.ModeOperator, "team", "team", "elsewhere", true},
		"operator, both were":                   {driverconf.ModeOperator, "team", "elsewhere", "other", false},
		"operator, by its annotation alone":     {driverconf.ModeOperator, "team", "", "team", true},
		"operator, it names none":               {driverconf.ModeOperator, "team", "", "", false},
		"operator, a name that none can have":   {driverconf.ModeOperator, "team", "Team", "", false},
		"shared":                                {driverconf.ModeShared, "openshell", "team", "team", true},
		"shared, another namespace":             {driverconf.ModeShared, "team", "team", "team", false},
		"shared, it names none":                 {driverconf.ModeShared, "openshell", "", "", true},
		"managed":                               {driverconf.ModeManaged, "openshell-blue-team", "team", "team", true},
		"managed, another workspace's":          {driverconf.ModeManaged, "openshell-blue-other", "team", "team", false},
		"managed, a namespace of nobody's":      {driverconf.ModeManaged, "team", "team", "team", false},
		"managed, it names none":                {driverconf.ModeManaged, "openshell-blue-team", "", "", true},
		"managed, it names none, out of reach":  {driverconf.ModeManaged, "team", "", "", false},
		"no mode: the zero scheme places none":  {"", "team", "team", "team", false},
		"no mode, and it names none: not ours":  {"", "team", "", "", false},
		"operator, the namespace has no name":   {driverconf.ModeOperator, "", "", "", false},
		"shared, the namespace has no name":     {driverconf.ModeShared, "", "team", "team", false},
		"managed, with the id of another":       {driverconf.ModeManaged, "openshell-red-team", "team", "team", false},
		"managed, the namespace of the prefix ": {driverconf.ModeManaged, "openshell-blue-", "", "", false},
	}
	for name, c := range cases {
		scheme := workspace.Scheme{Mode: c.mode, GatewayID: "blue", Namespace: "openshell"}
		err := Placed(c.namespace,
			map[string]string{workspace.LabelSandboxWorkspace: c.label}, map[string]string{workspace.AnnotationSandboxWorkspace: c.annotation}, scheme)
		if (err == nil) != c.placed || err != nil && !errors.Is(err, ErrMisplaced) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
