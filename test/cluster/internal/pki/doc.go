// Package pki makes the certificates of a test cluster: one authority, and leaves signed by it.
//
// Invariant: keys stay in files that only their owner can read, below the cluster's directory, and
// are valid for a day, longer than any test run and too short to be mistaken for anything real.
//
// Callers: the control plane and the node of test/cluster.
package pki
