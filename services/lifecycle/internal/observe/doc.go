// Package observe is lifecycle's view of the cluster: all sandboxes of one gateway with their Pods and events, kept by lists and
// watches, told to any number of callers, and asked by the calls that read (contract 2.8, 2.9, 7.14, 10).
//
// # What a caller of Watch is told
//
// Every sandbox that there is, then every change, in order. For one sandbox, by its id:
//
//   - A snapshot is never older than one before it. States that follow each other faster than the caller takes them become one.
//   - A deletion is told once for each time that the sandbox went, also when it went while no watch ran. It comes before the snapshots
//     of a sandbox that is made under the same id again.
//   - Platform events are told once for each time that they happened, in the order in which the cluster told of them.
//
// Nothing else is left out for a caller that is slow: when it leaves more than a bounded number of deletions and events waiting, its
// stream ends with ErrBehind, which it answers by opening another. Ends of the cluster's own watches, forgotten versions and lists
// after them do not show (bug corpus G08, G10, W20). Every 30 s each sandbox is told again, as long as the view is current, so a
// stream that is silent for longer means that nobody knows. A stream is only begun while the view is current: else what it began with
// could be older than what its caller has heard elsewhere.
//
// # Never an older state
//
// The versions of one resource are numbers that grow. What the watch tells of an object is dropped when it is not newer than what is
// known of it, and of an object that is not known when it is not newer than all that was seen: it went meanwhile. A list that is older
// than what was seen is refused (bug corpus W01, W02). When a cluster is restored from a backup, every list is: the view stays
// stale, readiness says so, and lifecycle is to be restarted.
//
// # Two sandboxes with one id
//
// In operator mode whoever may create Sandboxes in a listed namespace can make one with the id of another's. Nothing in the objects
// proves which is the gateway's: labels and annotations are whatever their author wrote, and which is older says nothing after a restore.
// So there is no choice between them, and nobody else's sandbox may suffer from it: Get refuses the id, List leaves it out, and the stream
// is silent about it until one is left. Leaving out is no absence: a gateway drops a sandbox only when it is not in the list and Get says
// NOT_FOUND (contract 2.9), and Get says it only when a live look finds no object with the id
// in a place of ours.
//
// When the one that the callers were told of goes, that is a deletion, told before anything about the other: a sandbox is its object's
// uid, and not whatever bears its id.
//
// # Pods that are not known
//
// While the view of Pods is not current, no Pod counts as there, as gone or as ready: a sandbox is told by its object alone, which has
// the readiness that was last published (contract 7.13), and is told again when the Pods are known.
//
// # Absence
//
// The view alone never proves it. List answers only while the view is current: the cluster has answered within Settings.MaxAge, and the
// watch is not broken. Get looks live before it says that there is no such sandbox.
//
// # Parts
//
// The core (core*.go, caller.go) is pure: lists, changes and the time in, messages out, no clock and no I/O; one lock is around it. The
// followers (follow.go) keep it fed from three sources, which are interfaces; Kube (kube*.go) makes them of the API server. Of an
// object only what package snapshot reads is kept, so five thousand sandboxes fit in some 30 MiB.
//
// Rights that it needs: list and watch on sandboxes, pods and events, in the one namespace of shared mode and else in the cluster.
//
// Callers: the wiring of lifecycle, and its driver.
package observe
