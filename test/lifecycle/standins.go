package lifecycle

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/agentsandbox"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/poddriver"
	"github.com/portcullis-mesh/portcullis/test/agentsandbox/reconcile"
	"github.com/portcullis-mesh/portcullis/test/cluster"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// StandIns are the controller and the Pods of any number of sites on one API server. They read everything that changes there, so sites
// that run at once share them.
type StandIns struct {
	// Faults interferes with the controller, Pods drives the Pods.
	Faults *agentsandbox.Faults
	Pods   *poddriver.Driver

	cluster *cluster.Cluster
	run     string // begins the names of the sites
}

// StartStandIns starts them. They end with the test, and after the sites that it and its subtests have raised.
func StartStandIns(t testing.TB, c *cluster.Cluster, dialect reconcile.Dialect) *StandIns {
	t.Helper()
	s := StartPods(t, c)
	s.Control(t, dialect)
	return s
}

// StartPods is StartStandIns without a controller, for a cluster whose Agent Sandbox definitions come and change.
func StartPods(t testing.TB, c *cluster.Cluster) *StandIns {
	t.Helper()
	const bytes = 3
	s := &StandIns{Faults: new(agentsandbox.Faults), cluster: c, run: hexadecimal(bytes)}
	s.Pods = poddriver.Start(t, c.RESTConfig(), poddriver.Config{Owns: s.owns})
	return s
}

func (s *StandIns) owns(namespace string) bool {
	return strings.HasPrefix(namespace, namespacePrefix(s.run)) || strings.HasPrefix(namespace, managedPrefix(gatewayPrefix+s.run))
}

// Control runs a controller until the test ends, and installs the definition that it needs where there is none.
func (s *StandIns) Control(t testing.TB, dialect reconcile.Dialect) {
	t.Helper()
	agentsandbox.Start(t, s.cluster.RESTConfig(), agentsandbox.Config{Owns: s.owns, Dialect: dialect, Faults: s.Faults})
}

// Raise runs a mesh in one of the modes operator, shared and managed, with a Gate for each of some daemons and with changes to its
// options, until the test ends.
func (s *StandIns) Raise(t testing.TB, mode string, gated []string, changes ...func(*mesh.Options)) *Site {
	t.Helper()
	site := s.Launch(t, mode, gated, changes...)
	site.AwaitDaemons()
	return site
}

// Launch is Raise that waits for no daemon to be ready.
func (s *StandIns) Launch(t testing.TB, mode string, gated []string, changes ...func(*mesh.Options)) *Site {
	t.Helper()
	site := s.prepare(t, mode)
	for _, daemon := range gated {
		site.Gates[daemon] = NewGate(t, s.cluster)
	}
	site.Namespace(site.Shared, nil)
	site.launch(changes)
	site.connect()
	return site
}

const gatewayPrefix = "gw-"

func namespacePrefix(name string) string { return "lc-" + name }

// managedPrefix begins the names of the namespaces of managed mode.
func managedPrefix(gatewayID string) string { return "openshell-" + gatewayID }

func hexadecimal(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
