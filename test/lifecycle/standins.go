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
	const bytes = 3
	s := &StandIns{Faults: new(agentsandbox.Faults), cluster: c, run: hexadecimal(bytes)}
	owns := func(namespace string) bool {
		return strings.HasPrefix(namespace, namespacePrefix(s.run)) || strings.HasPrefix(namespace, managedPrefix(gatewayPrefix+s.run))
	}
	s.Pods = poddriver.Start(t, c.RESTConfig(), poddriver.Config{Owns: owns})
	agentsandbox.Start(t, c.RESTConfig(), agentsandbox.Config{Owns: owns, Dialect: dialect, Faults: s.Faults})
	return s
}

// Raise runs a mesh in one of the modes operator, shared and managed, with a Gate for each of some daemons and with changes to its
// options, until the test ends.
func (s *StandIns) Raise(t testing.TB, mode string, gated []string, changes ...func(*mesh.Options)) *Site {
	t.Helper()
	site := s.prepare(t, mode)
	for _, daemon := range gated {
		site.Gates[daemon] = NewGate(t, s.cluster)
	}
	site.Namespace(site.Shared, nil)
	site.start(changes)
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
