// Package natstest runs real NATS servers with JetStream inside a test.
//
// A Server has one address and one store for the length of the test: it can be stopped, started again on the same
// store (what a restart is), wiped, or not started at all at first (what a late dependency is). A Cluster is three
// of them with replicated JetStream. Everything is stopped, and its goroutines are gone, when the test ends.
//
// Fsync is off (the embedded server of production has it on), so a restart keeps the data and a power cut would
// not. For faults on the wire put a netfault.Proxy in front of Addr.
//
// Callers: tests of natsconn and of every package that speaks JetStream. Production code must not import it.
package natstest
