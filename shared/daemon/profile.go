package daemon

import (
	"net/http"
	"net/http/pprof"
	"net/netip"
)

// addProfiles serves what net/http/pprof offers, except the command line, which
// may hold secrets. (Importing it also registers on http.DefaultServeMux, which no
// daemon serves.)
func addProfiles(mux *http.ServeMux) {
	for pattern, serve := range map[string]http.HandlerFunc{
		"GET /debug/pprof/":        pprof.Index,
		"GET /debug/pprof/profile": pprof.Profile,
		"GET /debug/pprof/symbol":  pprof.Symbol,
		"GET /debug/pprof/trace":   pprof.Trace,
	} {
		mux.Handle(pattern, loopbackOnly(serve))
	}
}

// loopbackOnly refuses callers from other hosts: profiles tell what the daemon
// holds, and the admin listener of a Pod is open to the cluster.
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !peer.Addr().IsLoopback() {
			http.Error(w, "profiles are for callers from a loopback address", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
