// Package service answers the mesh's Authenticate call.
//
// # Invariants
//
//   - Every call is decided once, by one [verdict.Decision], which is what the caller gets, the metrics count and the audit
//     trail records. A defect on the way, a panic included, is a refusal.
//   - What comes in is bounded: in size by the mesh's server and by the evaluator, in number at once over all, per caller and
//     per bearer, and in time by the caller's deadline or CallTimeout, whichever is first. Too many calls are refused at once; none waits
//     for another but those for the same token, see package flight.
//   - The credential leaves this package only towards package inquiry. Logs, metrics, errors and audit events know it by its
//     fingerprint.
//   - No result is kept for another call; package inquiry says why.
//
// # Calls that share
//
// Calls with the same credential for the same gateway that come in while one of them is being decided wait for one more
// decision, which is then the answer to all of them, and rests on nothing that was read before they came. They are found by a keyed hash
// of the credential, with a key of this process. One call's end ends no other.
//
// The caller is tokenauth's wiring.
package service
