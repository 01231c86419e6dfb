// Package progress makes the contract's DriverPlatformEvent of the cluster's events about a sandbox, with the metadata that drives the
// gateway's progress display (contract 10): in every workspace mode, and of the Sandbox and both its Pods.
//
// Invariants:
//
//   - An event is passed on once for each time that it happened: a cluster repeats an event by counting it up, and tells of it again
//     after every list (see Seen).
//   - Only events about the workload Pod move the progress display. The supervisor Pod passes through the same reasons at another
//     time, and would make it jump.
//   - Every text is bounded, valid UTF-8 and one line. What an event says is whoever's who wrote it.
//
// The package is pure. Caller: package observe, which knows whose sandbox an event is about.
package progress
