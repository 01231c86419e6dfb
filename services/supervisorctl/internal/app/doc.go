// Package app wires supervisorctl: its settings and, in start order, its parts.
//
// Today these are a look at the proxy's CA bundle (contract 3.1) and the connections that the daemon stands on: the cluster and
// the mesh's server, which only lifecycle may call. The service behind it answers UNIMPLEMENTED. Readiness says which part is missing and why.
//
// Caller: cmd/supervisorctl.
package app
