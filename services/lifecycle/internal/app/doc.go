// Package app wires lifecycle: its settings and, in start order, its parts.
//
// Today these are the cluster and the private Unix socket with the compute driver's service on it,
// under every prefix of the contract. The service refuses every call. Readiness says which part is
// missing and why.
//
// Caller: cmd/lifecycle.
package app
