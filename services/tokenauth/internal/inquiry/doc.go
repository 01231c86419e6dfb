// Package inquiry finds out who one bearer is: it puts the questions of package authenticate to the cluster and to the
// allowlist, until the evaluator has its answer.
//
// # Invariants
//
//   - The evaluator alone decides. What is asked, and in which order, is what it asks for; an inquiry that comes to no end
//     refuses.
//   - Every fact is read after the call came in, and for this call. Nothing that decides is kept for the next one: no answer, no
//     refusal, no object, no review. What is kept, of Pods that were granted, is where to look: the name of a Pod's Sandbox.
//   - A read that was begun early, on the word of claims that nobody had verified or of where a Sandbox was, is an answer only
//     when the review names the Pod of the claims by name and uid, when the evaluator asks in the same words, the same
//     namespace, name and version, and when it ended no longer than 500 ms before it is asked for. Otherwise it is thrown away,
//     whatever it found, and the cluster is asked again.
//   - Tokens that nobody has verified change nothing that is remembered, and do not have it in hand how many requests run at a
//     time: 64 inquiries at most read ahead, and beyond that one thing is read after the other.
//   - All reads have ended when an inquiry returns.
//
// # Reading ahead
//
// The sequence TokenReview, Pod, Sandbox is three round trips. The token says which Pod it is bound to, so the Pod, the
// Sandbox that owns it, and outside of shared mode the Namespace are read while the review runs. Only namespaces that the
// gateway could accept are read in, so a made-up token learns and costs nothing elsewhere. The Pod says which Sandbox owns it,
// so the Sandbox comes after the Pod, but for a Pod that was granted before: its Sandbox is remembered, and both are read at
// once.
//
// What is read ahead counts as the first attempt of its read, also when it failed: it was made for this call. What our own rate
// limit held back was not made at all, and is asked for when the evaluator asks. That the Pod is not there is asked for again,
// as it is without reading ahead: a Pod that has just started may not be visible yet to the API server that is asked (bug
// corpus T14). A Pod that is there and does not match is never asked for twice.
//
// # Why there is no cache
//
// A positive answer that is kept would have to be dropped when the list changes, the Pod or the Sandbox is deleted or changed,
// the token is revoked, or its ServiceAccount goes; all but the first are known only by asking, which is what a cache is to
// save. A supervisor presents its token once in a while, for a session of its own, so there is next to nothing to save (bug
// corpus T11, T12). Refusals and errors are never kept either: what was refused a moment ago may be right now.
//
// The callers are package service and tokenauth's explain command.
package inquiry
