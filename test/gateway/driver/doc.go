// Package driver is the gateway's connection to a compute driver: dialling, the handshake, and the admission policy's
// acknowledgement (contract 2.1 to 2.4).
//
// Invariants:
//
//   - A Driver exists only when the handshake succeeded: compatible metadata on both sides and a policy that equals ours.
//   - Capabilities are those of the handshake, for ever; only the policy's string is asked for again.
//   - Acknowledged is to be asked before each validate, create and start, and compares bytes.
//   - Only a process of our own uid is believed to be the driver (contract 2.2).
//
// The metadata's rules are here in full, written from the contract, as the drivers have them on their side.
//
// Callers: package gateway; tests that want the handshake alone.
package driver
