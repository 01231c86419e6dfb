// Package app wires nswatch: its settings and, in start order, its parts. It also has the subcommands for people.
//
// The stock settings decide the source: operator_namespace_label or operator_namespace_file. Every replica holds its
// connections and says whether it is ready; the one that holds the Lease runs the source and publishes.
//
// On an embedded server the bootstrap also makes the audit stream, which other daemons write to and nobody else could make.
//
//	NATS server (if embedded) ← connection ← bootstrap (if embedded) ← election → publisher ← source → cluster or file
//
// Invariant: whatever is wrong with settings, keys or files ends the start; nothing is published before the signing
// key is known to be among the keys that this process itself would accept.
//
// Caller: cmd/nswatch.
package app
