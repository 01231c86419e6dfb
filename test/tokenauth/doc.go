// Package tokenauth sets up the daemon tokenauth inside a test: a ServiceAccount with just the rights that it is shipped with,
// the daemon as a process, lifecycle's side of the mesh, and bearers.
//
// A bearer is what lifecycle leaves in a cluster for one sandbox: a Sandbox with the gateway's label and the supervisor's uid, the
// supervisor Pod that it owns, and a token that the API server bound to this Pod, as the kubelet asks for one. The Pod is gated, so
// no machine ever runs it; its token is as good as that of one that runs.
//
// Invariants: without a change a bearer is right in every respect, so a test breaks one thing; and when the test ends, no process of
// it has written anything of any bearer's token.
//
// Callers: the tests of tokenauth on real parts, beside this file, and the benchmark.
package tokenauth
