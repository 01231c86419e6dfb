// Package computev1 is the contract between an OpenShell gateway and a compute driver (contract 1.1
// to 1.5). The invariant is the wire: numbers, names and types are the gateway's, and a test of
// package contract holds them. The lifecycle daemon serves it through contract.Register; the
// reference gateway of the tests calls it.
//
// Everything but this file is generated from the .proto files beside it.
package computev1
