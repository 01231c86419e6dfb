// Package keeper shares one test cluster per profile between test processes.
//
// A detached process, the keeper, owns the cluster's programs. Every user holds a shared lock on a
// file; the keeper stops the cluster once nobody has held it for a while. Locks belong to processes,
// so the kernel releases those of a test that crashed, and the programs die with the keeper.
//
// Invariant: at most one cluster per profile and user runs at a time; it is never stopped while a
// user holds it; whatever a crash left behind is removed before the next start.
//
// Callers: package cluster and the kube command.
package keeper
