// Package sandboxapi is what Portcullis knows of the Agent Sandbox resource (contract 8): its group, kind and versions, which
// owner reference of a Pod leads to its Sandbox (contract 6.1 step 14), and what decisions read from a Sandbox.
//
// [Sandbox] is read from metadata alone, [Object] is the whole: for those who raise and stop what a Sandbox describes.
//
// Invariants:
//
//   - Whoever needs only metadata reads only metadata: a Sandbox may be as large as its cluster lets it, and its spec is whoever's
//     who wrote it.
//   - Reading loses no fact that a refusal rests on: a deletion timestamp counts whatever it says.
//   - The zero [Version], [Owner] and [Sandbox] lead to nothing.
//
// The package is pure. Callers: tokenauth and supervisorctl, each with a client of its own.
package sandboxapi
