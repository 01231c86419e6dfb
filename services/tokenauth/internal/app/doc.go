// Package app wires tokenauth: its settings and, in start order, its parts.
//
// These are the connection to NATS (operator mode, for the allowlist, and any mode for the audit stream when NATS is
// configured), the reader of the allowlist (operator mode), the audit trail, the cluster, the service, and the mesh's server,
// which only lifecycle may call. They stop in the reverse order, so calls end before what they stand on.
//
// Readiness says which part is missing and why. In operator mode it is a no while the list is not Fresh, since every call would
// be refused. The connection to NATS is no part of it: a list stays Fresh through a short outage, and calls are answered. Nor
// is the audit stream, since no decision waits for it.
//
// The command explain makes one decision with the same parts, without the mesh, and shows its steps. The command audit
// bootstrap makes the audit stream, with credentials of its own that the daemon does not need.
//
// Caller: cmd/tokenauth.
package app
