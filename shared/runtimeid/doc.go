// Package runtimeid makes and reads the runtime identity of a running sandbox, kubernetes://{namespace}/{sandbox uid}/{supervisor uid}
// (contract 6.2, 2.13). The gateway stores it at create and start as a text that means nothing to it, and issues a token only
// when authentication gives the same text.
//
// Invariants:
//
//   - An [Identity] is made by [New] or [Parse] only, and is then complete. The zero Identity is none: it has no text and is
//     the same sandbox as nothing, not even itself.
//   - There is one text for an identity and one identity for a text: Parse accepts exactly what String writes.
//   - A start compares namespace and sandbox uid and nothing else ([Identity.SameSandbox]): the supervisor is a new Pod each
//     time. Authentication compares all of it, with ==.
//
// The caller today is tokenauth, which makes the identity of a bearer. Parse and SameSandbox are for who compares it with the one
// that the gateway has stored.
package runtimeid
