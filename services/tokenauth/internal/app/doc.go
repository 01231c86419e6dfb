// Package app wires tokenauth: its settings and, in start order, its parts.
//
// Today these are the connections that the daemon stands on: NATS (operator mode, for the allowlist), the cluster, and the mesh's server, which only lifecycle may
// call. The service behind it answers UNIMPLEMENTED. Readiness says which part is missing and why.
//
// Caller: cmd/tokenauth.
package app
