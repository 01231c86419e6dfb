// Package api holds the names and the shape of the Sandbox custom resource (group agents.x-k8s.io) as the stand-in reads
// and writes it: the fields of contract 8.2 and 8.3, for both served versions in one set of types.
//
// It is written from the contract and shares nothing with the code under test, so that a wrong constant there meets a
// right one here.
//
// Invariant: a value that is decoded with [Decode] and encoded again loses only fields that the CRD manifest does not
// list; the Pod template's spec is carried untouched.
//
// Called by the sibling packages reconcile, crd and agentsandbox, and by tests that build or inspect Sandboxes.
package api
