// Package apiproxy stands between a daemon and the API server and fails as a test tells it to: for one resource or for all, once or
// until it is mended, with an answer of its own, without one, or after the API server has answered.
//
// Invariant: what is not broken is passed on as it came, with the daemon's own credentials; the proxy has none.
//
// Callers: tests of daemons on a real API server.
package apiproxy
