// Package lookups asks the API server what an authentication rests on: the TokenReview of a credential, and the live
// Namespace, Pod and Sandbox.
//
// # Invariants
//
//   - Every answer is read after it was asked for: no cache, and no resource version that would let the API server answer
//     from one of its own.
//   - [ErrAbsent] is in an error only when the API server said that this object does not exist. That it does not know the
//     resource, or that something before it answered 404, is another error.
//   - No error and no answer repeats the credential, whatever the API server does with it (architecture, rule 6).
//   - Every request has a deadline, the caller's or Timeout, whichever is first. Waiting for the client's own rate limit and
//     for a Retry-After counts.
//
// What it asks for in RBAC: create on tokenreviews, get on namespaces, pods and sandboxes.
//
// The caller is package inquiry.
package lookups
