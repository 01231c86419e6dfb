// Package lookups asks the API server what an authentication rests on: the TokenReview of a credential, and the live
// Namespace, Pod and Sandbox.
//
// # Invariants
//
//   - Every answer is read after it was asked for: no cache, and no resource version that would let the API server answer
//     from one of its own.
//   - [ErrAbsent] is in an error only when the API server said that this object does not exist. That it does not know the
//     resource, or that something before it answered 404, is another error.
//   - No error and no answer repeats the credential, nor our own, whatever the API server does with them, or what is in its
//     place (architecture, rule 6): errors are texts of ours, by kind.
//   - Of objects only the metadata is read: they may be as large as the cluster lets them, and decisions rest on nothing else.
//   - Every request has a deadline, the caller's or Timeout, whichever is first. Waiting for the client's own rate limit and
//     for a Retry-After counts.
//
// What it needs in RBAC: the verb create on tokenreviews of authentication.k8s.io, and get on pods, on sandboxes of
// agents.x-k8s.io and, in managed and operator mode, on namespaces.
//
// The caller is package inquiry.
package lookups
