// Package leadership lets one of several processes of a daemon work at a time. It competes for a Kubernetes Lease and gives whoever
// holds it a term.
//
// The Lease spares others two writers that take turns; it is not what keeps them safe. A former holder may be slow to stop, so
// every write must rest on what it read: in nswatch that is the compare-and-set and the epoch of every record (rule W1), in
// supervisorctl the resourceVersion or the uid of every object. They hold with two holders, too.
//
// Invariants:
//
//   - A term has ended, or has been told to end, when the last renewal that succeeded began longer than renew_deadline
//     ago. That is before anybody else can take the Lease, whether the API server refuses, hangs or is gone
//     (bug corpus E01).
//   - No request for the Lease takes longer than a quarter of renew_deadline, so that one that hangs leaves time for
//     others (bug corpus E04).
//   - On a clean stop the Lease is released first, and only then the term is told (rule W10). A Lease that cannot be
//     released is treated as lost.
//   - There is one term at a time; the next one begins after the last one has returned.
//
// Whether a process leads says nothing about whether it is well: no readiness check is here (bug corpus E07).
//
// What belongs to one daemon, its name, comes from the caller: it is in the names of the Lease and of the metrics.
//
// Callers: the wiring of nswatch and of supervisorctl.
package leadership
