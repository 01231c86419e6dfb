// Package app wires nswatch: its settings and, in start order, its parts.
//
// Today these are the connections that the daemon stands on: NATS, as an embedded server too when
// nats.embedded says so, and the cluster. Readiness says which of them is missing and why.
//
// Caller: cmd/nswatch.
package app
