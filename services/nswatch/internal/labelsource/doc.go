// Package labelsource finds out which namespaces a label selector selects, and what proves it: the label source of
// nswatch (contract 5.1).
//
// Invariants:
//
//   - What is reported is the state of the cluster at the Order that is reported with it, as far as lists and the
//     watch told it; the Order never goes down in the life of a Source (rule W5, bug corpus W01, W02).
//   - Every list is consistent: it is asked for without a resource version, so the API server answers it with the
//     newest state, from etcd or from a watch cache that has caught up with etcd. No list comes in pages: a page would
//     bypass that cache.
//   - A list replaces the set, and events that came while it was on its way are applied to it again. So the proof is
//     renewed also where namespaces change faster than a list takes.
//   - The set changes by nothing but a whole list and the watch's events. Errors, closed watches and doubtful answers
//     change nothing (rule W9).
//   - The loop that decides does no I/O. A list that hangs ends by its deadline, a watch that hangs is found out by
//     the lists, and neither holds the other up (bug corpus W10, W11).
//   - It never gives up, and never asks twice in a row without a pause for what was just refused (bug corpus W04, W05).
//
// # Parts
//
// A pure core (core*.go) is told lists, events, errors and instants, and says what to ask for next and what to report.
// The shell (source.go, requests.go) sends the requests and keeps the clocks, metrics and logs.
//
// Lists go over kubeclient's Calls and the watch over its Watches, so that a dead connection of the watch does not hold
// the proof up. Lists are decoded from protobuf as they arrive, so that one of ten thousand namespaces is never held
// whole, with its labels and managed fields; only name, uid and "is being deleted" are kept.
//
// # A cluster that went back
//
// When the API server's resource versions go back, because etcd was restored from a backup without raising its
// revision, every list is older than what was published. It is refused and the heartbeats stop: the Source cannot tell
// that from a stale server. Restarting nswatch accepts the restored state.
//
// Caller: the wiring of nswatch, which gives a Source to allowkv.Publisher.
package labelsource
