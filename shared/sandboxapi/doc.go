// Package sandboxapi is what Portcullis knows of the Agent Sandbox resource (contract 8): its group, kind and versions, which
// owner reference of a Pod leads to its Sandbox (contract 6.1 step 14), and what decisions read from a Sandbox.
//
// Invariant: reading loses no fact that a refusal rests on. A field that is there in a form that cannot be understood is an
// error and never reads like one that is missing; the zero [Version], [Owner] and [Sandbox] lead to nothing.
//
// The package is pure. Callers: tokenauth, supervisorctl and lifecycle, each with a client of its own.
package sandboxapi
