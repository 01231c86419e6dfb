package supervisor

import (
	"maps"
	"net/http"

	"github.com/portcullis-mesh/portcullis/test/apiproxy"
)

// Use is what a request does to a resource.
type Use struct {
	apiproxy.Use
	// Denied says that the API server answered 401 or 403.
	Denied bool
}

// Uses are what the daemon has asked for so far, and the API server has answered, each with how often.
func (g *Gate) Uses() map[Use]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.uses)
}

func (g *Gate) used(use apiproxy.Use, status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.uses[Use{use, status == http.StatusForbidden || status == http.StatusUnauthorized}]++
}
