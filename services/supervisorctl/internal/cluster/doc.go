// Package cluster reads and writes the objects of companion sets at the API server, one request for each method.
//
// # Invariants
//
//   - A read answers with the object, with [ErrAbsent], which only the API server itself can say of this very object, or with any
//     other error, which says nothing about the object.
//   - Every read is live: it goes to the API server and asks for its newest state.
//   - A delete names the uid that was seen; Secrets, which must not be read, are deleted by their exact names. What is not there any
//     more, or has another uid, counts as deleted.
//   - A write to a Sandbox names the resourceVersion that it rests on. The gate of a Pod is lifted only from the Pod with the uid, and
//     only if the gate is what it was.
//   - Every request has a deadline. Requests that may have been carried out without our learning it are errors with [ErrUnsettled].
//   - What becomes of a write is judged by what the API server itself said. A proxy's answer in its place refuses nothing and proves
//     nothing.
//   - No error repeats anything of a Secret, whoever refuses it.
//
// Rights that it needs: get on pods, services, networkpolicies and namespaces; create and delete on pods and services, patch on
// pods; create on networkpolicies; create and delete on secrets; get and patch on sandboxes; in the settings' own namespace get on
// the Secrets that the settings name. Reopened fences need list on networkpolicies.
//
// Caller: package conduct.
package cluster
