// Package process starts and stops the programs of a test cluster.
//
// Invariant: a started program never outlives the process that started it, even when that one is
// killed with SIGKILL (parent-death signal), and is stopped by its own id. Output goes to one log
// file per program, and a program that ends early is reported with the end of its log.
//
// Callers: the control plane and the node of test/cluster.
package process
