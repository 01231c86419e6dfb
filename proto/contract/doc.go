// Package contract puts the compute driver contract on the wire: under which names a driver is
// served and called, and what a gateway of an older release needs in addition.
//
// The invariants:
//
//   - The package prefix of the service stands here and nowhere else. Message bytes do not depend on
//     it, the path of a call does (contract 0.2), so one server can answer under several prefixes.
//   - A driver is strict unless it was asked not to be: without WithLegacyGateways the removed method
//     is answered with UNIMPLEMENTED and no message carries a removed field.
//   - The messages are the contract's. The tests of this package hold every number, name, type,
//     reservation and secret mark against a table that was written from the contract, not from the
//     .proto files.
//
// The lifecycle daemon serves with Register; gateways in tests call through NewConn.
package contract
