// Package meshtest makes the certificates of a mesh for tests: a certificate
// authority, daemon certificates and certificates that are wrong in one way, in
// files that are replaced the way the kubelet replaces a Secret volume.
//
// The invariant: [CA.Issue] without changes is right in every respect, and each
// [Change] breaks exactly one thing.
//
// Used by the tests of meshrpc and of every module that runs daemons; production
// code does not import it.
package meshtest
