// Package service answers lifecycle's calls about companion sets: it checks the request, lets package conduct work on the goal, and
// says what became of it.
//
// # Invariants
//
//   - A request is checked whole before anything is looked at, the credential bundle included; what is wrong is named by its field, and
//     nothing of a credential is in any text.
//   - A refusal carries a verdict. Of what the cluster says in refusing an object, its text for the caller has only what package rejection
//     takes out of it. The bundle is wiped before the call returns, and the bytes of the request that it came in.
//   - At most so many calls work at once as the settings allow, in all and for each namespace. The others wait for their turn, as long as
//     their deadline lets them and leaves time for the work; in that time a start is not taken for abandoned by the loop of this process.
//     Status has as many turns of its own, so that neither keeps the other waiting.
//   - The answer is read from the cluster: a repeated call answers the same on any replica. The identity of a run is that which its
//     record says was released, whole or not at all.
//   - Where a probe is required and does not say that the fence of the namespace is enforced, no run is raised; what it says is part of
//     every status.
//   - A Sandbox with another uid, or with another's labels, is never described as the one that is meant.
//
// Caller: the wiring of supervisorctl; over the mesh, lifecycle.
package service
