// Package podevent tells by Kubernetes Events, on a daemon's own Pod, why the daemon is not ready: what /readyz says, where a person looks
// who has kubectl describe pod.
//
// A readiness check is a reason: the check "bucket" is BucketNotReady, and the message is its line in /readyz. When all that was told is
// over, one more Event, Ready, says so.
//
// Invariants:
//
//   - A reason has one Event per Pod, also over restarts of the process: it is counted and its message is brought up to date.
//   - Nothing is told that is over within patience, so a rollout that goes well tells nothing.
//   - All writes of an announcer, those that fail included, are at most burst at once and one per refill after that, and besides one for
//     each time that all that was told is over.
//   - Telling never delays or ends the daemon: whoever observes only leaves a note, and what cannot be written is a log line and a metric.
//   - The text is that of /readyz, which has no secrets in it.
//
// The rights that it takes are create and patch on events in the Pod's namespace.
//
// Callers: shared/command, for every daemon that has settings of a Kubernetes client.
package podevent
