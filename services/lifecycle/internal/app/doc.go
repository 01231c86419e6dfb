// Package app wires lifecycle: its settings and, in start order, its parts.
//
// These are, in operator mode, the reader of the allowlist; the cluster with the view of it; the mesh with the connections to
// supervisorctl and tokenauth; the driver; and the servers on which it is served, for relays where one is asked for and last the
// private Unix socket, under every prefix of the contract. Readiness says which part is missing and why.
//
// The command "relay" is a process of its own, which serves the socket beside a gateway and passes calls on (package relay).
//
// Caller: cmd/lifecycle.
package app
