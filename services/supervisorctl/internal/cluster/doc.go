// Package cluster reads and writes the objects of companion sets at the API server, one request for each method.
//
// # Invariants
//
//   - A read answers with the object, with [ErrAbsent], which only the API server itself can say of this very object, or with any
//     other error, which says nothing about the object.
//   - Every read is live: it goes to the API server and asks for its newest state; save [Cluster.Policies], which decides nothing.
//   - A delete names the uid that was seen, or, of a Secret, which must not be read, the one that the answer to its creation told. What
//     is not there any more, or has another uid, counts as deleted.
//   - A write to a Sandbox names the resourceVersion that it rests on, or, where nothing of the status matters, all else that it rests on:
//     the uid, the generation, the labels and the annotations. The gate of a Pod is lifted only in the version of it that was seen.
//   - Every request has a deadline; a watch ends with its context. Requests that may have been carried out without our learning it are errors with [ErrUnsettled].
//   - What becomes of a write is judged by what the API server itself said. A proxy's answer in its place refuses nothing and proves
//     nothing.
//   - No error repeats anything of a Secret, whoever refuses it.
//
// Rights that it needs: get on pods, services, networkpolicies and namespaces; watch on pods; create and delete on pods and services, patch on
// pods; create and list on networkpolicies; create and delete on secrets; get and patch on sandboxes; create and patch on events; in the
// settings' own namespace get on the Secrets that the settings name.
//
// Caller: package conduct.
package cluster
