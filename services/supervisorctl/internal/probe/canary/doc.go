// Package canary is what runs inside the two Pods of a fence probe, and the report that each leaves behind.
//
// One Pod carries the labels of a workload, the other those of a supervisor, and neither is a sandbox's. The workload canary tries to
// open connections to the targets and must not succeed. That alone proves nothing: the target may be dead, or the Pod without a
// network. So the supervisor canary, which may go everywhere,
//
//  1. opens a connection to every target,
//  2. enters the workload canary at the boundary port, the one door that the fence leaves open,
//  3. knocks at another port of it, which the fence must keep shut,
//  4. has the workload canary, entered, try every target several times in a row, which must fail, and opens a connection to every target
//     at each of these times; then it parts from it,
//  5. opens a connection to every target once more.
//
// When all of it holds, the targets were alive before, after and at each of the tries that count, the network of the workload canary was
// up the whole time, and it was the fence that stood between the two. The order is kept by the connection of step 2 alone, so no clocks
// are compared.
//
// Enforcement sets in some seconds after a Pod starts. Until [Plan.Settle] has passed an open way is no answer; from then on one is.
//
// # Invariants
//
//   - Blocked is only what the network did: a try that failed within the Pod itself counts for neither side.
//   - A report says what was seen and judges nothing. The zero [Seen] was never tried.
//   - A report fits into a container's termination message (4096 bytes), whatever was seen.
//   - Nothing is ever sent to a target. To the other canary goes the name of the probe, and nothing that is secret.
//
// Callers: the command "supervisorctl fence canary" runs it, package probe renders the [Plan] and reads the [Report].
package canary
