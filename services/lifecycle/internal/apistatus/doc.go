// Package apistatus says what of an API server's refusal may be repeated, and to whom.
//
// The API server, its admission policies and webhooks answer in words of their own, of any length, and quote what they refuse: of a
// Sandbox that is an environment with whatever its owner has put there.
//
// # Invariants
//
//   - Told, which is for whoever made the request, has no word of the message: the reason of the status, the paths of the fields, and the
//     name of the quota, policy or webhook, each only if it has the form of one, and all of bounded length.
//   - Logged, which is for the operator, is bounded and has no value that a field error quotes.
//
// The package is pure. Callers: packages cluster, driver and workspaces.
package apistatus
