//go:build portcullis_long

package daemons_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
	"github.com/portcullis-mesh/portcullis/test/cluster"
)

// wrongAccess are what may be wrong with a daemon's way to the API server.
func wrongAccess() []wrong {
	return []wrong{
		{name: "token is missing", breaks: without("token")},
		{name: "token is empty", breaks: holding("token", nil)},
		{name: "token is two lines", breaks: holding("token", []byte("a\nb"))},
		{name: "token is of nobody", breaks: holding("token", []byte("nobody"))},
		{name: "kubeconfig is missing", breaks: without("kubeconfig")},
		{name: "API server of another authority", breaks: func(w *ward, f files) { f["api.crt"] = meshtest.NewCA(w.t).PEM }},
	}
}

// grant gives a daemon's ServiceAccount in a namespace the rights that are shipped, for a gateway; only is which kinds of objects.
func grant(t *testing.T, c *cluster.Cluster, namespace, daemon, gateway string, only ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kustomize", "base", daemon, "rbac.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	own := regexp.MustCompile(`(?m)(namespace: )portcullis$|(name: )portcullis-|(portcullis-\w+-)openshell`).ReplaceAllStringFunc(string(text), func(m string) string {
		switch {
		case strings.HasPrefix(m, "namespace: "):
			return "namespace: " + namespace
		case strings.HasPrefix(m, "name: "):
			return "name: " + namespace + "-"
		default:
			return strings.TrimSuffix(m, "openshell") + gateway
		}
	})
	var keep []string
	for document := range strings.SplitSeq(own, "\n---\n") {
		kind := regexp.MustCompile(`(?m)^kind: (\w+)$`).FindStringSubmatch(document)
		for _, k := range only {
			if len(kind) == 2 && kind[1] == k {
				keep = append(keep, document)
			}
		}
		if len(only) == 0 {
			keep = append(keep, document)
		}
	}
	manifests := []byte(strings.Join(keep, "\n---\n"))
	c.Apply(t, "", manifests)
	t.Cleanup(func() { c.Withdraw(t, "", manifests) })
}
