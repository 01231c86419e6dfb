// Package sandboxapi is what Portcullis knows of the Agent Sandbox resource (contract 8): its group, kind and versions, which
// owner reference of a Pod leads to its Sandbox (contract 6.1 step 14), and what decisions read from a Sandbox.
//
// Invariants:
//
//   - Decisions rest on metadata alone, so that is all that is read: a Sandbox may be as large as its cluster lets it, and its
//     spec is whoever's who wrote it.
//   - Reading loses no fact that a refusal rests on: a deletion timestamp counts whatever it says.
//   - The zero [Version], [Owner] and [Sandbox] lead to nothing.
//
// The package is pure. The caller today is tokenauth, with a client of its own.
package sandboxapi
