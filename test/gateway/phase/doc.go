// Package phase decides in which phase a sandbox is: what the driver's status means (contract 2.10), what it means together
// with the supervisor's session, and what a stored phase makes of it (contract 2.11).
//
// It is pure: values in, values out, no clock. The gateway applies it to rows; property tests of a driver may use it to see
// what a snapshot does to a gateway.
//
// Invariants:
//
//   - Backend looks at the conditions in the order of contract 2.10 and at nothing else.
//   - An Error or Completed phase is left by no snapshot.
//   - The zero Phase is Unspecified, from which only an observation leads away; no operation is allowed from it but a delete.
package phase
